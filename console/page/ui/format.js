// Numbers, times and names as people read them.

const LOCALE = "en-GB";
const dateTime = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "short" });
const date = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(LOCALE);
const integer = new Intl.NumberFormat(LOCALE);

export const DAY_MS = 24 * 60 * 60 * 1_000;
/** Distance up to which a time is shown relative to now. */
const RELATIVE_MS_MAX = 7 * DAY_MS;
/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [
  ["day", DAY_MS],
  ["hour", 60 * 60 * 1_000],
  ["minute", 60 * 1_000],
];

/** @param {number} value */
export const number = (value) => integer.format(value);

/**
 * Returns a number with its noun.
 * @param {number} value
 * @param {string} singular
 * @param {string} [plural]
 */
export const count = (value, singular, plural = `${singular}s`) =>
  `${number(value)} ${value === 1 ? singular : plural}`;

/**
 * Returns a time relative to now if it is near, otherwise its date.
 * @param {Date} then
 * @param {number} nowMs
 */
export function nearTime(then, nowMs) {
  const distanceMs = then.getTime() - nowMs;
  if (Math.abs(distanceMs) > RELATIVE_MS_MAX) return date.format(then);
  const [unit, unitMs] = UNITS.find(([, ms]) => Math.abs(distanceMs) >= ms) ?? ["minute", 60 * 1_000];
  const value = Math.trunc(distanceMs / unitMs);
  return value === 0 ? "now" : relative.format(value, unit);
}

/** @param {string} at */
export const fullTime = (at) => dateTime.format(new Date(at));

/** @param {Date} day */
export const shortDate = (day) => day.toLocaleDateString(LOCALE, { day: "numeric", month: "short", timeZone: "UTC" });

/**
 * Writes a value of an enumeration as words: `auth_required` as "auth required".
 * @param {string} value
 */
export const words = (value) => value.replaceAll("_", " ");

/**
 * Writes words with a capital at the beginning.
 * @param {string} text
 */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** @param {string} id */
export const shortId = (id) => id.slice(-8);
