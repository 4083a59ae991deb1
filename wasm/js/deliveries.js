// Deliveries by `fetch`: one exchange each, bounded in time and in bytes. What is sent, what an answer means and when to
// try again is decided on the other side; this only asks and reports.

/** How long an exchange may take, to the end of the answer. */
const TIMEOUT_MS = 15_000;
/** How much of an answer is read: it means nothing, but one that breaks off is none. */
const ANSWER_BYTES_MAX = 16 * 1024;

/** Reads an answer to its end, or as far as it is read. */
async function drain(response) {
  const reader = response.body?.getReader();
  if (!reader) return;
  let left = ANSWER_BYTES_MAX;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    left -= value.byteLength;
    if (left <= 0) {
      // What it would still say is not waited for; neither is whether it can be told so.
      reader.cancel().catch(() => {});
      return;
    }
  }
}

/** `Retry-After` (RFC 9110, 10.2.3) in seconds: a number of them, or a date. */
function retryAfter(headers, now) {
  const text = headers.get("retry-after")?.trim();
  if (text === undefined) return null;
  // Longer ones are not waited for: nobody means a number of seconds of more than ten digits.
  if (/^\d+$/.test(text)) return Number(text.slice(0, 10));
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, Math.ceil((at - now) / 1000));
}

function failure(error, hasAnswer) {
  if (error?.name === "TimeoutError" || error?.name === "AbortError") {
    return { code: "timed_out", message: `no whole answer within ${TIMEOUT_MS / 1000} s` };
  }
  if (hasAnswer) return { code: "answer_broken", message: "the answer broke off before its end" };
  // A host does not say whether it was the name, the connection or TLS.
  return { code: "connection_failed", message: "the endpoint could not be reached" };
}

/** Sends with this `fetch`. */
export class Sender {
  constructor(fetch) {
    // Not as a method: hosts refuse theirs with another `this`.
    this.fetch = (url, init) => fetch(url, init);
  }

  async send(url, lines, body) {
    const started = Date.now();
    const outcome = await this.exchange(url, lines, body.slice());
    return JSON.stringify({ ...outcome, durationMs: Math.max(0, Date.now() - started) });
  }

  async exchange(url, lines, body) {
    const parts = lines.split("\n");
    const headers = new Headers();
    for (let at = 0; at + 1 < parts.length; at += 2) headers.append(parts[at], parts[at + 1]);
    let hasAnswer = false;
    try {
      const response = await this.fetch(url, {
        method: "POST",
        headers,
        body,
        redirect: "manual",
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      hasAnswer = true;
      // A browser hides what redirects: whatever it was, it is not followed.
      const status = response.type === "opaqueredirect" ? 302 : response.status;
      const retryAfterSeconds = retryAfter(response.headers, Date.now());
      await drain(response);
      return { status, retryAfterSeconds };
    } catch (error) {
      return { failure: failure(error, hasAnswer) };
    }
  }
}
