// Parts that screens are made of.

import { explain, fieldProblem } from "../api/error.js";
import { capital, count, words } from "./format.js";
import { html, nothing } from "./lit.js";
import { icon } from "./marks.js";

/**
 * @import { WorkspaceLabel } from "../../../wasm/pkg/operations.js"
 * @import { ApiError } from "../api/error.js"
 * @import { IconName } from "./marks.js"
 * @import { Content } from "./lit.js"
 * @import { Task } from "./actions.js"
 */

/**
 * Shows the heading of a screen. It takes the focus when the screen is opened.
 * @param {{ title: string, lead?: Content, actions?: Content }} header
 */
export const pageHeader = ({ title, lead = nothing, actions = nothing }) => html`
  <header class="page-header">
    <div>
      <h1 tabindex="-1">${title}</h1>
      <p class="lead">${lead}</p>
    </div>
    <div class="actions">${actions}</div>
  </header>
`;

/**
 * Explains an error and says what to do.
 * @param {ApiError} error
 * @param {() => void} [retry]
 */
export function problem(error, retry) {
  const { title, advice } = explain(error);
  return html`
    <div class="problem" role="alert">
      ${icon("warning")}
      <div>
        <strong>${title}</strong>
        <p>${advice}</p>
        <p class="faint">
          ${capital(error.message)}.
          ${error.requestId === null ? nothing : html`<span class="nowrap">Request <code>${error.requestId}</code></span>`}
        </p>
      </div>
      ${retry ? html`<button type="button" @click=${retry}>${icon("retry")}Try again</button>` : nothing}
    </div>
  `;
}

/**
 * Explains the failure of a task, if it failed.
 * @param {Task} task
 */
export const taskProblem = (task) => (task.error ? problem(task.error) : nothing);

/** Shows that a part of a screen is loading. */
export const loading = () => html`
  <div class="loading" role="status"><span class="hidden">Loading</span><i></i><i></i><i></i></div>
`;

/**
 * Shows that there is nothing, and what to do about it.
 * @param {{ symbol: IconName, title: string, text: string, action?: Content }} empty
 */
export const empty = ({ symbol, title, text, action = nothing }) => html`
  <div class="empty">
    ${icon(symbol)}<strong>${title}</strong>
    <p>${text}</p>
    ${action}
  </div>
`;

/**
 * Shows a list: while it loads, if it failed, if it is empty, or its items.
 * @template T
 * @param {import("../api/list.js").PagedList<T>} list
 * @param {{ items: (items: T[]) => Content, empty: Content }} views
 */
export function listView(list, views) {
  const retry = () => list.retry();
  if (!list.isLoaded) return list.error ? problem(list.error, retry) : loading();
  const isEmpty = list.items.length === 0 && !list.hasMore;
  return html`
    ${isEmpty ? views.empty : views.items(list.items)} ${list.error ? problem(list.error, retry) : nothing}
    ${
      list.hasMore && !list.error
        ? html`<p class="more">
            <button type="button" ?disabled=${list.isLoading} @click=${() => list.more()}>
              ${list.isLoading ? "Loading …" : "Show more"}
            </button>
          </p>`
        : nothing
    }
  `;
}

/**
 * Shows a table, which stacks its cells where it has no room.
 * @param {Content[]} headings
 * @param {unknown} rows
 */
export const table = (headings, rows) => html`
  <table class="stack">
    <thead>
      <tr>
        ${headings.map((heading) => html`<th>${heading}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>
`;

/**
 * Shows one term of a list of descriptions.
 * @param {Content} term
 * @param {unknown} description
 * @param {"" | "notice" | "grave"} [tone]
 */
export const described = (term, description, tone = "") =>
  html`<div class=${tone}>
    <dt>${term}</dt>
    <dd>${description}</dd>
  </div>`;

/** Heading of a column of buttons. */
export const actionsHeading = html`<span class="hidden">Actions</span>`;

/**
 * Shows a labelled control of a form. The control has this name, and describes itself by the hint.
 * @param {object} field
 * @param {string} field.name
 * @param {string} field.label
 * @param {(ids: { id: string, hint: string, isInvalid: boolean }) => Content} field.control
 * @param {Content} [field.hint]
 * @param {ApiError | null} [field.error] Error of the form, which may concern this field.
 * @param {string} [field.problem] Problem of the field that the error does not name.
 */
function field({ name, label, control, hint = nothing, error = null, problem = fieldProblem(error, name) }) {
  const ids = { id: `field-${name}`, hint: `hint-${name}`, isInvalid: problem !== "" };
  return html`
    <div class="field ${problem === "" ? "" : "invalid"}">
      <label for=${ids.id}>${label}</label>
      ${control(ids)}
      <p class="hint" id=${ids.hint}>
        ${problem === "" ? hint : html`<span class="grave-text">${capital(problem)}</span>`}
      </p>
    </div>
  `;
}

/**
 * Shows a text field.
 * @param {object} text
 * @param {string} text.name
 * @param {string} text.label
 * @param {string} [text.value]
 * @param {Content} [text.hint]
 * @param {ApiError | null} [text.error]
 * @param {string} [text.problem]
 * @param {boolean} [text.isRequired]
 * @param {number} [text.lengthMax]
 * @param {"text" | "url" | "number" | "password" | "date"} [text.type]
 * @param {string} [text.pattern]
 * @param {string} [text.list] Identifier of a list of suggestions.
 */
export const textField = ({
  value = "",
  isRequired = true,
  lengthMax = 128,
  type = "text",
  pattern,
  list,
  ...others
}) =>
  field({
    ...others,
    control: ({ id, hint, isInvalid }) => html`
      <input
        id=${id}
        name=${others.name}
        type=${type}
        .value=${value}
        maxlength=${lengthMax}
        pattern=${pattern ?? ".*"}
        list=${list ?? nothing}
        aria-describedby=${hint}
        aria-invalid=${isInvalid}
        ?required=${isRequired}
        autocomplete="off"
      />
    `,
  });

/**
 * Shows a list of audience labels that a field suggests, each with what is known of it.
 * @param {string} id
 * @param {readonly WorkspaceLabel[]} labels
 */
export const labelList = (id, labels) => html`
  <datalist id=${id}>
    ${labels.map(({ label, memories, has_members }) => {
      const about = has_members ? count(memories, "memory", "memories") : "covers nobody";
      return html`<option value=${label}>${about}</option>`;
    })}
  </datalist>
`;

/**
 * An option of a selection: its value, and its text if that differs.
 * @typedef {string | [value: string, text: string]} Option
 */

/**
 * Returns an option for each item.
 * @param {readonly { id: string, name: string }[]} items
 */
export const named = (items) => items.map(({ id, name }) => /** @type {Option} */ ([id, name]));

/**
 * Returns an option for each value of an enumeration.
 * @param {readonly string[]} values
 */
export const spoken = (values) => values.map((value) => /** @type {Option} */ ([value, capital(words(value))]));

/**
 * Shows the options of a selection.
 * @param {readonly Option[]} values
 * @param {string} selected
 */
export const options = (values, selected) => {
  const pairs = values.map((option) => (typeof option === "string" ? [option, option] : option));
  // What is set stays set, even if it is not among those that are known.
  if (pairs.every(([value]) => value !== selected) && selected !== "") pairs.push([selected, selected]);
  return pairs.map(([value, text]) => html`<option value=${value} .selected=${value === selected}>${text}</option>`);
};

/**
 * Shows a selection.
 * @param {object} select
 * @param {string} select.name
 * @param {string} select.label
 * @param {readonly Option[]} select.values
 * @param {string} [select.value]
 * @param {Content} [select.hint]
 * @param {ApiError | null} [select.error]
 * @param {string} [select.problem]
 */
export const selectField = ({ values, value = "", ...others }) =>
  field({
    ...others,
    control: ({ id, hint }) => html`
      <select id=${id} name=${others.name} aria-describedby=${hint}>
        ${options(values, value)}
      </select>
    `,
  });

/**
 * Shows a secret that is returned only once.
 * @param {object} secret
 * @param {string} secret.label
 * @param {string} secret.value
 * @param {string} [secret.advice] What to do with it.
 */
export function secretBox({ label, value, advice = "Store it where its program can read it." }) {
  const copy = async (/** @type {Event} */ event) => {
    const button = /** @type {HTMLElement} */ (event.currentTarget);
    const [shown, status] = [button.previousElementSibling, button.nextElementSibling];
    // A page without https has no clipboard.
    if (navigator.clipboard) await navigator.clipboard.writeText(value);
    else if (shown) getSelection()?.selectAllChildren(shown);
    status?.replaceChildren(navigator.clipboard ? "Copied." : "Selected: copy it with the keyboard.");
  };
  return html`
    <div class="secret">
      <p><strong>${label}</strong> is shown only now. ${advice}</p>
      <div class="secret-value">
        <code>${value}</code>
        <button type="button" @click=${copy}>${icon("copy")}Copy</button><span role="status"></span>
      </div>
    </div>
  `;
}

/** Filters of a list, and the address that has them. */
export class Filters {
  #query;
  #go;

  /**
   * @param {URLSearchParams} query
   * @param {(query: URLSearchParams) => void} go Goes to the address of other filters.
   */
  constructor(query, go) {
    this.#query = query;
    this.#go = go;
  }

  /** True if there is no filter. */
  get isEmpty() {
    return this.#query.size === 0;
  }

  /**
   * Returns the value of a filter; empty without one.
   * @param {string} name
   */
  value(name) {
    return this.#query.get(name) ?? "";
  }

  /**
   * Returns the values of these filters.
   * @param {readonly string[]} names
   * @returns {Record<string, string>}
   */
  values(names) {
    return Object.fromEntries(names.map((name) => [name, this.value(name)]));
  }

  clear() {
    this.#go(new URLSearchParams());
  }

  /**
   * @param {string} name
   * @param {string} label
   * @param {readonly Option[]} values
   */
  select(name, label, values) {
    return html`
      <label
        ><span>${label}</span
        ><select name=${name}>
          ${options([["", "Any"], ...values], this.value(name))}
        </select></label
      >
    `;
  }

  /**
   * @param {string} name
   * @param {string} label
   * @param {{ type?: "text" | "date", placeholder?: string, list?: string }} [attributes]
   */
  input(name, label, { type = "text", placeholder = "", list = "" } = {}) {
    return html`
      <label>
        <span>${label}</span>
        <input
          type=${type}
          name=${name}
          .value=${this.value(name)}
          placeholder=${placeholder}
          list=${list}
          autocomplete="off"
        />
      </label>
    `;
  }

  /** @param {unknown} controls */
  render(controls) {
    const set = (/** @type {Event} */ event) => {
      const { name, value } = /** @type {HTMLSelectElement | HTMLInputElement} */ (event.target);
      const query = new URLSearchParams(this.#query);
      query.set(name, value.trim());
      this.#go(query);
    };
    const stay = (/** @type {Event} */ event) => event.preventDefault();
    const clear = html`<button type="button" class="quiet" @click=${() => this.clear()}>${icon("close")}Clear</button>`;
    return html`
      <form class="filters" role="search" aria-label="Filters" @change=${set} @submit=${stay}>
        ${controls} ${this.isEmpty ? nothing : clear}
      </form>
    `;
  }
}
