// The custom roles of an organisation.

import { PagedList } from "../api/list.js";
import { ACTIONS, BUILT_IN_ROLES, SLUG_PATTERN } from "../models/vocabulary.js";
import { actionButton, createButton, openForm, runDirectly, textOf } from "../ui/actions.js";
import { count } from "../ui/format.js";
import { byId, html, nothing } from "../ui/lit.js";
import { stateBadge, tag } from "../ui/marks.js";
import { described, empty, listView, named, options, pageHeader, selectField, textField } from "../ui/parts.js";

/**
 * @import { Action, CustomRole } from "../../../wasm/pkg/operations.js"
 * @import { ApiError } from "../api/error.js"
 * @import { Context } from "../context.js"
 * @import { Option } from "../ui/parts.js"
 */

const BASE_ROLES = BUILT_IN_ROLES.slice(0, 2);
/** @type {Option[]} */
const STATES = [
  ["", "As base role"],
  ["allow", "Allow"],
  ["deny", "Deny"],
];
const DESCRIPTION_LENGTH_MAX = 1_024;

export class RolesScreen {
  #context;
  #organization;
  #list;

  /** @param {Context} context */
  constructor(context) {
    this.#context = context;
    this.#organization = context.organization;
    this.#list = new PagedList(() => context.directory.readRoles(), context.refresh);
  }

  open() {
    this.#list.reload();
  }

  render() {
    const create = createButton(this.#context, "role:manage", "New role", () => this.#create());
    const lead = "A custom role is a viewer or a member with some actions added or denied.";
    return html`${pageHeader({ title: "Roles", lead, actions: create })} ${this.#body()}`;
  }

  #body() {
    return listView(this.#list, {
      items: (roles) =>
        html`<ul class="cards">
          ${byId(roles, (role) => this.#card(role))}
        </ul>`,
      empty: empty({
        symbol: "roles",
        title: "No custom roles",
        text: "Members hold built-in roles: viewer, member, admin or owner.",
      }),
    });
  }

  /** @param {CustomRole} role */
  #card(role) {
    const { access } = this.#context;
    const { allow, deny } = role.actions;
    const scope = role.workspace_id === null ? "everywhere" : `only in ${this.#workspaceName(role.workspace_id)}`;
    const actions = (/** @type {string} */ label, /** @type {string[]} */ names) =>
      names.length > 0 ? described(label, html`<span class="tags">${names.map(tag)}</span>`) : nothing;
    return html`
      <li class="card">
        <div class="card-head">
          <h2>${role.name}</h2>
          ${stateBadge(role.is_active ? "active" : "inactive")}
        </div>
        <p>${role.description}</p>
        <p class="faint"><code>${role.slug}</code> · ${role.base_role}, ${scope}</p>
        <dl class="lists">${actions("Also allows", allow)} ${actions("Denies", deny)}</dl>
        ${access.covers(role.id) && (access.isOwner || !access.hasRole(role.id)) ? this.#actions(role) : nothing}
      </li>
    `;
  }

  /** @param {CustomRole} role */
  #actions(role) {
    return html`
      <div class="actions">
        ${actionButton(this.#context, {
          needs: "role:manage",
          label: "Edit",
          name: `Edit ${role.name}`,
          run: () => this.#edit(role),
        })}
        ${actionButton(this.#context, {
          needs: "role:manage",
          label: role.is_active ? "Deactivate" : "Activate",
          name: `${role.is_active ? "Deactivate" : "Activate"} ${role.name}`,
          run: () => this.#setActive(role),
        })}
        ${actionButton(this.#context, {
          needs: "role:manage",
          label: "Delete",
          name: `Delete ${role.name}`,
          look: "danger",
          run: () => this.#delete(role),
        })}
      </div>
    `;
  }

  /** @param {string} id */
  #workspaceName(id) {
    return this.#context.workspaces.find((workspace) => workspace.id === id)?.name ?? "another workspace";
  }

  #create() {
    const workspaces = this.#context.workspaces.map(({ id, name }) => /** @type {Option} */ ([id, `Only in ${name}`]));
    openForm(this.#context, {
      title: "New role",
      submit: "Create",
      fields: (error) => html`
        ${this.#fields(null, error)}
        ${selectField({ name: "workspace_id", label: "Can be held", values: [["", "Everywhere"], ...workspaces], error })}
        ${actionFields(null)}
      `,
      run: async (data) => {
        const workspace_id = textOf(data, "workspace_id");
        const role = { ...roleOf(data), ...(workspace_id === "" ? {} : { workspace_id }) };
        await this.#organization.createCustomRole(role);
        await this.#list.reload();
      },
    });
  }

  /** @param {CustomRole} shown */
  async #edit(shown) {
    await runDirectly(this.#context, async () => {
      const { body, etag } = await this.#organization.getCustomRole(shown.id);
      const role = body.data;
      openForm(this.#context, {
        title: `Edit ${role.name}`,
        submit: "Save",
        fields: (error) => html`${this.#fields(role, error)} ${actionFields(role)}`,
        run: async (data) => {
          await this.#organization.updateCustomRole(role.id, roleOf(data), etag);
          await this.#list.reload();
        },
      });
    });
  }

  /** @param {CustomRole} role */
  async #setActive({ id, is_active }) {
    await runDirectly(this.#context, async () => {
      const { etag } = await this.#organization.getCustomRole(id);
      await this.#organization.updateCustomRole(id, { is_active: !is_active }, etag);
      await this.#list.reload();
    });
  }

  /** @param {CustomRole} role */
  #delete(role) {
    const others = this.#context.directory.roles.filter(
      ({ id, is_active, workspace_id }) => id !== role.id && is_active && workspace_id === null,
    );
    /** @type {Option[]} */
    const values = [["", "Nobody holds it"], ...BASE_ROLES, ...named(others)];
    openForm(this.#context, {
      title: `Delete ${role.name}?`,
      submit: "Delete",
      isDangerous: true,
      fields: (error) => html`
        <p>The role is gone at once. If members hold it, choose the role that they get instead.</p>
        ${selectField({ name: "reassign_to", label: "Its holders become", values, error, problem: holders(error) })}
      `,
      run: async (data) => {
        const reassign_to = textOf(data, "reassign_to");
        await this.#organization.deleteCustomRole(role.id, reassign_to === "" ? {} : { reassign_to });
        await this.#list.reload();
      },
    });
  }

  /**
   * @param {CustomRole | null} role
   * @param {ApiError | null} error
   */
  #fields(role, error) {
    return html`
      <div class="field-row">
        ${textField({ name: "name", label: "Name", value: role?.name, error })}
        ${textField({
          name: "slug",
          label: "Slug",
          value: role?.slug,
          pattern: SLUG_PATTERN,
          lengthMax: 64,
          hint: "Only a-z, 0-9, -, _ and .",
          error,
        })}
      </div>
      ${textField({
        name: "description",
        label: "Description",
        value: role?.description,
        isRequired: false,
        lengthMax: DESCRIPTION_LENGTH_MAX,
        error,
      })}
      ${selectField({ name: "base_role", label: "Extends", values: BASE_ROLES, value: role?.base_role, error })}
    `;
  }
}

/**
 * Shows a choice for each action.
 * @param {CustomRole | null} role
 */
function actionFields(role) {
  const stateOf = (/** @type {Action} */ action) =>
    role?.actions.allow.includes(action) ? "allow" : role?.actions.deny.includes(action) ? "deny" : "";
  const row = (/** @type {Action} */ action) => html`
    <li>
      <label for="action-${action}"><code>${action}</code></label>
      <select id="action-${action}" name="action-${action}">
        ${options(STATES, stateOf(action))}
      </select>
    </li>
  `;
  return html`
    <fieldset>
      <legend>Actions</legend>
      <ul class="action-list" tabindex="0" aria-label="Actions">
        ${ACTIONS.map(row)}
      </ul>
    </fieldset>
  `;
}

/** @param {FormData} data */
function roleOf(data) {
  const withState = (/** @type {string} */ state) => ACTIONS.filter((action) => data.get(`action-${action}`) === state);
  return {
    name: textOf(data, "name"),
    slug: textOf(data, "slug"),
    description: textOf(data, "description"),
    base_role: /** @type {CustomRole["base_role"]} */ (textOf(data, "base_role")),
    actions: { allow: withState("allow"), deny: withState("deny") },
  };
}

/**
 * Returns how many members hold a role that could therefore not be deleted.
 * @param {ApiError | null} error
 */
function holders(error) {
  const holderCount = error?.details.holder_count;
  return holderCount === undefined
    ? undefined
    : `held by ${count(holderCount, "member")}; choose another role for them`;
}
