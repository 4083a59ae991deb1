// The inbox of memories that await review, decided on by keyboard or pointer.

import { newIdempotencyKey } from "../api/client.js";
import { ApiError, explain } from "../api/error.js";
import { PagedList } from "../api/list.js";
import { Task } from "../ui/actions.js";
import { capital, count, number } from "../ui/format.js";
import { byId, html, nothing } from "../ui/lit.js";
import { icon, time } from "../ui/marks.js";
import { empty, listView, loading, pageHeader, taskProblem } from "../ui/parts.js";
import { memoryView } from "./memories.js";

/**
 * @import { MemoryDetails, MemorySummary, ReviewStatus } from "../../../wasm/pkg/operations.js"
 * @import { Context } from "../context.js"
 */

/**
 * A decision about a memory. Its key stays the same until it is answered: the service repeats a
 * refusal for the same key, even after its cause is gone.
 * @typedef {object} Decision
 * @property {ReviewStatus} status
 * @property {string} idempotencyKey
 * @property {boolean} isSending
 * @property {boolean} isAnswered
 * @property {string} problem Why it was not made; empty otherwise.
 */

const VERBS = { approved: "Approving …", rejected: "Rejecting …", pending: "Undoing …" };

export class ReviewScreen {
  #context;
  /** @type {PagedList<MemorySummary>} */
  #list;
  /** Decisions that have not been made yet, by memory. @type {Map<string, Decision>} */
  #decisions = new Map();
  /** Memories that were decided on, the last one at the end. @type {MemorySummary[]} */
  #decided = [];
  /** Identifier of the memory that is shown. */
  #current = "";
  /** @type {MemoryDetails | null} */
  #details = null;
  #detailsTask;

  /** @param {Context} context */
  constructor(context) {
    this.#context = context;
    const readPage = (/** @type {{ limit: number, cursor?: string }} */ page) =>
      context.operations.listMemories(context.workspace.id, { reviewStatus: "pending", ...page });
    this.#list = new PagedList(readPage, context.refresh);
    this.#detailsTask = new Task(context.refresh);
  }

  async open() {
    await this.#list.reload();
    await this.#fill();
    await this.#show(this.#inbox[0]);
    if (document.activeElement?.matches("h1, body")) this.#focusCurrent();
  }

  /** Reads on until there is something to decide on, nothing is left, or something else is reading. */
  async #fill() {
    const list = this.#list;
    while (this.#inbox.length === 0 && list.hasMore && !list.error && !list.isLoading) await list.more();
  }

  /**
   * Memories that still await review, without those decided on here and those that others decide on.
   */
  get #inbox() {
    const decided = new Set(this.#decided.map(({ id }) => id));
    const { access } = this.#context;
    return this.#list.items.filter((memory) => access.decidesOn(memory) && !decided.has(memory.id));
  }

  /** Number of memories that await review by others, of those read so far. */
  get #left() {
    return this.#list.items.filter((memory) => !this.#context.access.decidesOn(memory)).length;
  }

  /** @param {MemorySummary | undefined} memory */
  async #show(memory) {
    this.#current = memory?.id ?? "";
    this.#details = null;
    this.#context.refresh();
    if (!memory) return;
    const task = new Task(this.#context.refresh);
    this.#detailsTask = task;
    await task.run(async () => {
      const details = await this.#context.operations.getMemory(memory.id);
      if (this.#current === memory.id) this.#details = details;
    });
  }

  /** @param {number} step */
  #move(step) {
    const inbox = this.#inbox;
    const index = inbox.findIndex(({ id }) => id === this.#current);
    const next = inbox[Math.min(inbox.length - 1, Math.max(0, index + step))];
    if (!next || next.id === this.#current) return;
    this.#show(next);
    queueMicrotask(() => this.#focusCurrent());
  }

  #focusCurrent() {
    const current = document.querySelector(".inbox [aria-current=true]") ?? document.querySelector("h1");
    /** @type {HTMLElement | null} */ (current)?.focus();
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const current = this.#inbox.find(({ id }) => id === this.#current);
    /** @type {Record<string, () => void>} */
    const commands = {
      j: () => this.#move(1),
      k: () => this.#move(-1),
      a: () => current && this.#decide(current, "approved"),
      r: () => current && this.#decide(current, "rejected"),
      u: () => this.#undo(),
    };
    const command = commands[event.key];
    if (!command) return;
    event.preventDefault();
    command();
  }

  /**
   * Decides on a memory and goes on to the next one, while the decision is being sent.
   * @param {MemorySummary} memory
   * @param {ReviewStatus} status
   */
  async #decide(memory, status) {
    const earlier = this.#decisions.get(memory.id);
    if (earlier?.isSending) return;
    const isRepeated = earlier?.status === status && !earlier.isAnswered;
    const idempotencyKey = isRepeated ? earlier.idempotencyKey : newIdempotencyKey();
    const decision = { status, idempotencyKey, isSending: true, isAnswered: false, problem: "" };
    this.#decisions.set(memory.id, decision);
    if (status !== "pending") this.#move(1);
    this.#context.refresh();
    decision.problem = await this.#send(memory, decision);
    decision.isSending = false;
    if (decision.problem === "") await this.#made(memory, status);
    else if (status === "pending") this.#context.announce(`Not undone: ${decision.problem}`);
    this.#context.refresh();
  }

  /**
   * Sends a decision; returns why it was not made, or an empty text.
   * @param {MemorySummary} memory
   * @param {Decision} decision
   */
  async #send({ id }, decision) {
    try {
      const update = { memoryIds: [id], reviewStatus: decision.status };
      const { results } = await this.#context.operations.bulkUpdateMemories(update, decision.idempotencyKey);
      decision.isAnswered = true;
      const [result] = results;
      return result?.ok === false ? result.error.message : "";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { title, advice } = explain(error);
      return `${title}. ${advice}`;
    }
  }

  /**
   * Takes a memory out of the inbox, or puts it back after an undoing.
   * @param {MemorySummary} memory
   * @param {ReviewStatus} status
   */
  async #made(memory, status) {
    this.#decisions.delete(memory.id);
    const others = this.#decided.filter(({ id }) => id !== memory.id);
    this.#decided = status === "pending" ? others : [...others, memory];
    const isFocused = document.activeElement?.closest(".inbox") !== null;
    if (status === "pending" || this.#current === memory.id)
      await this.#show(status === "pending" ? memory : this.#inbox[0]);
    if (this.#inbox.length === 0 && this.#list.hasMore) {
      await this.#fill();
      this.#show(this.#inbox[0]);
    }
    if (isFocused) queueMicrotask(() => this.#focusCurrent());
  }

  /** Puts the memory that was decided on last back into the inbox. */
  #undo() {
    const last = this.#decided.at(-1);
    if (last) this.#decide(last, "pending");
  }

  render() {
    const undo = html`
      <button type="button" ?disabled=${this.#decided.length === 0} @click=${() => this.#undo()}>Undo last</button>
    `;
    const lead = html`
      <kbd>J</kbd> <kbd>K</kbd> move, <kbd>A</kbd> approve, <kbd>R</kbd> reject, <kbd>U</kbd> undo
      ${this.#decided.length > 0 ? html`· ${number(this.#decided.length)} decided` : nothing}
    `;
    const nothingLeft = empty({
      symbol: "check",
      title: "All reviewed",
      text: "No memory that you may decide on awaits review.",
    });
    const left = this.#left;
    const leftOut = html`<p class="faint">
      ${this.#list.hasMore ? "At least " : ""}${count(left, "memory awaits", "memories await")} review by others: you
      may not decide on ${left === 1 ? "it" : "them"}.
    </p>`;
    return html`
      ${pageHeader({ title: "Review", lead, actions: undo })} ${left > 0 ? leftOut : nothing}
      ${listView(this.#list, {
        items: () => (this.#inbox.length > 0 ? this.#inboxView() : this.#list.isLoading ? loading() : nothingLeft),
        empty: nothingLeft,
      })}
    `;
  }

  #inboxView() {
    const current = this.#inbox.find(({ id }) => id === this.#current);
    return html`
      <div class="inbox" @keydown=${(/** @type {KeyboardEvent} */ event) => this.#press(event)}>
        <ul class="card flush" aria-label="Memories that await review">
          ${byId(this.#inbox, (memory) => this.#item(memory))}
        </ul>
        <section class="card" aria-label="Memory">${current ? this.#currentView(current) : nothing}</section>
      </div>
    `;
  }

  /** @param {MemorySummary} memory */
  #item(memory) {
    const decision = this.#decisions.get(memory.id);
    return html`
      <li>
        <button
          type="button"
          aria-current=${memory.id === this.#current ? "true" : nothing}
          @click=${() => this.#show(memory)}
        >
          <strong>${memory.title}</strong>
          <span class="faint">${memory.sensitivityLabel} · ${memory.audienceTag} · ${time(memory.createdAt)}</span>
          ${decision?.isSending ? html`<span class="accent-text">${VERBS[decision.status]}</span>` : nothing}
          ${decision?.problem ? html`<span class="grave-text">Not ${decision.status}: ${decision.problem}</span>` : nothing}
        </button>
      </li>
    `;
  }

  /** @param {MemorySummary} memory */
  #currentView(memory) {
    const decision = this.#decisions.get(memory.id);
    const isSending = decision?.isSending ?? false;
    return html`
      ${this.#details ? memoryView(this.#context, this.#details) : this.#detailsTask.error ? taskProblem(this.#detailsTask) : loading()}
      ${decision?.problem ? html`<p class="grave-text" role="alert">Not ${decision.status}: ${capital(decision.problem)}</p>` : nothing}
      <div class="actions">
        <button type="button" class="primary" ?disabled=${isSending} @click=${() => this.#decide(memory, "approved")}>
          ${icon("check")}Approve
        </button>
        <button type="button" class="danger" ?disabled=${isSending} @click=${() => this.#decide(memory, "rejected")}>
          ${icon("close")}Reject
        </button>
      </div>
    `;
  }
}
