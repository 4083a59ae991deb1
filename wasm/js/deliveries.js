// Deliveries through `fetch`: one exchange each, with a time limit and a size limit. The module
// decides on the content of requests, the meaning of responses and retries.

import { headerPairs } from "./bridge.js";
import { held } from "./module.js";

/** Maximum of `Retry-After`; a longer wait is reduced to it. */
const RETRY_AFTER_SECONDS_MAX = 7 * 24 * 60 * 60;
/** Status recorded for a redirect whose response is hidden. */
const REDIRECTED = 302;

/**
 * Reads and discards a response body, up to its end, the size limit or the timeout. It throws if
 * the body breaks off: such a response is invalid.
 */
async function drain(response, signal, bytesMax) {
  const reader = response.body?.getReader();
  if (!reader) return;
  let left = bytesMax;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    left -= value.byteLength;
    if (left <= 0 || signal.aborted) {
      // Neither the rest of the body nor the cancellation is awaited.
      reader.cancel().catch(() => {});
      return;
    }
  }
}

/** Formats of a date (RFC 9110, 5.6.7): the current one and two obsolete ones. */
const DATES = [
  /^(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat), (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d\d:\d\d:\d\d) GMT$/,
  /^(?:Sun|Mon|Tues|Wednes|Thurs|Fri|Satur)day, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) (?<time>\d\d:\d\d:\d\d) GMT$/,
  /^(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat) (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d\d:\d\d:\d\d) (?<year>\d{4})$/,
];

/** Parses a date of HTTP into milliseconds since the Unix epoch; `NaN` if it is invalid. */
function parseDate(text) {
  for (const form of DATES) {
    const { day, month, year, time } = form.exec(text)?.groups ?? {};
    if (year === undefined) continue;
    // A year of two digits is from 1970 to 2069, by convention.
    const century = year.length === 4 ? "" : Number(year) < 70 ? "20" : "19";
    return Date.parse(`${day.trim().padStart(2, "0")} ${month} ${century}${year} ${time} GMT`);
  }
  return NaN;
}

/** Parses `Retry-After` (RFC 9110, 10.2.3), a number or a date, into seconds; `null` if invalid. */
function retryAfter(headers, now) {
  const text = headers.get("retry-after")?.trim() ?? "";
  const seconds = /^\d+$/.test(text) ? Number(text) : Math.max(0, Math.ceil((parseDate(text) - now) / 1000));
  return Number.isNaN(seconds) ? null : Math.min(seconds, RETRY_AFTER_SECONDS_MAX);
}

function failure(error, hasAnswer, timeoutMs) {
  if (error?.name === "TimeoutError" || error?.name === "AbortError") {
    return { code: "timed_out", message: `no complete response within ${timeoutMs / 1000} s` };
  }
  if (hasAnswer) return { code: "answer_broken", message: "the response ended early" };
  // `fetch` does not distinguish failures of name resolution, the connection and TLS.
  return { code: "connection_failed", message: "the endpoint could not be reached" };
}

/** A sender over a `fetch`, which it trusts with nothing but sending. */
export class Sender {
  constructor(fetch) {
    if (typeof fetch !== "function") throw new TypeError("the first argument of dispatch must be a fetch function");
    // Called without `this`: hosts reject theirs with another one.
    this.fetch = (url, init) => fetch(url, init);
  }

  /** Sends one request, within limits of the whole exchange's time and the response's size. */
  send(url, lines, body, timeoutMs, answerBytesMax) {
    const message = { headers: new Headers([...headerPairs(lines)]), body: body.slice() };
    return held(this.attempt(url, message, { timeoutMs, answerBytesMax }));
  }

  async attempt(url, message, limits) {
    const started = Date.now();
    const outcome = await this.exchange(url, message, limits);
    return JSON.stringify({ ...outcome, durationMs: Math.max(0, Date.now() - started) });
  }

  async exchange(url, message, { timeoutMs, answerBytesMax }) {
    const progress = { hasAnswer: false };
    const abortion = new AbortController();
    let timer;
    // The race ends also if the given `fetch` ignores the signal.
    const timeout = new Promise((_, reject) => {
      timer = setTimeout(() => {
        const error = new DOMException("the delivery timed out", "TimeoutError");
        reject(error);
        abortion.abort(error);
      }, timeoutMs);
    });
    const init = { method: "POST", ...message, redirect: "manual", signal: abortion.signal };
    try {
      return await Promise.race([this.ask(url, init, progress, answerBytesMax), timeout]);
    } catch (error) {
      return { failure: failure(error, progress.hasAnswer, timeoutMs) };
    } finally {
      clearTimeout(timer);
    }
  }

  async ask(url, init, progress, answerBytesMax) {
    const response = await this.fetch(url, init);
    progress.hasAnswer = true;
    // A browser hides a redirect, and a `fetch` that followed one has another party's response.
    if (response.type === "opaqueredirect" || response.redirected) {
      response.body?.cancel().catch(() => {});
      return { status: REDIRECTED, retryAfterSeconds: null };
    }
    const retryAfterSeconds = retryAfter(response.headers, Date.now());
    await drain(response, init.signal, answerBytesMax);
    return { status: response.status, retryAfterSeconds };
  }
}
