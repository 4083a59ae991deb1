// Icons, times, and labels and states as badges.

import { fullTime, nearTime, words } from "./format.js";
import { html } from "./lit.js";

/** Strokes on a grid of 24. */
const PATHS = {
  audit: "M8 4h8M6 4h12v17H6zM9 9h6M9 13h6M9 17h3",
  brand: "M12 3 4 7v6c0 4.5 3.4 7 8 8 4.6-1 8-3.5 8-8V7zM9 12l2.2 2.2L15.5 10",
  check: "m5 12.5 4.5 4.5L19 7.5",
  close: "M6 6l12 12M18 6 6 18",
  connector: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  dashboard: "M4 4h7v9H4zM13 4h7v5h-7zM13 11h7v9h-7zM4 15h7v5H4z",
  dot: "M12 8.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 1 0 0-7",
  import: "M12 3v12M7.5 10.5 12 15l4.5-4.5M4 17v4h16v-4",
  key: "M8 8a4 4 0 1 0 0 8 4 4 0 1 0 0-8M12 12h9M17 12v4M20 12v3",
  members:
    "M9 5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 1 0 0-7M2.5 20c0-3.6 2.9-6 6.5-6s6.5 2.4 6.5 6M15.5 5.3a3.5 3.5 0 0 1 0 6.4M18 14.6c2.1.9 3.5 2.8 3.5 5.4",
  memories: "M4 5h16v4H4zM4 9v10h16V9M10 13h4",
  menu: "M4 7h16M4 12h16M4 17h16",
  message: "M4 5h16v11H9l-5 4z",
  minus: "M6 12h12",
  next: "m9 5 7 7-7 7",
  pause: "M9 6v12M15 6v12",
  plus: "M12 5v14M5 12h14",
  retry: "M19 12a7 7 0 1 1-2-4.9M19 3v5h-5",
  review: "M4 13 7 4h10l3 9v7H4zM4 13h5l1.5 3h3L15 13h5",
  roles: "M12 3 4 6v6c0 4.5 3.4 7.5 8 9 4.6-1.5 8-4.5 8-9V6z",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 1 0 0-14M16 16l5 5",
  warning: "M12 4 2.5 20h19zM12 10v4M12 17v.01",
  webhooks: "M4 12h6M14 12h6M10 8v8h4V8zM17 9l3 3-3 3",
};

/** @typedef {keyof typeof PATHS} IconName */

/**
 * Draws an icon, which is hidden from screen readers: the text beside it says the same.
 * @param {IconName} name
 */
export const icon = (name) =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;

/** @typedef {"good" | "notice" | "grave" | "plain" | "accent"} Tone */

/** Tones and marks of states: beside its colour, each has a mark. @type {Record<string, [Tone, IconName]>} */
const STATES = {
  // Review statuses.
  approved: ["good", "check"],
  rejected: ["grave", "close"],
  // Statuses of connectors.
  healthy: ["good", "check"],
  degraded: ["notice", "warning"],
  stale: ["notice", "warning"],
  failing: ["grave", "close"],
  auth_required: ["grave", "key"],
  paused: ["plain", "pause"],
  // Statuses of deliveries and endpoints.
  delivered: ["good", "check"],
  dead: ["grave", "close"],
  active: ["good", "check"],
  inactive: ["plain", "pause"],
  unconfirmed: ["notice", "warning"],
  suspended: ["notice", "pause"],
  ended: ["grave", "close"],
  // Outcomes.
  ok: ["good", "check"],
  forbidden: ["grave", "close"],
  not_found: ["plain", "minus"],
  created: ["good", "plus"],
  updated: ["accent", "check"],
  unchanged: ["plain", "minus"],
  erased: ["notice", "minus"],
  failed: ["grave", "close"],
  pending: ["notice", "dot"],
};

/** Tones of the labels that are not plain. @type {Record<string, Tone>} */
const SENSITIVITY_TONES = { public: "good", confidential: "notice", restricted: "grave" };

/**
 * Shows a state.
 * @param {string} state
 */
export function stateBadge(state) {
  const [tone, mark] = STATES[state] ?? ["plain", "dot"];
  return html`<span class="badge ${tone}">${icon(mark)}${words(state)}</span>`;
}

/**
 * Shows a sensitivity label.
 * @param {string} label
 */
export const sensitivityBadge = (label) =>
  html`<span class="badge ${SENSITIVITY_TONES[label] ?? "plain"}">${label}</span>`;

/**
 * Shows a text without a state, such as an audience label or an action.
 * @param {string} text
 */
export const tag = (text) => html`<span class="tag">${text}</span>`;

/**
 * Shows a time: relative if it is near, with the full time as its title.
 * @param {string | null} at
 * @param {string} [absent] Text for a time that does not exist.
 */
export function time(at, absent = "never") {
  if (at === null) return html`<span class="faint">${absent}</span>`;
  return html`<time datetime=${at} title=${fullTime(at)}>${nearTime(new Date(at), Date.now())}</time>`;
}
