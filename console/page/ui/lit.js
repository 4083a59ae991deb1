// The template library, in one place.

import { repeat } from "../vendor/lit-html/directives/repeat.js";

export { html, nothing, render, svg } from "../vendor/lit-html/lit-html.js";

/**
 * Shows items, whose elements go with them when their order changes.
 * @template {{ id: string }} T
 * @param {readonly T[]} items
 * @param {(item: T) => unknown} show
 */
export const byId = (items, show) => repeat(items, ({ id }) => id, show);

/** @typedef {import("../vendor/lit-html/lit-html.js").TemplateResult} Template */
/** @typedef {Template | import("../vendor/lit-html/lit-html.js").SVGTemplateResult | string | symbol | unknown[]} Content */
