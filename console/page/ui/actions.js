// Actions of the user: whether one is running, why it failed, why the caller may not use it, and the
// dialogs that run one.

import { ApiError } from "../api/error.js";
import { html, nothing } from "./lit.js";
import { icon } from "./marks.js";
import { loading, problem, taskProblem } from "./parts.js";

/**
 * @import { Action } from "../../../wasm/pkg/operations.js"
 * @import { Context } from "../context.js"
 * @import { Content } from "./lit.js"
 * @import { IconName } from "./marks.js"
 */

/** One action at a time. */
export class Task {
  isRunning = false;
  /** @type {ApiError | null} */
  error = null;
  #onChange;

  /** @param {() => void} onChange */
  constructor(onChange) {
    this.#onChange = onChange;
  }

  /**
   * Runs an action, unless one is running; a rejected request becomes the error of the task.
   * @param {() => Promise<void>} action
   */
  async run(action) {
    if (this.isRunning) return;
    this.isRunning = true;
    this.error = null;
    this.#onChange();
    try {
      await action();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.error = error;
    } finally {
      this.isRunning = false;
      this.#onChange();
    }
  }
}

/**
 * Shows a button for an operation, unless the caller is known to lack the action that it requires.
 * @param {Context} context
 * @param {object} button
 * @param {Action} button.needs
 * @param {string} button.label
 * @param {string} [button.name] Name for screen readers, where the label does not name the object.
 * @param {IconName} [button.symbol]
 * @param {"primary" | "danger" | ""} [button.look]
 * @param {boolean} [button.isOffered] False if the service would refuse it for another reason.
 * @param {() => void} button.run
 */
export function actionButton({ access }, { needs, label, name, symbol, look = "", isOffered = true, run }) {
  if (!isOffered || !access.holds(needs)) return nothing;
  return html`
    <button type="button" class=${look} aria-label=${name ?? nothing} @click=${run}>
      ${symbol ? icon(symbol) : nothing}${label}
    </button>
  `;
}

/**
 * Shows the button with which something is created.
 * @param {Context} context
 * @param {Action} needs
 * @param {string} label
 * @param {() => void} run
 */
export const createButton = (context, needs, label, run) =>
  actionButton(context, { needs, label, symbol: "plus", look: "primary", run });

/**
 * Runs an operation of a task, and notes if it was refused.
 * @param {Context} context
 * @param {Task} task
 * @param {() => Promise<void>} action
 */
export function runOperation({ access }, task, action) {
  return task.run(async () => {
    try {
      await action();
    } catch (error) {
      access.note(error);
      throw error;
    }
  });
}

/**
 * Opens a dialog whose form runs an operation. It stays open with what was entered if that fails.
 * @param {Context} context
 * @param {object} form
 * @param {string} form.title
 * @param {string} form.submit Label of the button that runs it.
 * @param {boolean} [form.isDangerous]
 * @param {(error: ApiError | null) => Content} form.fields
 * @param {(data: FormData) => Promise<void>} form.run Leaves the dialog open by opening another.
 */
export function openForm(context, { title, submit, isDangerous = false, fields, run }) {
  const task = new Task(context.refresh);
  let isDone = false;
  const onSubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.currentTarget));
    await runOperation(context, task, async () => {
      await run(data);
      isDone = true;
    });
    if (isDone && context.dialogs.isOpen(view)) context.dialogs.close();
  };
  const view = {
    title,
    isBusy: () => task.isRunning,
    body: () => html`
      <form @submit=${onSubmit}>
        <div class="dialog-body">${fields(task.error)} ${taskProblem(task)}</div>
        <footer>
          <button type="button" ?disabled=${task.isRunning} @click=${() => context.dialogs.close()}>Cancel</button>
          <button class=${isDangerous ? "danger" : "primary"} ?disabled=${task.isRunning}>
            ${task.isRunning ? "One moment …" : submit}
          </button>
        </footer>
      </form>
    `,
  };
  context.dialogs.open(view);
}

/**
 * Opens a dialog that asks before it runs an operation.
 * @param {Context} context
 * @param {object} question
 * @param {string} question.title
 * @param {string} question.text
 * @param {string} question.submit Label of the button that runs it.
 * @param {boolean} [question.isDangerous]
 * @param {() => Promise<void>} question.run
 */
export function confirm(context, { text, ...form }) {
  openForm(context, { ...form, fields: () => html`<p>${text}</p>` });
}

/**
 * Opens a dialog with something to read.
 * @param {Context} context
 * @param {string} title
 * @param {() => Content} body
 */
export function openMessage({ dialogs }, title, body) {
  dialogs.open({
    title,
    body: () => html`
      <div class="dialog-body">${body()}</div>
      <footer><button type="button" class="primary" @click=${() => dialogs.close()}>Done</button></footer>
    `,
  });
}

/**
 * Runs an operation that has no form; a failure opens a dialog.
 * @param {Context} context
 * @param {() => Promise<void>} action
 */
export async function runDirectly(context, action) {
  const { dialogs, refresh } = context;
  const task = new Task(refresh);
  const view = {
    title: "One moment …",
    isBusy: () => task.isRunning,
    body: () => html`<div class="dialog-body">${task.error ? problem(task.error) : loading()}</div>`,
  };
  dialogs.open(view);
  await runOperation(context, task, action);
  if (!task.error && dialogs.isOpen(view)) dialogs.close();
}

/**
 * Returns the text of a field.
 * @param {FormData} data
 * @param {string} name
 */
export const textOf = (data, name) => String(data.get(name) ?? "").trim();

/**
 * Returns the entries of a field that are separated by commas or white space.
 * @param {FormData} data
 * @param {string} name
 */
export const listOf = (data, name) =>
  textOf(data, name)
    .split(/[\s,]+/)
    .filter((entry) => entry !== "");
