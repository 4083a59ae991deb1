// One outbound webhook with its deliveries, and how a receiver verifies them.

import { PagedList } from "../api/list.js";
import { endingText } from "../models/endings.js";
import { href } from "../router.js";
import { actionButton, confirm, openMessage, runDirectly, Task } from "../ui/actions.js";
import { capital, count, fullTime, number, words } from "../ui/format.js";
import { byId, html, nothing } from "../ui/lit.js";
import { icon, stateBadge, tag, time } from "../ui/marks.js";
import {
  described,
  empty,
  listView,
  loading,
  options,
  pageHeader,
  problem,
  secretBox,
  spoken,
  table,
} from "../ui/parts.js";

/**
 * @import { Delivery, DeliveryAttempt, Webhook } from "../../../wasm/pkg/operations.js"
 * @import { Context } from "../context.js"
 */

const STATUSES = /** @type {const} */ (["pending", "delivered", "dead"]);

/** @type {Record<string, string>} */
const EXPLANATIONS = {
  unconfirmed: "Its URL has not answered a ping of this organisation with 2xx yet. Events wait.",
  inactive: "It was deactivated. Events that happen now are not sent to it.",
  gone: "It answered 410 Gone, so the service disabled it. Events become dead letters.",
  failing: "It failed for so long that the service disabled it. Events become dead letters.",
};

/** What delays the next ping to an unconfirmed URL. @type {Record<string, string>} */
const DELAYS = {
  no_answer: "The last ping was not answered.",
  host_limit: "Its host has received as many pings in an hour as it may.",
  organization_limit: "This organisation has sent as many pings to its host in an hour as it may.",
};

const NODE_EXAMPLE = `import { Webhook } from "standardwebhooks";

const rawBody = await request.text();
const event = new Webhook(secret).verify(rawBody, headers);`;

const PYTHON_EXAMPLE = `from standardwebhooks.webhooks import Webhook

raw_body = request.get_data()
event = Webhook(secret).verify(raw_body, headers)`;

/**
 * Names the state of a webhook.
 * @param {Webhook} webhook
 */
export function webhookState({ state, disabled_reason }) {
  if (state !== "disabled") return state;
  return disabled_reason === null ? "inactive" : "failing";
}

/**
 * Shows when the URL of an unconfirmed webhook is asked next, and what delays that.
 * @param {Webhook} webhook
 */
export function nextPing({ confirmation }) {
  if (!confirmation?.reason) return nothing;
  return html`<span>${DELAYS[confirmation.reason]} Next ping ${time(confirmation.next_attempt_at)}.</span>`;
}

export class WebhookView {
  id;
  #context;
  #task;
  /** @type {Webhook | null} */
  #webhook = null;
  /** @type {PagedList<Delivery>} */
  #deliveries;
  #status = "";

  /**
   * @param {Context} context
   * @param {string} id
   */
  constructor(context, id) {
    const { operations, workspace, refresh } = context;
    this.id = id;
    this.#context = context;
    this.#task = new Task(refresh);
    const readPage = (/** @type {{ limit: number, cursor?: string }} */ page) =>
      operations.listWebhookDeliveries(workspace.id, id, { status: this.#status, ...page });
    this.#deliveries = new PagedList(readPage, refresh);
  }

  /** @param {URLSearchParams} query */
  open(query) {
    this.#status = query.get("status") ?? "";
    this.#reload();
  }

  #reload() {
    const { operations, workspace } = this.#context;
    this.#deliveries.reload();
    return this.#task.run(async () => {
      this.#webhook = await operations.getWebhook(workspace.id, this.id);
    });
  }

  render() {
    const back = html`<p class="back"><a href=${this.#href()}>Webhooks</a></p>`;
    const webhook = this.#webhook;
    if (!webhook)
      return html`${back}
        <h1 tabindex="-1">Webhook</h1>
        ${this.#task.error ? problem(this.#task.error, () => this.#reload()) : loading()}`;
    const cause = webhook.disabled_reason ?? webhookState(webhook);
    const explanation = endingText(webhook.ended_reason, webhook.ended_at) ?? EXPLANATIONS[cause];
    const lead = html`${stateBadge(webhookState(webhook))} ${tag(webhook.event_type)}
      <span>${explanation ?? nothing}</span> ${nextPing(webhook)}`;
    return html`
      ${back} ${pageHeader({ title: webhook.url, lead, actions: this.#actions(webhook) })}
      <section class="card flush" aria-labelledby="deliveries">
        <div class="card-head">
          <h2 id="deliveries">Deliveries</h2>
          <div class="actions">
            <label class="inline">
              <span>Status</span>
              <select @change=${(/** @type {Event} */ event) => this.#filter(event)}>
                ${options([["", "Any"], ...spoken(STATUSES)], this.#status)}
              </select>
            </label>
            ${actionButton(this.#context, {
              needs: "webhook:manage",
              label: "Redeliver all dead",
              isOffered: webhook.is_active,
              run: () => this.#redeliverDead(),
            })}
            <button type="button" @click=${() => this.#reload()}>${icon("retry")}Refresh</button>
          </div>
        </div>
        ${listView(this.#deliveries, {
          items: (deliveries) =>
            html`<ul class="entries">
              ${byId(deliveries, (delivery) => this.#delivery(delivery, webhook))}
            </ul>`,
          empty: empty({
            symbol: "webhooks",
            title: "No deliveries",
            text: "A test event shows whether the URL answers.",
          }),
        })}
      </section>
    `;
  }

  /** @param {Webhook} webhook */
  #actions(webhook) {
    const { is_active, ended_reason } = webhook;
    // Neither has an effect on one that has ended or is suspended; a deactivated one gets no pings.
    const isEnded = ended_reason !== null;
    return html`
      ${actionButton(this.#context, {
        needs: "webhook:manage",
        label: "Send a test event",
        look: "primary",
        isOffered: !isEnded && webhookState(webhook) !== "inactive",
        run: () => this.#ping(),
      })}
      ${actionButton(this.#context, {
        needs: "webhook:manage",
        label: "Rotate secret",
        run: () => this.#rotate(),
      })}
      ${actionButton(this.#context, {
        needs: "webhook:manage",
        label: is_active ? "Deactivate" : "Activate",
        isOffered: !isEnded,
        run: () => this.#setActive(!is_active),
      })}
      ${actionButton(this.#context, {
        needs: "webhook:manage",
        label: "Delete",
        look: "danger",
        run: () => this.#delete(),
      })}
    `;
  }

  /**
   * @param {Delivery} delivery
   * @param {Webhook} webhook
   */
  #delivery(delivery, webhook) {
    const { id, attempts, status } = delivery;
    return html`
      <li>
        <details>
          <summary>
            ${icon("next")}
            <span class="entry-action"><code>${delivery.event_type}</code></span>
            <span class="faint">${count(attempts.length, "attempt")}${this.#next(delivery)}</span>
            ${stateBadge(status)}
            <time class="faint nowrap" datetime=${delivery.created_at}>${fullTime(delivery.created_at)}</time>
          </summary>
          <div class="entry-body">
            ${attempts.length > 0 ? attemptsTable(attempts) : html`<p class="faint">No attempt has been made yet.</p>`}
            <dl class="facts">
              ${described("webhook-id", html`<code>${id}</code>`)}
              ${described("Event", html`<code>${delivery.event_id}</code>`)}
            </dl>
            ${actionButton(this.#context, {
              needs: "webhook:manage",
              label: "Redeliver",
              symbol: "retry",
              name: `Redeliver ${delivery.event_type} of ${fullTime(delivery.created_at)}`,
              isOffered: webhook.is_active,
              run: () => this.#redeliver(id),
            })}
          </div>
        </details>
      </li>
    `;
  }

  /**
   * Says when a delivery is attempted next. While the URL is unconfirmed, events wait for that, and
   * a ping that is due for what delays it.
   * @param {Delivery} delivery
   */
  #next({ event_type, next_attempt_at }) {
    if (next_attempt_at === null) return nothing;
    const webhook = this.#webhook;
    if (!webhook || webhookState(webhook) !== "unconfirmed") return html`, next ${time(next_attempt_at)}`;
    if (event_type !== "webhook.ping") return ", sent once its URL is confirmed";
    const delayed = webhook.confirmation?.next_attempt_at ?? next_attempt_at;
    return html`, next ${time(Date.parse(next_attempt_at) <= Date.now() ? delayed : next_attempt_at)}`;
  }

  /** @param {Event} event */
  #filter(event) {
    const { value } = /** @type {HTMLSelectElement} */ (event.currentTarget);
    location.hash = href({
      workspace: this.#context.workspace.slug,
      screen: "webhooks",
      item: this.id,
      query: { status: value },
    });
  }

  #ping() {
    const { operations, workspace, announce } = this.#context;
    return runDirectly(this.#context, async () => {
      await operations.pingWebhook(workspace.id, this.id);
      announce("The test event is being sent. Refresh to see the result.");
      await this.#reload();
    });
  }

  /** @param {string} delivery */
  #redeliver(delivery) {
    const { operations, workspace, announce } = this.#context;
    return runDirectly(this.#context, async () => {
      await operations.redeliverToWebhook(workspace.id, this.id, delivery);
      announce("It is being sent again. Refresh to see the result.");
      await this.#reload();
    });
  }

  #redeliverDead() {
    const { operations, workspace, announce } = this.#context;
    return runDirectly(this.#context, async () => {
      const { redelivered, has_more } = await operations.redeliverDeadToWebhook(workspace.id, this.id);
      const rest = has_more ? " There are more: repeat it." : "";
      announce(
        redelivered === 0
          ? "There are no dead letters."
          : `Sending ${count(redelivered, "delivery", "deliveries")} again.${rest}`,
      );
      await this.#reload();
    });
  }

  /** @param {boolean} is_active */
  #setActive(is_active) {
    const { operations, workspace } = this.#context;
    return runDirectly(this.#context, async () => {
      await operations.updateWebhook(workspace.id, this.id, { is_active });
      await this.#reload();
    });
  }

  #rotate() {
    const { operations, workspace } = this.#context;
    confirm(this.#context, {
      title: "Rotate the signing secret?",
      submit: "Rotate",
      text: "For 24 hours deliveries are signed with both secrets. From now on it receives what you may know of.",
      run: async () => {
        const { signing_secret } = await operations.rotateWebhookSecret(workspace.id, this.id);
        const box = { label: "The new signing secret", value: signing_secret };
        openMessage(this.#context, "Signing secret", () => html`${secretBox(box)} ${verification()}`);
        await this.#reload();
      },
    });
  }

  #delete() {
    const { operations, workspace } = this.#context;
    confirm(this.#context, {
      title: "Delete this webhook?",
      submit: "Delete",
      isDangerous: true,
      text: "Its deliveries are deleted too, and nothing more is sent to its URL.",
      run: async () => {
        await operations.deleteWebhook(workspace.id, this.id);
        location.hash = this.#href();
      },
    });
  }

  #href() {
    return href({ workspace: this.#context.workspace.slug, screen: "webhooks" });
  }
}

/** @param {DeliveryAttempt[]} attempts */
function attemptsTable(attempts) {
  const row = (/** @type {DeliveryAttempt} */ { at, duration_ms, status, error }) => html`
    <tr>
      <th scope="row">${fullTime(at)}</th>
      <td data-label="Answer">${status === null ? words(error?.code ?? "") : status}</td>
      <td data-label="Took">${number(duration_ms)} ms</td>
      <td data-label="Reason">${capital(error?.message ?? "")}</td>
    </tr>
  `;
  return table(["Attempt", "Answer", "Took", "Reason"], attempts.map(row));
}

/** Shows how a receiver verifies a delivery. */
export const verification = () => html`
  <section class="verification">
    <h3>Verify each delivery</h3>
    <p>
      Deliveries are signed according to Standard Webhooks 1.0.0, over the raw body, before any parsing. A receiver
      checks three headers:
    </p>
    <dl class="facts">
      ${described(
        html`<code>webhook-id</code>`,
        "The same for each attempt of a delivery: store it and ignore repetitions.",
      )}
      ${described(html`<code>webhook-timestamp</code>`, "Reject a time that is more than five minutes off.")}
      ${described(
        html`<code>webhook-signature</code>`,
        html`<code>v1,</code> and the base64 of the HMAC-SHA256 over <code>id.timestamp.body</code>. There are two,
          separated by a space, for 24 hours after the secret was rotated: one that matches suffices.`,
      )}
    </dl>
    <h4>Node.js</h4>
    <pre tabindex="0"><code>${NODE_EXAMPLE}</code></pre>
    <h4>Python</h4>
    <pre tabindex="0"><code>${PYTHON_EXAMPLE}</code></pre>
    <p class="faint">
      Answer 2xx as soon as the delivery is stored. Anything else is repeated, with growing delays, for three days.
    </p>
  </section>
`;
