// The outbound and inbound webhooks of a workspace.

import { PagedList } from "../api/list.js";
import { endingText } from "../models/endings.js";
import { EVENT_TYPES } from "../models/vocabulary.js";
import { href } from "../router.js";
import { actionButton, confirm, createButton, openForm, openMessage, textOf } from "../ui/actions.js";
import { byId, html, nothing } from "../ui/lit.js";
import { stateBadge, tag, time } from "../ui/marks.js";
import { actionsHeading, empty, listView, pageHeader, secretBox, selectField, table, textField } from "../ui/parts.js";
import { nextPing, verification, WebhookView, webhookState } from "./webhook.js";

/**
 * @import { EventType, InboundWebhook, Webhook } from "../../../wasm/pkg/operations.js"
 * @import { Context } from "../context.js"
 * @import { Route } from "../router.js"
 */

const URL_LENGTH_MAX = 2_048;

export class WebhooksScreen {
  #context;
  /** @type {PagedList<Webhook>} */
  #outbound;
  /** @type {PagedList<InboundWebhook>} */
  #inbound;
  /** The webhook that is shown in place of the lists. @type {WebhookView | null} */
  #view = null;

  /** @param {Context} context */
  constructor(context) {
    const { operations, workspace, refresh } = context;
    this.#context = context;
    this.#outbound = new PagedList((page) => operations.listWebhooks(workspace.id, page), refresh);
    this.#inbound = new PagedList((page) => operations.listInboundWebhooks(workspace.id, page), refresh);
  }

  /** @param {Route} route */
  open({ item, query }) {
    if (item !== "") {
      if (this.#view?.id !== item) this.#view = new WebhookView(this.#context, item);
      this.#view.open(query);
      return;
    }
    this.#view = null;
    this.#outbound.reload();
    if (this.#seesInbound) this.#inbound.reload();
  }

  get #seesInbound() {
    return this.#context.access.holds("inbound_webhook:manage");
  }

  render() {
    if (this.#view) return this.#view.render();
    const verify = html`<button
      type="button"
      @click=${() => openMessage(this.#context, "Verify a delivery", verification)}
    >
      How to verify
    </button>`;
    const inbound = html`
      <section class="card flush" aria-labelledby="inbound">
        <div class="card-head">
          <h2 id="inbound">Inbound</h2>
          ${createButton(this.#context, "inbound_webhook:manage", "New inbound webhook", () => this.#createInbound())}
        </div>
        ${listView(this.#inbound, {
          items: (webhooks) => this.#inboundTable(webhooks),
          empty: empty({
            symbol: "import",
            title: "No inbound webhooks",
            text: "An inbound webhook has a URL to which another system posts memories.",
          }),
        })}
      </section>
    `;
    return html`
      ${pageHeader({ title: "Webhooks", lead: "Tell other systems what changes here, and let them send memories.", actions: verify })}
      <section class="card flush" aria-labelledby="outbound">
        <div class="card-head">
          <h2 id="outbound">Outbound</h2>
          ${createButton(this.#context, "webhook:manage", "New webhook", () => this.#create())}
        </div>
        ${listView(this.#outbound, {
          items: (webhooks) => this.#outboundTable(webhooks),
          empty: empty({
            symbol: "webhooks",
            title: "No webhooks",
            text: "A webhook sends each event of one type to a URL, signed.",
          }),
        })}
      </section>
      ${this.#seesInbound ? inbound : nothing}
    `;
  }

  /** @param {Webhook[]} webhooks */
  #outboundTable(webhooks) {
    const address = (/** @type {string} */ item) =>
      href({ workspace: this.#context.workspace.slug, screen: "webhooks", item });
    const row = (/** @type {Webhook} */ webhook) => html`
      <tr>
        <th scope="row"><a class="break" href=${address(webhook.id)}>${webhook.url}</a></th>
        <td data-label="Event">${tag(webhook.event_type)}</td>
        <td data-label="State">
          ${stateBadge(webhookState(webhook))} ${nextPing(webhook)}
          <span class="faint block">${endingText(webhook.ended_reason, webhook.ended_at) ?? nothing}</span>
        </td>
        <td data-label="Registered" class="nowrap">${time(webhook.created_at)}</td>
      </tr>
    `;
    return table(["URL", "Event", "State", "Registered"], byId(webhooks, row));
  }

  /** @param {InboundWebhook[]} webhooks */
  #inboundTable(webhooks) {
    const row = (/** @type {InboundWebhook} */ webhook) => html`
      <tr>
        <th scope="row">${webhook.name} <code class="block break">${webhook.url}</code></th>
        <td data-label="State">
          ${stateBadge(webhook.state)}
          <span class="faint block">${endingText(webhook.ended_reason, webhook.ended_at) ?? nothing}</span>
        </td>
        <td data-label="Acts as">${this.#context.directory.memberName(webhook.acts_as)}</td>
        <td data-label="Registered" class="nowrap">${time(webhook.created_at)}</td>
        <td>
          <div class="actions">
            ${actionButton(this.#context, {
              needs: "inbound_webhook:manage",
              label: "Rotate secret",
              name: `Rotate the secret of ${webhook.name}`,
              run: () => this.#rotateInbound(webhook),
            })}
            ${actionButton(this.#context, {
              needs: "inbound_webhook:manage",
              label: "Delete",
              name: `Delete ${webhook.name}`,
              look: "danger",
              run: () => this.#deleteInbound(webhook),
            })}
          </div>
        </td>
      </tr>
    `;
    return table(["Name and URL", "State", "Acts as", "Registered", actionsHeading], byId(webhooks, row));
  }

  #create() {
    const { operations, workspace } = this.#context;
    openForm(this.#context, {
      title: "New webhook",
      submit: "Create",
      fields: (error) => html`
        ${selectField({ name: "event_type", label: "Event", values: EVENT_TYPES, error })}
        ${textField({
          name: "url",
          label: "URL",
          type: "url",
          lengthMax: URL_LENGTH_MAX,
          hint: "It receives a signed webhook.ping, and events once it has answered that with 2xx.",
          error,
        })}
      `,
      run: async (data) => {
        const event_type = /** @type {EventType} */ (textOf(data, "event_type"));
        const { signing_secret } = await operations.createWebhook(workspace.id, {
          event_type,
          url: textOf(data, "url"),
        });
        this.#showSecret(signing_secret);
        await this.#outbound.reload();
      },
    });
  }

  #createInbound() {
    const { operations, workspace } = this.#context;
    openForm(this.#context, {
      title: "New inbound webhook",
      submit: "Create",
      fields: (error) =>
        textField({ name: "name", label: "Name", hint: "What it sends comes from a source of this name.", error }),
      run: async (data) => {
        const { signing_secret } = await operations.createInboundWebhook(workspace.id, { name: textOf(data, "name") });
        this.#showSecret(signing_secret);
        await this.#inbound.reload();
      },
    });
  }

  /** @param {InboundWebhook} webhook */
  #rotateInbound({ id, name }) {
    const { operations, workspace } = this.#context;
    confirm(this.#context, {
      title: `Rotate the secret of ${name}?`,
      submit: "Rotate",
      text: "For 24 hours the old secret is valid too. From now on the webhook acts as you.",
      run: async () => {
        this.#showSecret((await operations.rotateInboundWebhookSecret(workspace.id, id)).signing_secret);
        await this.#inbound.reload();
      },
    });
  }

  /** @param {InboundWebhook} webhook */
  #deleteInbound({ id, name }) {
    const { operations, workspace } = this.#context;
    confirm(this.#context, {
      title: `Delete ${name}?`,
      submit: "Delete",
      isDangerous: true,
      text: "Its URL stops working at once. The memories that came through it stay.",
      run: async () => {
        await operations.deleteInboundWebhook(workspace.id, id);
        await this.#inbound.reload();
      },
    });
  }

  /** @param {string | null} secret */
  #showSecret(secret) {
    const box = { label: "The signing secret", value: secret ?? "" };
    openMessage(this.#context, "Signing secret", () => html`${secretBox(box)} ${verification()}`);
  }
}
