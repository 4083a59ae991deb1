// The members of an organisation: their roles, teams and roles in workspaces.

import { PagedList } from "../api/list.js";
import { BUILT_IN_ROLES, SLUG_PATTERN } from "../models/vocabulary.js";
import {
  actionButton,
  confirm,
  createButton,
  listOf,
  openForm,
  openMessage,
  runDirectly,
  textOf,
} from "../ui/actions.js";
import { words } from "../ui/format.js";
import { byId, html, nothing } from "../ui/lit.js";
import { tag, time } from "../ui/marks.js";
import {
  actionsHeading,
  described,
  listView,
  named,
  pageHeader,
  secretBox,
  selectField,
  table,
  textField,
} from "../ui/parts.js";

/**
 * @import { AddedMember, Member, MemberDetails, Workspace } from "../../../wasm/pkg/operations.js"
 * @import { ApiError } from "../api/error.js"
 * @import { Context } from "../context.js"
 * @import { Directory } from "../directory.js"
 * @import { Option } from "../ui/parts.js"
 */

export class MembersScreen {
  #context;
  #organization;
  /** @type {PagedList<Member>} */
  #list;

  /** @param {Context} context */
  constructor(context) {
    const { organization } = context;
    this.#context = context;
    this.#organization = organization;
    this.#list = new PagedList((page) => organization.listMembers(page), context.refresh);
  }

  open() {
    this.#list.reload();
  }

  render() {
    const add = createButton(this.#context, "member:manage", "Add member", () => this.#add());
    return html`
      ${pageHeader({ title: "Members", lead: "People and programs, and what they may do.", actions: add })}
      <section class="card flush" aria-label="Members">
        ${listView(this.#list, {
          items: (members) => this.#table(members),
          // Whoever sees the list is in it.
          empty: nothing,
        })}
      </section>
    `;
  }

  /** @param {Member[]} members */
  #table(members) {
    return table(
      ["Name", "Role", "Teams", "Added", actionsHeading],
      byId(members, (member) => this.#row(member)),
    );
  }

  /** @param {Member} member */
  #row(member) {
    const { name, handle, kind } = member;
    const { access, directory } = this.#context;
    return html`
      <tr>
        <th scope="row">
          ${name} <span class="faint block">${handle}${kind === "user" ? nothing : html` · ${words(kind)}`}</span>
        </th>
        <td data-label="Role">${directory.roleName(member.role)}</td>
        <td data-label="Teams">
          <span class="tags"
            >${member.teams.length > 0 ? member.teams.map(tag) : html`<span class="faint">none</span>`}</span
          >
        </td>
        <td data-label="Added" class="nowrap">${time(member.created_at)}</td>
        <td>${access.covers(member.role) ? this.#actions(member) : nothing}</td>
      </tr>
    `;
  }

  /** @param {Member} member */
  #actions(member) {
    const { name, role } = member;
    const { items, hasMore } = this.#list;
    const needs = "member:manage";
    return html`
      <div class="actions">
        ${actionButton(this.#context, { needs, label: "Edit", name: `Edit ${name}`, run: () => this.#edit(member) })}
        ${actionButton(this.#context, {
          needs,
          label: "Workspaces",
          name: `Workspaces of ${name}`,
          isOffered: this.#mayAssign(member),
          run: () => this.#assign(member),
        })}
        ${actionButton(this.#context, {
          needs,
          label: "Remove",
          name: `Remove ${name}`,
          look: "danger",
          // The only owner has to stay.
          isOffered: role !== "owner" || hasMore || items.some((other) => other.role === role && other !== member),
          run: () => this.#remove(member),
        })}
      </div>
    `;
  }

  /**
   * Returns false for the caller, unless it is an owner: others do not change their own roles.
   * @param {Member} member
   */
  #mayAssign({ id }) {
    return this.#context.access.isOwner || id !== this.#context.member?.id;
  }

  /**
   * Returns the roles that the caller can give to a member; those of one workspace only there.
   * @returns {Option[]}
   */
  #roleOptions(isOrganizationWide = false) {
    const { access, directory } = this.#context;
    const roles = directory.roles.filter(
      ({ is_active, workspace_id }) => is_active && (!isOrganizationWide || workspace_id === null),
    );
    const pairs = [...BUILT_IN_ROLES.map((role) => [role, role]), ...named(roles)];
    return /** @type {Option[]} */ (pairs.filter(([id = ""]) => access.covers(id)));
  }

  #add() {
    openForm(this.#context, {
      title: "Add member",
      submit: "Add",
      fields: (error) => html`
        <div class="field-row">
          ${textField({ name: "name", label: "Name", error })}
          ${textField({
            name: "handle",
            label: "Handle",
            pattern: SLUG_PATTERN,
            lengthMax: 64,
            hint: "For user: labels, such as maya.",
            error,
          })}
        </div>
        <div class="field-row">
          ${selectField({
            name: "kind",
            label: "Kind",
            values: [
              ["user", "Person"],
              ["service_account", "Service account"],
            ],
          })}
          ${selectField({ name: "role", label: "Role", values: this.#roleOptions(true), value: "member", error })}
        </div>
        ${teamsField([], error)}
        <label class="inline">
          <input type="checkbox" name="login_link" />
          <span>Show a link with which a person signs in once, within 24 hours</span>
        </label>
        <p class="faint">Otherwise the operator gives the new member a way to sign in.</p>
      `,
      run: async (data) => {
        const kind = /** @type {Member["kind"]} */ (textOf(data, "kind"));
        const asks = kind === "user" && data.has("login_link");
        const added = await this.#organization.addMember({
          name: textOf(data, "name"),
          handle: textOf(data, "handle"),
          kind,
          role: textOf(data, "role"),
          teams: listOf(data, "teams"),
          login_link: asks,
        });
        if (asks) this.#showLink(added.data);
        await this.#list.reload();
      },
    });
  }

  /** @param {AddedMember} member */
  #showLink({ name, login_link }) {
    if (login_link === null) {
      // The request was repeated, and the response with the link was lost.
      this.#context.announce(`${name} was added, but the link was lost. Ask your operator for another one.`);
      return;
    }
    const box = {
      label: "The link",
      value: login_link.url ?? login_link.secret,
      advice: "Pass it on by a private channel.",
    };
    openMessage(this.#context, name, () => secretBox(box));
  }

  /** @param {Member} shown */
  async #edit(shown) {
    await runDirectly(this.#context, async () => {
      const { body, etag } = await this.#organization.getMember(shown.id);
      const member = body.data;
      openForm(this.#context, {
        title: `Edit ${member.name}`,
        submit: "Save",
        fields: (error) => html`
          ${textField({ name: "name", label: "Name", value: member.name, error })}
          ${
            this.#mayAssign(member)
              ? selectField({
                  name: "role",
                  label: "Role in the organisation",
                  values: this.#roleOptions(true),
                  value: member.role,
                  error,
                })
              : nothing
          }
          ${teamsField(member.teams, error)}
        `,
        run: async (data) => {
          const role = textOf(data, "role") || member.role;
          const change = { name: textOf(data, "name"), role, teams: listOf(data, "teams") };
          await this.#organization.updateMember(member.id, change, etag);
          await this.#list.reload();
        },
      });
    });
  }

  /**
   * Changes the role of a member in one workspace.
   * @param {Member} shown
   */
  async #assign(shown) {
    await runDirectly(this.#context, async () => {
      const member = (await this.#organization.getMember(shown.id)).body.data;
      const { workspaces, workspace: open, directory } = this.#context;
      openForm(this.#context, {
        title: `Workspace roles of ${member.name}`,
        submit: "Assign",
        fields: (error) => html`
          <p>
            A role in a workspace replaces the role in the organisation there. A private workspace exists only for
            members with a role in it, and for owners.
          </p>
          <dl class="facts">
            ${workspaces.map((workspace) => described(nameOf(workspace), roleIn(member, workspace, directory)))}
          </dl>
          <div class="field-row">
            ${selectField({
              name: "workspace",
              label: "Workspace",
              values: workspaces.map((workspace) => /** @type {Option} */ ([workspace.id, nameOf(workspace)])),
              value: open.id,
            })}
            ${selectField({
              name: "role",
              label: "Role",
              values: [["", "None of its own"], ...this.#roleOptions().filter(([id]) => id !== "owner")],
              value: roleId(member, open.id),
              error,
            })}
          </div>
        `,
        run: async (data) => {
          const [workspace, role] = [textOf(data, "workspace"), textOf(data, "role")];
          if (role !== "") await this.#organization.assignWorkspaceRole(member.id, workspace, role);
          else if (roleId(member, workspace)) await this.#organization.endWorkspaceRole(member.id, workspace);
        },
      });
    });
  }

  /** @param {Member} member */
  #remove(member) {
    confirm(this.#context, {
      title: `Remove ${member.name}?`,
      submit: "Remove",
      isDangerous: true,
      text: `The tokens, sessions and MCP keys of ${member.name} stop working at once. What ${member.name} added stays.`,
      run: async () => {
        await this.#organization.removeMember(member.id);
        await this.#list.reload();
      },
    });
  }
}

/** @param {Workspace} workspace */
const nameOf = ({ name, access }) => (access === "private" ? `${name} (private)` : name);

/**
 * Names the role of a member in a workspace.
 * @param {MemberDetails} member
 * @param {Workspace} workspace
 * @param {Directory} directory
 */
function roleIn(member, { id, access }, directory) {
  const own = roleId(member, id);
  const isIn = access === "open" || member.role === "owner";
  return own ? directory.roleName(own) : html`<span class="faint">${isIn ? "as in the organisation" : "none"}</span>`;
}

/**
 * @param {MemberDetails} member
 * @param {string} workspace
 */
const roleId = (member, workspace) =>
  member.workspace_roles.find(({ workspace_id }) => workspace_id === workspace)?.role;

/**
 * @param {string[]} teams
 * @param {ApiError | null} error
 */
const teamsField = (teams, error) =>
  textField({
    name: "teams",
    label: "Teams",
    value: teams.join(", "),
    isRequired: false,
    lengthMax: 1_024,
    hint: "Separated by commas. Their team: labels cover the member.",
    error,
  });
