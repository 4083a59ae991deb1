// The member who is signed in, and what else is signed in as this member.

import { PagedList } from "../api/list.js";
import { endingText } from "../models/endings.js";
import { openForm } from "../ui/actions.js";
import { capital } from "../ui/format.js";
import { byId, html, nothing } from "../ui/lit.js";
import { stateBadge, time } from "../ui/marks.js";
import { actionsHeading, empty, listView, pageHeader, table } from "../ui/parts.js";

/**
 * @import { Created, Credential } from "../api/operations.js"
 * @import { Context } from "../context.js"
 */

const KINDS = {
  mcp_key: "MCP key",
  token: "Token",
  webhook: "Webhook",
  inbound_webhook: "Inbound webhook",
  citation_subscription: "Citation subscription",
};

/**
 * Shows what a credential created, and offers to end that too.
 * @param {Created[]} created
 */
export const creations = (created) => html`
  <p>This was created with it. What belongs to you goes on working:</p>
  <ul class="rows">
    ${byId(
      created,
      ({ kind, name, state, ended_reason, ended_at }) =>
        html`<li>
          <div>
            <strong>${name}</strong>
            <p class="faint">${KINDS[kind]}</p>
            ${ended_reason === null ? nothing : html`<p class="faint">${endingText(ended_reason, ended_at, kind !== "token")}</p>`}
          </div>
          ${stateBadge(state)}
        </li>`,
    )}
  </ul>
  <label class="inline">
    <input type="checkbox" name="with_created" />
    <span>End all of it too, because the credential may have leaked</span>
  </label>
`;

export class AccountScreen {
  #context;
  /** @type {PagedList<Credential>} */
  #list;

  /** @param {Context} context */
  constructor(context) {
    this.#context = context;
    this.#list = new PagedList((page) => context.account.listCredentials(page), context.refresh);
  }

  open() {
    this.#list.reload();
  }

  render() {
    const { member } = this.#context;
    return html`
      ${pageHeader({ title: "Account", lead: `You are ${member?.name} (${member?.handle}). Signed in as you:` })}
      <section class="card flush" aria-label="Sessions and tokens">
        ${listView(this.#list, {
          items: (credentials) =>
            table(
              ["Name", "Created", "Last used", "Expires", actionsHeading],
              byId(credentials, (credential) => this.#row(credential)),
            ),
          empty: empty({ symbol: "key", title: "Nothing", text: "Nothing acts as you." }),
        })}
      </section>
    `;
  }

  /** @param {Credential} credential */
  #row({ id, kind, name, created_at, last_used_at, expires_at, current }) {
    const end = () => this.#end(id, current ? "this session" : name);
    return html`
      <tr>
        <th scope="row">${name} <span class="faint block">${capital(kind)}</span></th>
        <td data-label="Created" class="nowrap">${time(created_at)}</td>
        <td data-label="Last used" class="nowrap">${time(last_used_at)}</td>
        <td data-label="Expires" class="nowrap">${time(expires_at)}</td>
        <td>
          <div class="actions">
            ${
              current
                ? html`<span class="faint">This session</span>
                    <button type="button" @click=${end}>What it created</button>`
                : html`<button type="button" class="danger" aria-label=${`End ${name}`} @click=${end}>End</button>`
            }
          </div>
        </td>
      </tr>
    `;
  }

  /**
   * @param {string} id
   * @param {string} name
   */
  #end(id, name) {
    const { account, refresh } = this.#context;
    /** @type {PagedList<Created>} */
    const created = new PagedList((page) => account.listCreatedWith(id, page), refresh);
    created.reload();
    openForm(this.#context, {
      title: `End ${name}?`,
      submit: "End",
      isDangerous: true,
      fields: () => html`
        <p>It stops working at once.</p>
        ${listView(created, { items: creations, empty: html`<p class="faint">It has created nothing.</p>` })}
      `,
      run: async (data) => {
        await account.endCredential(id, data.has("with_created"));
        await this.#list.reload();
      },
    });
  }
}
