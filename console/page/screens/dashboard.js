// The dashboard of a workspace: its backlog, activity, connectors, first steps, keys and chats. Its
// charts are drawn as SVG; each is an image with a text that says the same.

import { ApiError } from "../api/error.js";
import { ACTIVITY_DAYS, backlogs } from "../models/activity.js";
import { peopleOf } from "../models/labels.js";
import { endingText } from "../models/endings.js";
import { href } from "../router.js";
import { confirm, Task } from "../ui/actions.js";
import { capital, count, number, shortDate, words } from "../ui/format.js";
import { html, nothing, svg } from "../ui/lit.js";
import { icon, stateBadge, tag, time } from "../ui/marks.js";
import { empty, loading, pageHeader, problem } from "../ui/parts.js";

/**
 * @import { Action, ActivityDay, ChatSummary, ChecklistStep, ConnectorHealth, DashboardSummary, McpKeySummary } from "../../../wasm/pkg/operations.js"
 * @import { Context } from "../context.js"
 */

/**
 * Screens on which the steps of the checklist are taken, and the actions that they require; others
 * are taken elsewhere.
 * @type {Record<string, [screen: string, needs: Action]>}
 */
const STEPS = {
  ingest_first_memory: ["import", "memory:create"],
  create_mcp_key: ["keys", "mcp_key:manage"],
  invite_teammate: ["members", "member:manage"],
  add_webhook: ["webhooks", "webhook:manage"],
  clear_review_backlog: ["review", "memory:review"],
};

/** Connectors that need attention come first. @type {Record<string, number>} */
const STATUS_ORDER = { auth_required: 0, failing: 1, stale: 2, degraded: 3, pending: 4, paused: 5, healthy: 6 };

const SPARK_WIDTH = 280;
const SPARK_HEIGHT = 56;
/** Height of the bar of a day on which nothing happened. */
const EMPTY_BAR_HEIGHT = 1;
const RING_RADIUS = 20;

/**
 * One value of a chart.
 * @typedef {{ label: string, value: number }} Point
 */

export class DashboardScreen {
  #context;
  #task;
  /** @type {DashboardSummary | null} */
  #summary = null;
  /** Days of the activity; `null` while they are loading. @type {ActivityDay[] | null} */
  #days = null;
  #hasActivityFailed = false;

  /** @param {Context} context */
  constructor(context) {
    this.#context = context;
    this.#task = new Task(context.refresh);
  }

  open() {
    this.#load();
    this.#loadActivity();
  }

  async #load() {
    const { operations, workspace } = this.#context;
    await this.#task.run(async () => {
      this.#summary = await operations.getDashboardSummary(workspace.id);
    });
  }

  async #loadActivity() {
    const { operations, workspace, refresh } = this.#context;
    try {
      const activity = await operations.getActivity(workspace.id, { days: ACTIVITY_DAYS });
      this.#days = activity.days;
      this.#hasActivityFailed = false;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#hasActivityFailed = true;
    }
    refresh();
  }

  render() {
    const { workspace } = this.#context;
    const summary = this.#summary;
    const lead = html`${tag(workspace.audience)}
      <span>${capital(workspace.access)}: for ${peopleOf(workspace)}.</span>
      ${summary ? html`<span>Last memory came in ${time(summary.workspace.last_ingest_at)}.</span>` : nothing}`;
    return html`
      ${pageHeader({ title: workspace.name, lead, actions: this.#accessButton() })}
      ${this.#task.error ? problem(this.#task.error, () => this.#load()) : nothing}
      ${summary ? this.#summaryView(summary) : this.#task.error ? nothing : loading()}
    `;
  }

  #accessButton() {
    const { operations, workspace, refresh, access: rights } = this.#context;
    if (!rights.controls) return nothing;
    const isPrivate = workspace.access === "private";
    const access = isPrivate ? "open" : "private";
    const label = isPrivate ? "Open to everybody" : "Make private";
    const run = () =>
      confirm(this.#context, {
        title: isPrivate ? `Open ${workspace.name}?` : `Make ${workspace.name} private?`,
        submit: label,
        isDangerous: !isPrivate,
        text: `From then on it exists for ${peopleOf({ access })}; its memories for those whom their labels cover.${isPrivate ? "" : " Webhooks and MCP keys of others are suspended."}`,
        run: async () => {
          await operations.setWorkspaceAccess(workspace.id, { access });
          workspace.access = access;
          refresh();
        },
      });
    return html`<button type="button" @click=${run}>${label}</button>`;
  }

  /** @param {DashboardSummary} summary */
  #summaryView({
    review_backlog_count: backlog,
    first_value_checklist: checklist,
    connector_health,
    mcp_keys,
    recent_chats,
  }) {
    return html`
      <div class="tiles">
        ${this.#backlogTile(backlog)} ${this.#hasActivityFailed ? nothing : this.#activityTiles()}
      </div>
      <div class="columns">
        <div>${this.#connectors(connector_health)} ${this.#chats(recent_chats)}</div>
        <div>${this.#checklist([...checklist.required, ...checklist.suggested])} ${this.#keys(mcp_keys)}</div>
      </div>
    `;
  }

  /** @param {number} backlog */
  #backlogTile(backlog) {
    const days = this.#days ?? [];
    const points = backlogs(days, backlog).map((value, index) => ({ label: dayLabel(days[index]), value }));
    return html`
      <section class="tile">
        <h2>Waiting for review</h2>
        <p class="figure">${number(backlog)}</p>
        ${points.length > 0 ? line(`Backlog of the last ${points.length} days (UTC), now ${backlog}`, points) : nothing}
        <p class="tile-foot">
          ${backlog === 0 ? html`${icon("check")}All reviewed` : !this.#context.access.holds("memory:review") ? nothing : html`<a href=${this.#href("review")}>Review ${count(backlog, "memory", "memories")}</a>`}
        </p>
      </section>
    `;
  }

  #activityTiles() {
    return [
      this.#activityTile("Memories added", (day) => day.added),
      this.#activityTile("Reviewed", (day) => day.reviewed),
      this.#activityTile("Relabelled", (day) => day.relabelled),
      this.#activityTile("Deleted", (day) => day.deleted),
    ];
  }

  /**
   * @param {string} title
   * @param {(day: ActivityDay) => number} valueOf
   */
  #activityTile(title, valueOf) {
    const days = this.#days ?? [];
    const total = days.reduce((sum, day) => sum + valueOf(day), 0);
    const points = days.map((day) => ({ label: dayLabel(day), value: valueOf(day) }));
    const span = `${count(days.length, "day")} (UTC)`;
    const view = html`
      <p class="figure">${number(total)}</p>
      ${bars(`${title} in the last ${span}: ${total} in all`, points)}
      <p class="tile-foot">Last ${span}</p>
    `;
    return html`<section class="tile">
      <h2>${title}</h2>
      ${this.#days === null ? loading() : view}
    </section>`;
  }

  /** @param {ConnectorHealth[]} connectors */
  #connectors(connectors) {
    const byNeed = connectors.toSorted(
      (left, right) => (STATUS_ORDER[left.status] ?? 0) - (STATUS_ORDER[right.status] ?? 0),
    );
    const row = (/** @type {ConnectorHealth} */ connector) => html`
      <li>
        ${icon("connector")}
        <div>
          <strong>${connector.account_label}</strong>
          <p class="faint">
            ${words(connector.kind)} · ${connector.scope} · synced ${time(connector.last_success_at)}
            ${connector.error_count_24h > 0 ? html` · ${count(connector.error_count_24h, "error")} in 24 h` : nothing}
          </p>
          ${connector.last_error === null ? nothing : html`<p class="grave-text">${connector.last_error}</p>`}
        </div>
        ${stateBadge(connector.status)}
      </li>
    `;
    return html`
      <section class="card">
        <h2>Connectors</h2>
        ${
          connectors.length > 0
            ? html`<ul class="rows">
                ${byNeed.map(row)}
              </ul>`
            : empty({
                symbol: "connector",
                title: "No connectors",
                text: "They keep memories up to date, and are created through the API.",
              })
        }
      </section>
    `;
  }

  /** @param {ChecklistStep[]} steps */
  #checklist(steps) {
    const done = steps.filter(({ completed }) => completed).length;
    const item = (/** @type {ChecklistStep} */ step) => {
      const [screen = "", needs] = STEPS[step.step_id] ?? [];
      const isOffered = !step.completed && needs && this.#context.access.holds(needs);
      return html`
        <li class=${step.completed ? "done" : ""}>
          ${icon(step.completed ? "check" : "dot")}
          <span><span class="hidden">${step.completed ? "Done: " : "To do: "}</span>${step.label}</span>
          ${isOffered ? html`<a href=${this.#href(screen)}>${step.cta_label}</a>` : step.required || step.completed ? nothing : html`<span class="faint">suggested</span>`}
        </li>
      `;
    };
    return html`
      <section class="card">
        <div class="card-head">
          <h2>First steps</h2>
          ${ring(done, steps.length)}
        </div>
        <ul class="checklist">
          ${steps.map(item)}
        </ul>
      </section>
    `;
  }

  /** @param {McpKeySummary[]} keys */
  #keys(keys) {
    const row = (/** @type {McpKeySummary} */ key) => html`
      <li>
        ${icon("key")}
        <div>
          <strong>${key.name}</strong>
          <p class="faint">${words(key.client)} · used ${time(key.lastUsedAt)}</p>
          ${key.endedReason === null ? nothing : html`<p class="faint">${endingText(key.endedReason, key.endedAt)}</p>`}
        </div>
        ${key.state === "active" ? nothing : stateBadge(key.state)}
      </li>
    `;
    return html`
      <section class="card">
        <div class="card-head">
          <h2>MCP keys</h2>
          <a href=${this.#href("keys")}>All keys</a>
        </div>
        ${
          keys.length > 0
            ? html`<ul class="rows">
                ${keys.map(row)}
              </ul>`
            : empty({ symbol: "key", title: "No keys", text: "A key lets an assistant read this workspace." })
        }
      </section>
    `;
  }

  /** @param {ChatSummary[]} chats */
  #chats(chats) {
    const row = (/** @type {ChatSummary} */ chat) => html`
      <li>
        ${icon("message")}
        <div>
          <strong>${chat.title}</strong>
          <p class="faint clamp">${chat.snippet}</p>
        </div>
        <span class="faint nowrap">${time(chat.last_message_at)}</span>
      </li>
    `;
    return html`
      <section class="card">
        <h2>Your recent chats</h2>
        ${
          chats.length > 0
            ? html`<ul class="rows">
                ${chats.map(row)}
              </ul>`
            : empty({ symbol: "message", title: "No chats", text: "Chats that you take part in appear here." })
        }
      </section>
    `;
  }

  /** @param {string} screen */
  #href(screen) {
    return href({ workspace: this.#context.workspace.slug, screen });
  }
}

/** @param {ActivityDay | undefined} day */
const dayLabel = (day) => (day ? shortDate(new Date(day.begins_at)) : "");

/**
 * Draws a bar for each point.
 * @param {string} description
 * @param {Point[]} points
 */
function bars(description, points) {
  const highest = Math.max(1, ...points.map(({ value }) => value));
  const step = SPARK_WIDTH / points.length;
  const bar = (/** @type {Point} */ { label, value }, /** @type {number} */ index) => {
    const height = Math.max(EMPTY_BAR_HEIGHT, (value / highest) * SPARK_HEIGHT);
    const x = index * step + step * 0.15;
    return svg`<rect class=${value === 0 ? "none" : ""} x=${x} y=${SPARK_HEIGHT - height} width=${step * 0.7} height=${height} rx="1.5"><title>${label}: ${value}</title></rect>`;
  };
  return chart(description, points.map(bar));
}

/**
 * Draws a line through the points, with the area below it.
 * @param {string} description
 * @param {Point[]} points
 */
function line(description, points) {
  const highest = Math.max(1, ...points.map(({ value }) => value));
  const step = SPARK_WIDTH / Math.max(1, points.length - 1);
  const places = points.map(({ value }, index) => {
    const y = SPARK_HEIGHT - 2 - (value / highest) * (SPARK_HEIGHT - 4);
    return `${(index * step).toFixed(1)},${y.toFixed(1)}`;
  });
  const path = `M${places.join("L")}`;
  const [first = "", last = ""] = [places[0], places.at(-1)].map((place) => place?.split(",")[0]);
  return chart(description, [
    svg`<path class="area" d="${path}L${last},${SPARK_HEIGHT}L${first},${SPARK_HEIGHT}Z" />`,
    svg`<path class="line" d=${path} />`,
  ]);
}

/**
 * @param {string} description
 * @param {unknown[]} shapes
 */
const chart = (description, shapes) => html`
  <svg
    class="spark"
    role="img"
    aria-label=${description}
    viewBox="0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}"
    preserveAspectRatio="none"
  >
    ${shapes}
  </svg>
`;

/**
 * Draws a share as a ring.
 * @param {number} done
 * @param {number} total
 */
function ring(done, total) {
  const length = 2 * Math.PI * RING_RADIUS;
  const share = total === 0 ? 0 : done / total;
  return html`
    <svg class="ring" viewBox="0 0 48 48" role="img" aria-label="${done} of ${total} done">
      <circle cx="24" cy="24" r=${RING_RADIUS} />
      <circle
        class="share"
        cx="24"
        cy="24"
        r=${RING_RADIUS}
        stroke-dasharray="${share * length} ${length}"
        transform="rotate(-90 24 24)"
      />
      <text x="24" y="28.5">${done}/${total}</text>
    </svg>
  `;
}
