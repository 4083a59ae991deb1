// The template library, in one place.

export { html, nothing, render, svg } from "../vendor/lit-html/lit-html.js";
export { repeat } from "../vendor/lit-html/directives/repeat.js";

/** @typedef {import("../vendor/lit-html/lit-html.js").TemplateResult} Template */
/** @typedef {Template | import("../vendor/lit-html/lit-html.js").SVGTemplateResult | string | symbol | unknown[]} Content */
