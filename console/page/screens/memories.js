// The memories of a workspace: filters that live in the address, a selection with its changes, and
// one memory with its text.

import { ApiError } from "../api/error.js";
import { PagedList, readAll } from "../api/list.js";
import { readLabels } from "../models/labels.js";
import { REVIEW_STATUSES, SENSITIVITY_LABELS } from "../models/vocabulary.js";
import { href, parseRoute } from "../router.js";
import { actionButton, Task } from "../ui/actions.js";
import { capital, count, fullTime, number, words } from "../ui/format.js";
import { byId, html, nothing } from "../ui/lit.js";
import { sensitivityBadge, stateBadge, tag, time } from "../ui/marks.js";
import {
  described,
  empty,
  Filters,
  labelList,
  listView,
  loading,
  named,
  pageHeader,
  spoken,
  table,
  taskProblem,
} from "../ui/parts.js";
import { openBulk } from "./bulk-dialog.js";

/**
 * @import { MemoryDetails, MemorySummary, WorkspaceLabel } from "../../../wasm/pkg/operations.js"
 * @import { Context } from "../context.js"
 * @import { Route } from "../router.js"
 */

const FILTERS = ["sensitivityLabel", "reviewStatus", "audienceTag", "sourceId"];
/** Memories that one selection holds at most. */
const SELECTION_MAX = 10_000;

export class MemoriesScreen {
  #context;
  #query = new URLSearchParams();
  #filters;
  /** @type {PagedList<MemorySummary>} */
  #list;
  /** Selected memories by identifier. @type {Map<string, MemorySummary>} */
  #selected = new Map();
  /** Audience labels to filter by. @type {WorkspaceLabel[]} */
  #labels = [];
  /** True while all memories that match are being selected. */
  #isSelectingAll = false;

  /** @param {Context} context */
  constructor(context) {
    this.#context = context;
    this.#filters = this.#filtersOf(this.#query);
    this.#list = new PagedList((page) => this.#readPage(page), context.refresh);
  }

  /** @param {Route} route */
  open({ query, item }) {
    const isOther = query.toString() !== this.#query.toString();
    if (isOther) {
      this.#query = query;
      this.#filters = this.#filtersOf(query);
      this.#isSelectingAll = false;
      this.#selected = new Map();
    }
    if (isOther || !this.#list.isLoaded) this.#list.reload();
    if (this.#labels.length === 0) this.#readLabels();
    if (item === "") this.#context.dialogs.close();
    else openMemory(this.#context, item, () => this.#closed(item));
  }

  async #readLabels() {
    const { operations, workspace, refresh } = this.#context;
    this.#labels = await readLabels(operations, workspace.id);
    refresh();
  }

  /** @param {URLSearchParams} query */
  #filtersOf(query) {
    return new Filters(query, (other) => this.#go(other));
  }

  /**
   * Leaves the address of a memory, unless the address has changed already.
   * @param {string} item
   */
  #closed(item) {
    if (parseRoute(location.hash).item === item) this.#go(this.#query);
  }

  /** @param {{ limit: number, cursor?: string }} page */
  #readPage(page) {
    const filters = this.#filters.values(FILTERS);
    return this.#context.operations.listMemories(this.#context.workspace.id, { ...filters, ...page });
  }

  /**
   * Goes to the address of other filters.
   * @param {URLSearchParams} query
   */
  #go(query) {
    location.hash = href({ workspace: this.#context.workspace.slug, screen: "memories", query });
  }

  render() {
    return html`
      ${pageHeader({ title: "Memories", lead: "Find memories by their labels, and change them together." })}
      ${this.#filterForm()}
      <section class="card flush" aria-label="Memories">
        ${listView(this.#list, { items: (items) => this.#table(items), empty: this.#empty() })}
      </section>
      ${this.#selected.size > 0 || this.#isSelectingAll ? this.#selectionBar() : nothing}
    `;
  }

  #filterForm() {
    const filters = this.#filters;
    const sources = named(this.#context.directory.sources);
    return filters.render(html`
      ${filters.select("sensitivityLabel", "Sensitivity", spoken(SENSITIVITY_LABELS))}
      ${filters.select("reviewStatus", "Review", spoken(REVIEW_STATUSES))}
      ${filters.select("sourceId", "Source", sources)}
      ${filters.input("audienceTag", "Audience", { placeholder: "team:platform", list: "audiences" })}
      ${labelList("audiences", this.#labels)}
    `);
  }

  #empty() {
    if (!this.#filters.isEmpty) {
      const action = html`<button type="button" @click=${() => this.#filters.clear()}>Clear the filters</button>`;
      return empty({
        symbol: "search",
        title: "Nothing matches",
        text: "No memory that you may see has these labels.",
        action,
      });
    }
    const { workspace, access } = this.#context;
    const address = href({ workspace: workspace.slug, screen: "import" });
    const action = html`<a class="button" href=${address}>Import a file</a>`;
    return empty({
      symbol: "memories",
      title: "No memories",
      text: "This workspace has no memory that you may see.",
      action: access.holds("memory:create") ? action : nothing,
    });
  }

  /** @param {MemorySummary[]} memories */
  #table(memories) {
    const isAll = memories.length > 0 && memories.every(({ id }) => this.#selected.has(id));
    const toggleAll = () => this.#select(memories, !isAll);
    const pickAll = html`<input
      type="checkbox"
      aria-label="Select all that are shown"
      .checked=${isAll}
      @change=${toggleAll}
    />`;
    const headings = [pickAll, "Title", "Sensitivity", "Review", "Audience", "Source", "Added"];
    return html`<div class="selectable">
      ${table(
        headings,
        byId(memories, (memory) => this.#row(memory)),
      )}
    </div>`;
  }

  /** @param {MemorySummary} memory */
  #row(memory) {
    const isSelected = this.#selected.has(memory.id);
    const title = memory.title ?? "Content hidden from you";
    const address = href({
      workspace: this.#context.workspace.slug,
      screen: "memories",
      item: memory.id,
      query: this.#query,
    });
    return html`
      <tr class=${isSelected ? "selected" : ""}>
        <td class="pick">
          <input
            type="checkbox"
            aria-label="Select ${title}"
            .checked=${isSelected}
            @change=${() => this.#select([memory], !isSelected)}
          />
        </td>
        <th scope="row"><a class=${memory.title === null ? "faint" : ""} href=${address}>${title}</a></th>
        <td data-label="Sensitivity">${sensitivityBadge(memory.sensitivityLabel)}</td>
        <td data-label="Review">${stateBadge(memory.reviewStatus)}</td>
        <td data-label="Audience">${tag(memory.audienceTag)}</td>
        <td data-label="Source">${this.#context.directory.sourceName(memory.sourceId)}</td>
        <td data-label="Added" class="nowrap">${time(memory.createdAt)}</td>
      </tr>
    `;
  }

  /**
   * @param {MemorySummary[]} memories
   * @param {boolean} isSelected
   */
  #select(memories, isSelected) {
    this.#isSelectingAll = false;
    for (const memory of memories) {
      if (isSelected) this.#selected.set(memory.id, memory);
      else this.#selected.delete(memory.id);
    }
    this.#context.refresh();
  }

  /** Selects all memories that match the filters, also those that are not shown. */
  async #selectMatching() {
    const query = this.#query;
    const isWanted = () => this.#isSelectingAll && query === this.#query;
    this.#isSelectingAll = true;
    this.#context.refresh();
    try {
      await readAll(
        (page) => this.#readPage(page),
        (memories) => {
          if (!isWanted()) return false;
          for (const memory of memories) this.#selected.set(memory.id, memory);
          this.#context.refresh();
          return this.#selected.size < SELECTION_MAX;
        },
      );
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#context.announce("Not all that match could be selected. Try again.");
    }
    if (!isWanted()) return;
    this.#isSelectingAll = false;
    this.#context.refresh();
  }

  #selectionBar() {
    const size = this.#selected.size;
    const stop = () => this.#select([], false);
    if (this.#isSelectingAll) {
      return html`
        <div class="selection" role="status">
          <span>Selecting … ${number(size)}</span><button type="button" @click=${stop}>Stop</button>
        </div>
      `;
    }
    const isMoreThere = this.#list.hasMore && size < SELECTION_MAX;
    const change = (/** @type {"labels" | "review"} */ kind) =>
      openBulk(this.#context, [...this.#selected.values()], kind, () => this.#changed());
    return html`
      <div class="selection" role="region" aria-label="Selection">
        <span
          >${count(size, "memory", "memories")}
          selected${size >= SELECTION_MAX ? ", the most that one selection holds" : ""}</span
        >
        ${isMoreThere ? html`<button type="button" @click=${() => this.#selectMatching()}>Select all that match</button>` : nothing}
        <span class="spread"></span>
        ${actionButton(this.#context, {
          needs: "memory:update",
          label: "Relabel",
          look: "primary",
          run: () => change("labels"),
        })}
        ${actionButton(this.#context, {
          needs: "memory:review",
          label: "Review",
          look: "primary",
          run: () => change("review"),
        })}
        <button type="button" class="quiet" @click=${() => this.#select([...this.#selected.values()], false)}>
          Clear
        </button>
      </div>
    `;
  }

  /** Shows the memories after a change of them. */
  #changed() {
    this.#selected = new Map();
    this.#list.reload();
    this.#readLabels();
  }
}

/**
 * Opens a memory beside the page.
 * @param {Context} context
 * @param {string} id
 * @param {() => void} onClose
 */
async function openMemory(context, id, onClose) {
  const task = new Task(context.refresh);
  /** @type {MemoryDetails | null} */
  let memory = null;
  context.dialogs.open({
    title: "Memory",
    shape: "drawer",
    onClose,
    body: () => html`
      <div class="dialog-body">
        ${memory ? memoryView(context, memory) : task.error ? taskProblem(task) : loading()}
      </div>
    `,
  });
  await task.run(async () => {
    memory = await context.operations.getMemory(id);
  });
}

/**
 * Shows the text and the labels of a memory.
 * @param {Context} context
 * @param {MemoryDetails} memory
 */
export function memoryView({ directory }, memory) {
  return html`
    <article class="memory">
      <h2>${memory.title ?? "Content hidden from you"}</h2>
      <p class="badges">
        ${sensitivityBadge(memory.sensitivityLabel)} ${stateBadge(memory.reviewStatus)} ${tag(memory.audienceTag)}
      </p>
      ${
        memory.content === null
          ? html`<p class="faint">You may know of this memory and its labels, but not read it.</p>`
          : html`<p class="content" tabindex="0">${memory.content}</p>`
      }
      <dl class="facts">
        ${described("Source", directory.sourceName(memory.sourceId))}
        ${memory.originSourceId === memory.sourceId ? nothing : described("Came from", directory.sourceName(memory.originSourceId))}
        ${memory.sourceKey === null ? nothing : described("Key at the source", html`<code>${memory.sourceKey}</code>`)}
        ${described("Added by", directory.memberName(memory.createdBy))}
        ${memory.provenance?.client ? described("Proposed by", capital(words(memory.provenance.client))) : nothing}
        ${described("Added", fullTime(memory.createdAt))} ${described("Text changed", fullTime(memory.updatedAt))}
        ${described("Identifier", html`<code>${memory.id}</code>`)}
      </dl>
    </article>
  `;
}
