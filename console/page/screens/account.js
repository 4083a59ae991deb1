// The member who is signed in, and what else is signed in as this member.

import { PagedList } from "../api/list.js";
import { confirm } from "../ui/actions.js";
import { capital } from "../ui/format.js";
import { html, repeat } from "../ui/lit.js";
import { time } from "../ui/marks.js";
import { actionsHeading, empty, listView, pageHeader, table } from "../ui/parts.js";

/**
 * @import { Credential } from "../api/operations.js"
 * @import { Context } from "../context.js"
 */

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
              repeat(
                credentials,
                ({ id }) => id,
                (credential) => this.#row(credential),
              ),
            ),
          empty: empty({ symbol: "key", title: "Nothing", text: "Nothing acts as you." }),
        })}
      </section>
    `;
  }

  /** @param {Credential} credential */
  #row({ id, kind, name, created_at, last_used_at, expires_at, current }) {
    const end = () => this.#end(id, name);
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
                ? html`<span class="faint">This session</span>`
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
    confirm(this.#context, {
      title: `End ${name}?`,
      operation: "endCredential",
      submit: "End",
      isDangerous: true,
      text: "It stops working at once.",
      run: async () => {
        await this.#context.account.endCredential(id);
        await this.#list.reload();
      },
    });
  }
}
