// The import of a file of JSON lines: choice, check, progress, and the outcome of each line.

import { coverageOf } from "../models/labels.js";
import { batchesOf, readLines, withoutRejected } from "../models/import-file.js";
import { href } from "../router.js";
import { actionButton, openForm, runOperation, Task, textOf } from "../ui/actions.js";
import { capital, count, number } from "../ui/format.js";
import { html, nothing } from "../ui/lit.js";
import { icon, stateBadge } from "../ui/marks.js";
import { described, named, options, pageHeader, table, taskProblem, textField } from "../ui/parts.js";

/**
 * @import { ApiError } from "../api/error.js"
 * @import { IngestOutcome } from "../../../wasm/pkg/operations.js"
 * @import { Context } from "../context.js"
 * @import { Line } from "../models/import-file.js"
 */

const EXAMPLE = `{"title":"Who is on call","content":"Maya until Friday.","sensitivity_label":"internal"}
{"title":"Prices of next year","content":"…","source_key":"prices","audience_tag":"team:sales"}`;
/** @type {readonly IngestOutcome[]} */
const OUTCOMES = ["created", "updated", "unchanged", "moved", "label_kept", "erased", "forbidden"];
/** Outcomes that are counted even if no line has them. */
const PLAIN = new Set(["created", "updated", "unchanged"]);
/** Lines that are shown at once; those with a problem come first. */
const LINES_SHOWN_MAX = 200;

/**
 * A file that was chosen.
 * @typedef {object} ImportFile
 * @property {string} name
 * @property {Line[]} lines
 * @property {Line[][]} batches Batches that have not been answered.
 * @property {Map<number, IngestOutcome>} outcomes Outcomes by line.
 */

export class ImportScreen {
  #context;
  #task;
  /** @type {ImportFile | null} */
  #file = null;
  #source = "";
  /** Problem of the choice of a file; empty if there is none. */
  #problem = "";

  /** @param {Context} context */
  constructor(context) {
    this.#context = context;
    this.#task = new Task(context.refresh);
  }

  open() {
    this.#source = this.#context.directory.openSources[0]?.id ?? "";
  }

  render() {
    return html`
      ${pageHeader({ title: "Import", lead: "Bring in memories from a file of JSON lines. Importing a file again changes nothing." })}
      ${this.#sourceCard()} ${this.#file ? this.#fileCard(this.#file) : this.#choice()}
    `;
  }

  #sourceCard() {
    const sources = this.#context.directory.openSources;
    const choose = (/** @type {Event} */ event) => {
      this.#source = /** @type {HTMLSelectElement} */ (event.currentTarget).value;
    };
    const isStarted = this.#task.isRunning || (this.#file?.outcomes.size ?? 0) > 0;
    return html`
      <section class="card">
        <div class="filters">
          <label>
            <span>Source of the memories</span>
            <select @change=${choose} ?disabled=${isStarted || sources.length === 0}>
              ${sources.length > 0 ? options(named(sources), this.#source) : html`<option>No source yet</option>`}
            </select>
          </label>
          ${isStarted ? nothing : actionButton(this.#context, { needs: "connector:manage", label: "New source", symbol: "plus", run: () => this.#createSource() })}
        </div>
      </section>
    `;
  }

  #choice() {
    const choose = (/** @type {Event} */ event) => {
      const [file] = /** @type {HTMLInputElement} */ (event.currentTarget).files ?? [];
      if (file) this.#read(file);
    };
    return html`
      <section class="card" aria-labelledby="file">
        <h2 id="file">File</h2>
        <div class="drop">
          ${icon("import")}
          <p>Choose a file, or drop it on the button.</p>
          <input type="file" aria-label="File of JSON lines" accept=".jsonl,.ndjson,.json,.txt" @change=${choose} />
          ${this.#problem === "" ? nothing : html`<p class="grave-text" role="alert">${this.#problem}</p>`}
        </div>
        <h3>One memory per line</h3>
        <p>
          <code>title</code> and <code>content</code> are required. By its <code>source_key</code> a later file can
          update a memory; without one, it follows from the text. Without <code>audience_tag</code> a memory is for
          <code>${this.#context.workspace.audience}</code>. ${coverageOf(this.#context.workspace)}
        </p>
        <pre tabindex="0"><code>${EXAMPLE}</code></pre>
      </section>
    `;
  }

  /** @param {File} file */
  async #read(file) {
    const lines = await readLines(await file.text());
    this.#problem = lines.length === 0 ? `${file.name} has no lines. Choose another file.` : "";
    const valid = lines.filter(({ memory }) => memory !== null);
    this.#file = lines.length === 0 ? null : { name: file.name, lines, batches: batchesOf(valid), outcomes: new Map() };
    this.#context.refresh();
  }

  /** @param {ImportFile} file */
  #fileCard(file) {
    const { name, lines, batches, outcomes } = file;
    const invalid = lines.filter(({ memory }) => memory === null).length;
    const valid = lines.length - invalid;
    const isDone = batches.length === 0 && outcomes.size > 0;
    const isStopped = this.#task.error !== null && !isDone;
    const importLabel = isStopped && outcomes.size > 0 ? "Continue" : `Import ${count(valid, "memory", "memories")}`;
    const canImport = !isDone && valid > 0 && this.#source !== "" && !this.#task.isRunning;
    return html`
      <section class="card" aria-labelledby="file">
        <div class="card-head">
          <h2 id="file">${name}</h2>
          <button type="button" class="quiet" ?disabled=${this.#task.isRunning} @click=${() => this.#forget()}>
            ${isDone ? "Import another" : "Choose another"}
          </button>
        </div>
        <dl class="counts">
          ${described("Valid lines", number(valid))}
          ${described("With a problem", number(invalid), invalid > 0 ? "grave" : "")}
          ${outcomes.size > 0 ? outcomeCounts(outcomes) : nothing}
        </dl>
        ${
          outcomes.size > 0 || this.#task.isRunning
            ? html`<div class="progress">
                <progress max=${valid} .value=${outcomes.size} aria-label="Imported memories"></progress>
                <p role="status">${this.#state(valid, outcomes, isDone)}</p>
              </div>`
            : nothing
        }
        ${taskProblem(this.#task)}
        ${this.#source === "" ? html`<p class="grave-text">A source must be created first.</p>` : nothing}
        ${
          isDone
            ? html`<p>
                New memories await review.
                ${this.#context.access.holds("memory:review") ? html`<a href=${href({ workspace: this.#context.workspace.slug, screen: "review" })}>Review them</a>` : nothing}
              </p>`
            : html`<div class="actions">
                <button type="button" class="primary" ?disabled=${!canImport} @click=${() => this.#import(file)}>
                  ${importLabel}
                </button>
                ${invalid > 0 && outcomes.size === 0 ? html`<span class="faint">Lines with a problem are left out.</span>` : nothing}
              </div>`
        }
        ${linesTable(file)}
      </section>
    `;
  }

  /**
   * @param {number} valid
   * @param {Map<number, IngestOutcome>} outcomes
   * @param {boolean} isDone
   */
  #state(valid, outcomes, isDone) {
    const answered = outcomes.size;
    const erased = numberOf(outcomes, "erased");
    const forbidden = numberOf(outcomes, "forbidden");
    const left = erased === 0 ? "" : ` ${count(erased, "memory was", "memories were")} erased and left out.`;
    const refused = forbidden === 0 ? "" : ` ${count(forbidden, "memory", "memories")} you may not change or move.`;
    if (isDone) return `${count(valid - erased - forbidden, "memory", "memories")} imported.${left}${refused}`;
    const progress = `${number(answered)} of ${number(valid)} answered`;
    return this.#task.isRunning ? `Importing … ${progress}.` : `Stopped: ${progress}. What is left can be continued.`;
  }

  /**
   * Sends the batches that have not been answered, in turn; one with invalid lines again without them.
   * @param {ImportFile} file
   */
  async #import({ batches, outcomes }) {
    const { operations, workspace } = this.#context;
    await runOperation(this.#context, this.#task, async () => {
      for (let batch = batches[0]; batch; batch = batches[0]) {
        const memories = batch.flatMap(({ memory }) => memory ?? []);
        /** @type {Line[]} */
        let left = [];
        try {
          const result = await operations.ingestMemories(workspace.id, { source_id: this.#source, memories });
          for (const [index, { outcome }] of result.memories.entries())
            outcomes.set(batch[index]?.number ?? 0, outcome);
        } catch (error) {
          left = withoutRejected(batch, error);
        }
        batches.splice(0, 1, ...batchesOf(left));
        this.#context.refresh();
      }
    });
  }

  #forget() {
    this.#file = null;
    this.#task.error = null;
    this.#context.refresh();
  }

  #createSource() {
    const { operations, directory } = this.#context;
    openForm(this.#context, {
      title: "New source",
      submit: "Create",
      fields: (/** @type {ApiError | null} */ error) => html`
        ${textField({ name: "name", label: "Name", hint: "Such as Handbook.", error })}
        ${textField({
          name: "kind",
          label: "Kind",
          value: "file",
          hint: "The system that the memories come from.",
          error,
        })}
      `,
      run: async (data) => {
        const { id } = await operations.createSource({ name: textOf(data, "name"), kind: textOf(data, "kind") });
        await directory.loadSources();
        this.#source = id;
      },
    });
  }
}

/** @param {Map<number, IngestOutcome>} outcomes */
const outcomeCounts = (outcomes) =>
  OUTCOMES.filter((outcome) => PLAIN.has(outcome) || numberOf(outcomes, outcome) > 0).map((outcome) =>
    described(capital(outcome.replace("_", " ")), number(numberOf(outcomes, outcome))),
  );

/**
 * @param {Map<number, IngestOutcome>} outcomes
 * @param {IngestOutcome} wanted
 */
const numberOf = (outcomes, wanted) => [...outcomes.values()].filter((outcome) => outcome === wanted).length;

/** @param {ImportFile} file */
function linesTable({ lines, outcomes }) {
  const byProblem = lines.toSorted((left, right) => Number(left.memory !== null) - Number(right.memory !== null));
  const state = (/** @type {Line} */ { number: line, memory, problem }) => {
    if (memory === null) return html`<span class="grave-text">${capital(problem)}</span>`;
    const outcome = outcomes.get(line);
    return outcome ? stateBadge(outcome) : html`<span class="faint">ready</span>`;
  };
  const row = (/** @type {Line} */ line) => html`
    <tr>
      <td data-label="Line">${number(line.number)}</td>
      <th scope="row">${line.memory?.title ?? html`<span class="faint">not imported</span>`}</th>
      <td data-label="Result">${state(line)}</td>
    </tr>
  `;
  return html`
    <div class="results" tabindex="0" role="region" aria-label="Lines">
      ${table(["Line", "Title", "Result"], byProblem.slice(0, LINES_SHOWN_MAX).map(row))}
    </div>
    ${lines.length > LINES_SHOWN_MAX ? html`<p class="faint">And ${number(lines.length - LINES_SHOWN_MAX)} more lines.</p>` : nothing}
  `;
}
