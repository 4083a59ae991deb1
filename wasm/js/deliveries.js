// Deliveries by `fetch`: one exchange each, bounded in time and in bytes. What is sent, what an answer means and when to
// try again is decided on the other side; this only asks and reports.

import { headerPairs } from "./bridge.js";
import { held } from "./module.js";

/** The longest wait that is understood; what asks for more asks for this. */
const RETRY_AFTER_SECONDS_MAX = 7 * 24 * 60 * 60;
/** What stands for the status of an answer that a redirect hides. */
const REDIRECTED = 302;

/** Reads an answer to its end, or as far and as long as it is read: it means nothing, but one that breaks off is none. */
async function drain(response, signal, bytesMax) {
  const reader = response.body?.getReader();
  if (!reader) return;
  let left = bytesMax;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    left -= value.byteLength;
    if (left <= 0 || signal.aborted) {
      // What it would still say is not waited for; neither is whether it can be told so.
      reader.cancel().catch(() => {});
      return;
    }
  }
}

/** The forms of a date (RFC 9110, 5.6.7): the one that is written now, and the two that were. */
const DATES = [
  /^(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat), (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d\d:\d\d:\d\d) GMT$/,
  /^(?:Sun|Mon|Tues|Wednes|Thurs|Fri|Satur)day, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) (?<time>\d\d:\d\d:\d\d) GMT$/,
  /^(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat) (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d\d:\d\d:\d\d) (?<year>\d{4})$/,
];

/** The time that a date of HTTP names, in milliseconds since the Unix epoch; `NaN` for what is none. */
function parseDate(text) {
  for (const form of DATES) {
    const { day, month, year, time } = form.exec(text)?.groups ?? {};
    if (year === undefined) continue;
    // Of two digits, as everybody reads them: from 1970 to 2069.
    const century = year.length === 4 ? "" : Number(year) < 70 ? "20" : "19";
    return Date.parse(`${day.trim().padStart(2, "0")} ${month} ${century}${year} ${time} GMT`);
  }
  return NaN;
}

/** `Retry-After` (RFC 9110, 10.2.3) in seconds: a number of them, or a date. `null` for what is neither. */
function retryAfter(headers, now) {
  const text = headers.get("retry-after")?.trim() ?? "";
  const seconds = /^\d+$/.test(text) ? Number(text) : Math.max(0, Math.ceil((parseDate(text) - now) / 1000));
  return Number.isNaN(seconds) ? null : Math.min(seconds, RETRY_AFTER_SECONDS_MAX);
}

function failure(error, hasAnswer, timeoutMs) {
  if (error?.name === "TimeoutError" || error?.name === "AbortError") {
    return { code: "timed_out", message: `no whole answer within ${timeoutMs / 1000} s` };
  }
  if (hasAnswer) return { code: "answer_broken", message: "the answer broke off before its end" };
  // A host does not say whether it was the name, the connection or TLS.
  return { code: "connection_failed", message: "the endpoint could not be reached" };
}

/** Sends with this `fetch`, and relies on it for nothing but the sending. */
export class Sender {
  constructor(fetch) {
    if (typeof fetch !== "function") throw new TypeError("dispatch needs a fetch to send with");
    // Not as a method: hosts refuse theirs with another `this`.
    this.fetch = (url, init) => fetch(url, init);
  }

  /** One exchange: it has so long, to the end of the answer, and so much of that is read. */
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
    // A `fetch` that does not heed the signal is not waited for either.
    const timeout = new Promise((_, reject) => {
      timer = setTimeout(() => {
        const error = new DOMException("the time of the delivery is over", "TimeoutError");
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
    // A browser hides what redirects, and a `fetch` that follows it has the answer of somebody else.
    if (response.type === "opaqueredirect" || response.redirected) {
      response.body?.cancel().catch(() => {});
      return { status: REDIRECTED, retryAfterSeconds: null };
    }
    const retryAfterSeconds = retryAfter(response.headers, Date.now());
    await drain(response, init.signal, answerBytesMax);
    return { status: response.status, retryAfterSeconds };
  }
}
