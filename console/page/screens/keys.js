// The MCP keys of a workspace.

import { PagedList } from "../api/list.js";
import { coverageOf } from "../models/labels.js";
import { endingText } from "../models/endings.js";
import { MCP_CLIENTS } from "../models/vocabulary.js";
import { actionButton, confirm, createButton, listOf, openForm, openMessage, textOf } from "../ui/actions.js";
import { capital, words } from "../ui/format.js";
import { byId, html, nothing } from "../ui/lit.js";
import { stateBadge, tag, time } from "../ui/marks.js";
import {
  actionsHeading,
  empty,
  listView,
  named,
  pageHeader,
  secretBox,
  selectField,
  spoken,
  table,
  textField,
} from "../ui/parts.js";

/**
 * @import { IssuedMcpKey, McpKeySummary } from "../../../wasm/pkg/operations.js"
 * @import { Context } from "../context.js"
 */

const DAY_SECONDS = 24 * 60 * 60;
const ROTATION_DAYS = 90;
const LABELS_LENGTH_MAX = 2_048;

export class KeysScreen {
  #context;
  /** @type {PagedList<McpKeySummary>} */
  #list;

  /** @param {Context} context */
  constructor(context) {
    this.#context = context;
    this.#list = new PagedList((page) => context.operations.listMcpKeys(context.workspace.id, page), context.refresh);
  }

  open() {
    this.#list.reload();
  }

  render() {
    const create = createButton(this.#context, "mcp_key:manage", "New key", () => this.#create());
    return html`
      ${pageHeader({ title: "MCP keys", lead: "With a key, an assistant reads the memories of its audience.", actions: create })}
      <section class="card flush" aria-label="MCP keys">
        ${listView(this.#list, {
          items: (keys) => this.#table(keys),
          empty: empty({ symbol: "key", title: "No keys", text: "Create one to connect an assistant." }),
        })}
      </section>
    `;
  }

  /** @param {McpKeySummary[]} keys */
  #table(keys) {
    return table(
      ["Name", "State", "Audience", "Last used", "Rotate by", actionsHeading],
      byId(keys, (key) => this.#row(key)),
    );
  }

  /** @param {McpKeySummary} key */
  #row(key) {
    const { name } = key;
    const { access } = this.#context;
    // The key then acts as the caller, whom its audience must cover.
    const isRotated = key.audience.every((label) => access.isCoveredBy(label));
    return html`
      <tr>
        <th scope="row">${name} <span class="faint block">${capital(words(key.client))}</span></th>
        <td data-label="State">
          ${stateBadge(key.state)}
          <span class="faint block">${endingText(key.endedReason, key.endedAt) ?? nothing}</span>
          ${key.proposalSourceId ? html`<span class="faint block">Proposes memories</span>` : nothing}
        </td>
        <td data-label="Audience"><span class="tags">${key.audience.map(tag)}</span></td>
        <td data-label="Last used" class="nowrap">${time(key.lastUsedAt)}</td>
        <td data-label="Rotate by" class="nowrap">${time(key.rotatesAt)}</td>
        <td>
          <div class="actions">
            ${actionButton(this.#context, {
              needs: "mcp_key:manage",
              label: "Rotate",
              name: `Rotate ${name}`,
              isOffered: isRotated,
              run: () => this.#rotate(key),
            })}
            ${actionButton(this.#context, {
              needs: "mcp_key:manage",
              label: "Revoke",
              name: `Revoke ${name}`,
              look: "danger",
              run: () => this.#revoke(key),
            })}
          </div>
        </td>
      </tr>
    `;
  }

  #create() {
    const { operations, workspace, directory } = this.#context;
    openForm(this.#context, {
      title: "New MCP key",
      submit: "Create",
      fields: (error) => html`
        <div class="field-row">
          ${textField({ name: "name", label: "Name", hint: "Such as whose computer it is on.", error })}
          ${selectField({ name: "client", label: "Client", values: spoken(MCP_CLIENTS), error })}
        </div>
        ${textField({
          name: "audience",
          label: "Audience",
          value: workspace.audience,
          lengthMax: LABELS_LENGTH_MAX,
          hint: html`Labels that cover you too, separated by commas. The key reads only what they cover.
          ${coverageOf(workspace)}`,
          error,
        })}
        ${textField({
          name: "rotationSeconds",
          label: "Days until it must be rotated",
          value: String(ROTATION_DAYS),
          type: "number",
          error,
        })}
        ${selectField({
          name: "proposalSourceId",
          label: "Source of the memories that it may propose",
          values: [["", "None: it proposes none"], ...named(directory.openSources)],
          error,
        })}
      `,
      run: async (data) => {
        const proposalSourceId = textOf(data, "proposalSourceId");
        const key = await operations.createMcpKey(workspace.id, {
          name: textOf(data, "name"),
          client: textOf(data, "client"),
          audience: listOf(data, "audience"),
          rotationSeconds: Number(textOf(data, "rotationSeconds")) * DAY_SECONDS,
          ...(proposalSourceId === "" ? {} : { proposalSourceId }),
        });
        this.#showSecret(key);
        await this.#list.reload();
      },
    });
  }

  /** @param {McpKeySummary} key */
  #rotate({ id, name }) {
    const { operations, workspace } = this.#context;
    confirm(this.#context, {
      title: `Rotate ${name}?`,
      submit: "Rotate",
      text: "The old key stops working at once. The new one acts as you.",
      run: async () => {
        this.#showSecret(await operations.rotateMcpKey(workspace.id, id));
        await this.#list.reload();
      },
    });
  }

  /** @param {McpKeySummary} key */
  #revoke({ id, name }) {
    const { operations, workspace } = this.#context;
    confirm(this.#context, {
      title: `Revoke ${name}?`,
      submit: "Revoke",
      isDangerous: true,
      text: "The key stops working at once, and cannot be restored.",
      run: async () => {
        await operations.revokeMcpKey(workspace.id, id);
        await this.#list.reload();
      },
    });
  }

  /** @param {IssuedMcpKey} key */
  #showSecret({ name, secret }) {
    openMessage(this.#context, name, () => secretBox({ label: "The key", value: secret ?? "" }));
  }
}
