// A bulk update of selected memories: choice, preview, progress, results and undoing.

import { BulkRun, impactOf, preview } from "../models/bulk.js";
import { coverageOf, readLabels } from "../models/labels.js";
import { AUDIENCE_PATTERN, REVIEW_STATUSES, SENSITIVITY_LABELS } from "../models/vocabulary.js";
import { runOperation, Task, textOf } from "../ui/actions.js";
import { capital, count, number } from "../ui/format.js";
import { html, nothing } from "../ui/lit.js";
import { stateBadge } from "../ui/marks.js";
import { described, labelList, named, selectField, spoken, table, taskProblem, textField } from "../ui/parts.js";

/**
 * @import { BulkItem, MemorySummary, WorkspaceLabel } from "../../../wasm/pkg/operations.js"
 * @import { Context } from "../context.js"
 * @import { Change } from "../models/bulk.js"
 * @import { Option } from "../ui/parts.js"
 */

/** @typedef {"labels" | "review"} Kind */

const TITLES = { labels: "Relabel", review: "Review" };
/** Results that are shown at once; failures come first. */
const RESULTS_SHOWN_MAX = 200;

/** @type {Option} */
const KEPT = ["", "Leave as it is"];

/** @typedef {Awaited<ReturnType<typeof impactOf>>} Effect */

/**
 * Warns of a label that covers nobody.
 * @param {readonly string[]} labels
 */
const coversNobody = (labels) =>
  labels.length > 0
    ? html`<p class="grave-text" role="alert">
        The label ${labels.join(", ")} covers nobody: no member can read memories with it.
      </p>`
    : nothing;

class BulkDialog {
  #context;
  #memories;
  #kind;
  #onChanged;
  #task;
  /** @type {Change} */
  #change = {};
  /** @type {BulkRun | null} */
  #run = null;
  #isUndo = false;
  #isClosed = false;
  /** Labels to choose from. @type {WorkspaceLabel[]} */
  #labels = [];
  /** Effect of the change that is chosen, once it has been asked for. @type {Effect | null} */
  #effect = null;
  #effectTask;

  /**
   * @param {Context} context
   * @param {MemorySummary[]} memories
   * @param {Kind} kind
   * @param {() => void} onChanged
   */
  constructor(context, memories, kind, onChanged) {
    this.#context = context;
    this.#memories = memories;
    this.#kind = kind;
    this.#onChanged = onChanged;
    this.#task = new Task(context.refresh);
    this.#effectTask = new Task(context.refresh);
  }

  open() {
    this.#readLabels();
    this.#context.dialogs.open({
      title: `${TITLES[this.#kind]} ${count(this.#memories.length, "memory", "memories")}`,
      shape: "wide",
      isBusy: () => this.#task.isRunning,
      onClose: () => {
        this.#isClosed = true;
        if (this.#run) this.#onChanged();
      },
      body: () => (this.#run ? this.#runView(this.#run) : this.#choice()),
    });
  }

  async #readLabels() {
    const { operations, workspace, refresh } = this.#context;
    this.#labels = await readLabels(operations, workspace.id);
    refresh();
  }

  /** Asks whom the change that is chosen concerns. */
  #ask() {
    const change = this.#change;
    const { changing } = preview(this.#memories, change, this.#context.access);
    return this.#effectTask.run(async () => {
      const effect = await impactOf(this.#context.operations, changing, change);
      // Another change may have been chosen meanwhile.
      if (change === this.#change) this.#effect = effect;
    });
  }

  #choice() {
    const update = (/** @type {Event} */ event) => {
      const data = new FormData(/** @type {HTMLFormElement} */ (event.currentTarget));
      const entries = ["sensitivityLabel", "audienceTag", "sourceId", "reviewStatus"].map((name) => [
        name,
        textOf(data, name),
      ]);
      this.#change = Object.fromEntries(entries.filter(([, value]) => value !== ""));
      this.#effect = null;
      this.#context.refresh();
    };
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#submit();
    };
    const { changing } = preview(this.#memories, this.#change, this.#context.access);
    const anyway = this.#coversNobody ? " anyway" : "";
    return html`
      <form @input=${update} @submit=${submit}>
        <div class="dialog-body">
          ${this.#kind === "labels" ? this.#labelFields() : this.#reviewField()}
          <div class="preview" role="status">${this.#previewView()}</div>
        </div>
        <footer>
          <button type="button" @click=${() => this.#context.dialogs.close()}>Cancel</button>
          <button class="primary" ?disabled=${changing.length === 0 || this.#effectTask.isRunning}>
            ${changing.length === 0 ? "Nothing to change" : `Change ${number(changing.length)}${anyway}`}
          </button>
        </footer>
      </form>
    `;
  }

  /** Makes the change; of an audience, only once it is known that it covers somebody, or shown that it does not. */
  async #submit() {
    if (this.#change.audienceTag !== undefined && this.#effect === null) {
      await this.#ask();
      if (this.#effect === null || this.#coversNobody || this.#isClosed) return;
    }
    const { changing } = preview(this.#memories, this.#change, this.#context.access);
    this.#start(new BulkRun([{ memories: changing, change: this.#change }]), false);
  }

  /** True if the audience that is chosen is known to cover nobody. */
  get #coversNobody() {
    return (this.#effect?.impact?.labels_without_members.length ?? 0) > 0;
  }

  #labelFields() {
    const { directory, workspace } = this.#context;
    const sources = named(directory.openSources);
    return html`
      <div class="field-row">
        ${selectField({ name: "sensitivityLabel", label: "Sensitivity", values: [KEPT, ...spoken(SENSITIVITY_LABELS)] })}
        ${selectField({ name: "sourceId", label: "Source", values: [KEPT, ...sources] })}
      </div>
      ${textField({
        name: "audienceTag",
        label: "Audience",
        isRequired: false,
        pattern: AUDIENCE_PATTERN,
        list: "bulk-audiences",
        hint: html`Left empty, it stays as it is. For example <code>${workspace.audience}</code> or
          <code>team:platform</code>. ${coverageOf(workspace)}`,
      })}
      ${labelList("bulk-audiences", this.#labels)}
    `;
  }

  #reviewField() {
    return selectField({ name: "reviewStatus", label: "Review status", values: [KEPT, ...spoken(REVIEW_STATUSES)] });
  }

  #previewView() {
    if (Object.keys(this.#change).length === 0) return html`<p class="faint">Choose what to change.</p>`;
    const { changing, unchanged, refused, lowered } = preview(this.#memories, this.#change, this.#context.access);
    return html`
      <dl class="counts">
        ${described("Will change", number(changing.length))} ${described("Already so", number(unchanged))}
        ${refused > 0 ? described("Left out", number(refused), "notice") : nothing}
        ${lowered > 0 ? described("Less protected", number(lowered), "notice") : nothing}
      </dl>
      ${lowered > 0 ? html`<p>Lowering a sensitivity needs the action <code>memory:declassify</code>.</p>` : nothing}
      ${refused > 0 ? html`<p>Left out is what you may not change so: only what you can read is approved or rejected.</p>` : nothing}
      ${changing.length > 0 ? this.#effectView(changing.length) : nothing}
    `;
  }

  /**
   * Shows whom the change concerns, or the button that asks for it.
   * @param {number} changing
   */
  #effectView(changing) {
    const { impact, summary } = this.#effect ?? {};
    if (!impact || !summary) {
      return html`
        ${taskProblem(this.#effectTask)}
        <button type="button" ?disabled=${this.#effectTask.isRunning} @click=${() => this.#ask()}>
          Whom does it concern?
        </button>
      `;
    }
    const of = changing > summary.requested ? `Of the first ${number(summary.requested)}: ` : "";
    const [gain, lose] = [impact.members_gaining, impact.members_losing].map((members) => count(members, "member"));
    const refused = summary.failed > 0 ? ` ${count(summary.failed, "change")} would be refused.` : "";
    const partly = impact.is_complete ? "" : " The organisation has more members than were considered.";
    return html`
      <p>${of}${gain} could read what they cannot read now, ${lose} could no longer.${partly}${refused}</p>
      ${coversNobody(impact.labels_without_members)}
    `;
  }

  /**
   * @param {BulkRun} run
   * @param {boolean} isUndo
   */
  #start(run, isUndo) {
    this.#run = run;
    this.#isUndo = isUndo;
    this.#continue();
  }

  /** Sends what has not been answered, with the same keys as before. */
  async #continue() {
    const run = this.#run;
    if (run === null) return;
    const { operations, refresh } = this.#context;
    await runOperation(this.#context, this.#task, () => run.run(operations, refresh));
  }

  /** @param {BulkRun} run */
  #runView(run) {
    const { results, total } = run;
    return html`
      <div class="dialog-body">
        <div class="progress">
          <progress max=${total} .value=${results.length} aria-label="Answered memories"></progress>
          <p role="status">${this.#state(run)}</p>
        </div>
        ${taskProblem(this.#task)} ${run.isDone ? this.#resultView(run) : nothing}
      </div>
      <footer>
        ${this.#task.error && !run.isDone ? html`<button type="button" class="primary" @click=${() => this.#continue()}>Continue</button>` : nothing}
        ${
          run.isDone && run.succeeded > 0 && this.#mayUndo
            ? html`<button type="button" @click=${() => this.#start(run.undo(), true)}>
                Undo ${number(run.succeeded)}
              </button>`
            : nothing
        }
        <button
          type="button"
          class=${run.isDone ? "primary" : ""}
          ?disabled=${this.#task.isRunning}
          @click=${() => this.#context.dialogs.close()}
        >
          ${run.isDone ? "Done" : "Close"}
        </button>
      </footer>
    `;
  }

  /** False for what is an undoing, or raised sensitivities that the caller may not lower again. */
  get #mayUndo() {
    return !this.#isUndo && (!this.#change.sensitivityLabel || this.#context.access.holds("memory:declassify"));
  }

  /** @param {BulkRun} run */
  #state(run) {
    const [verb, done] = this.#isUndo ? ["Restoring", "restored"] : ["Changing", "changed"];
    if (run.isDone) return `${number(run.succeeded)} of ${count(run.total, "memory", "memories")} ${done}.`;
    const progress = `${number(run.results.length)} of ${number(run.total)} answered`;
    return this.#task.isRunning ? `${verb} … ${progress}.` : `Stopped: ${progress}. What is left can be continued.`;
  }

  /** @param {BulkRun} run */
  #resultView(run) {
    const results = run.results.toSorted((left, right) => Number(left.ok) - Number(right.ok));
    const row = (/** @type {BulkItem} */ result) => html`
      <tr>
        <th scope="row">${run.before(result)?.title ?? result.memoryId}</th>
        <td data-label="Result">${stateBadge(result.ok ? "ok" : result.error.code)}</td>
        <td data-label="Reason">${result.ok ? "Changed" : capital(result.error.message)}</td>
      </tr>
    `;
    return html`
      <div class="results" tabindex="0" role="region" aria-label="Results">
        ${table(["Memory", "Result", "Reason"], results.slice(0, RESULTS_SHOWN_MAX).map(row))}
      </div>
      ${coversNobody(run.labelsWithoutMembers)}
      ${results.length > RESULTS_SHOWN_MAX ? html`<p class="faint">And ${number(results.length - RESULTS_SHOWN_MAX)} more, in the audit log.</p>` : nothing}
    `;
  }
}

/**
 * Opens the dialog of a bulk update.
 * @param {Context} context
 * @param {MemorySummary[]} memories
 * @param {Kind} kind
 * @param {() => void} onChanged Called once the dialog is closed after an update.
 */
export function openBulk(context, memories, kind, onChanged) {
  new BulkDialog(context, memories, kind, onChanged).open();
}
