// What is shown above a screen: the dialog of the page, and short messages at its edge.

import { html, nothing, render } from "./lit.js";
import { icon } from "./marks.js";

const SHOWN_MS = 6_000;
const NOTICES_MAX = 3;

/**
 * A dialog.
 * @typedef {object} DialogView
 * @property {string} title
 * @property {() => import("./lit.js").Content} body
 * @property {"wide" | "drawer"} [shape]
 * @property {() => boolean} [isBusy] True while it must not be closed.
 * @property {() => void} [onClose]
 */

/** The dialog of the page. */
export class Dialogs {
  #element;
  /** @type {DialogView | null} */
  #view = null;

  /** @param {HTMLDialogElement} element */
  constructor(element) {
    this.#element = element;
    element.addEventListener("cancel", (event) => {
      if (this.#view?.isBusy?.()) event.preventDefault();
    });
    element.addEventListener("close", () => this.#closed());
  }

  /**
   * Opens a dialog, in place of the one that is open.
   * @param {DialogView} view
   */
  open(view) {
    this.#view = view;
    this.refresh();
    if (!this.#element.open) this.#element.showModal();
    this.#element.scrollTop = 0;
    const first = this.#element.querySelector("input, select") ?? this.#element.querySelector("h2");
    /** @type {HTMLElement} */ (first).focus();
  }

  /**
   * Returns true if a dialog is the one that is open.
   * @param {DialogView} view
   */
  isOpen(view) {
    return this.#view === view;
  }

  /** Closes the dialog, unless it is busy. */
  close() {
    if (this.#element.open && !this.#view?.isBusy?.()) this.#element.close();
  }

  /** Closes the dialog, even a busy one, without telling what it showed. */
  discard() {
    this.#view = null;
    this.#element.close();
  }

  /** Shows the dialog as it is now. */
  refresh() {
    const view = this.#view;
    if (view === null) return;
    this.#element.className = view.shape ?? "";
    render(
      html`
        <div class="dialog">
          <header>
            <h2 id="dialog-title" tabindex="-1">${view.title}</h2>
            <button
              type="button"
              class="quiet square"
              aria-label="Close"
              ?disabled=${view.isBusy?.() ?? false}
              @click=${() => this.close()}
            >
              ${icon("close")}
            </button>
          </header>
          ${view.body()}
        </div>
      `,
      this.#element,
    );
  }

  #closed() {
    // A browser may close it at the third Escape, whatever it is told.
    if (this.#view?.isBusy?.()) this.#element.showModal();
    // Another dialog was opened before the browser reported that the last one was closed.
    if (this.#element.open) return;
    const view = this.#view;
    this.#view = null;
    render(nothing, this.#element);
    if (document.activeElement === document.body) document.querySelector("h1")?.focus();
    view?.onClose?.();
  }
}

/** @typedef {{ text: string }} Notice */

/** The notices that are shown. */
export class Notices {
  /** @type {Notice[]} */
  #notices = [];
  #onChange;

  /** @param {() => void} onChange */
  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** @param {string} text */
  announce(text) {
    const notice = { text };
    this.#notices = [...this.#notices, notice].slice(-NOTICES_MAX);
    this.#onChange();
    setTimeout(() => this.#dismiss(notice), SHOWN_MS);
  }

  clear() {
    this.#notices = [];
    this.#onChange();
  }

  /** @param {Notice} notice */
  #dismiss(notice) {
    this.#notices = this.#notices.filter((other) => other !== notice);
    this.#onChange();
  }

  render() {
    const item = (/** @type {Notice} */ notice) => html`
      <div class="notice-box">
        <span>${notice.text}</span>
        <button type="button" class="quiet square" aria-label="Dismiss" @click=${() => this.#dismiss(notice)}>
          ${icon("close")}
        </button>
      </div>
    `;
    return html`<div class="notices" role="status">${this.#notices.map(item)}</div>`;
  }
}
