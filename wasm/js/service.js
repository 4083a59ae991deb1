// The service, for requests and for direct calls.

import { StoreBridge } from "./bridge.js";
import { Sender } from "./deliveries.js";
import { KnowledgeError } from "./error.js";
import { call, open, run } from "./module.js";
import { OPERATIONS } from "./operations.js";
import { Provisioning } from "./provisioning.js";

const SESSION_COOKIE = "service_session";
const SESSION_PREFIX = "wks_";
/** Answers that have no body (Fetch, "null body status"), which `Response` wants told by `null`. */
const WITHOUT_BODY = new Set([101, 103, 204, 205, 304]);

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** 32 bytes in base64, of bytes or of base64. */
function sealingKeyText(key) {
  return key instanceof Uint8Array ? btoa(String.fromCharCode(...key)) : key;
}

/** A `Date`, or milliseconds since the Unix epoch, as the latter. */
function millis(now) {
  return now === undefined ? undefined : Number(now);
}

/**
 * The value of a header as the bytes that it was sent as, one for each character. Hosts differ: where one reads UTF-8 and
 * meets what is none, it gives characters that are no bytes, and stays no ASCII. One joins several cookies as it joins other
 * headers; no cookie has a comma of its own (RFC 6265, 4.1.1).
 */
function headerValue(name, value) {
  const bytes = value.replaceAll(/[^\0-\xff]/g, "\xff");
  return name === "cookie" ? bytes.replaceAll(", ", "; ") : bytes;
}

function headerLines(headers) {
  let lines = "";
  for (const [name, value] of headers) lines += `${name}\n${headerValue(name, value)}\n`;
  return lines;
}

/** The header lines of an answer as pairs. */
function* headerPairs(lines) {
  const parts = lines.split("\n");
  for (let at = 0; at + 1 < parts.length; at += 2) yield [parts[at], parts[at + 1]];
}

/** Thrown where a body was not read to its end. */
class BodyRefused {
  constructor(isTooLarge) {
    this.isTooLarge = isTooLarge;
  }
}

/** What stands for a body that the host hides. */
const HIDDEN_BODY = new Uint8Array([0x20]);

/** Whether a request has a body that its host does not show: that of a GET (Fetch, "Request"). What type it has counts. */
function hasHiddenBody(headers) {
  return Number(headers.get("content-length")) > 0 || headers.has("transfer-encoding");
}

/** Reads a body that may have so many bytes: of one that has more, not much more. */
async function readBody(request, bytesMax) {
  if (Number(request.headers.get("content-length")) > bytesMax) {
    await request.body?.cancel().catch(() => {});
    throw new BodyRefused(true);
  }
  if (!request.body) return hasHiddenBody(request.headers) ? HIDDEN_BODY : new Uint8Array();
  const reader = request.body.getReader();
  const chunks = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw new BodyRefused(false);
    });
    if (done) break;
    length += value.byteLength;
    if (length > bytesMax) {
      await reader.cancel().catch(() => {});
      throw new BodyRefused(true);
    }
    chunks.push(value);
  }
  if (chunks.length === 1) return chunks[0];
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.byteLength;
  }
  return whole;
}

function toResponse([status, lines, body], method) {
  const hasBody = !WITHOUT_BODY.has(status) && method !== "HEAD";
  return new Response(hasBody ? body : null, { status, headers: [...headerPairs(lines)] });
}

/** The parts of a direct call's path and query that its operation names. */
function target(operation, parameters) {
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name) => {
    const value = parameters[name];
    if (value === undefined || value === "") {
      throw new TypeError(`the parameter ${name} is missing`);
    }
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams();
  for (const name of operation.query ?? []) {
    const value = parameters[name];
    if (value === undefined || value === null) continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  return query.size > 0 ? `${path}?${query}` : path;
}

/** `Idempotency-Key` as `idempotencyKey`. */
function parameterName(header) {
  const words = header.toLowerCase().split("-");
  return words.map((word, at) => (at ? word[0].toUpperCase() + word.slice(1) : word)).join("");
}

function requestHeaders(operation, credential, parameters) {
  const headers = [];
  if (credential?.startsWith(SESSION_PREFIX)) {
    headers.push(["cookie", `${SESSION_COOKIE}=${credential}`]);
  } else if (credential) {
    headers.push(["authorization", `Bearer ${credential}`]);
  }
  if (parameters.body !== undefined) headers.push(["content-type", "application/json"]);
  for (const name of operation.headers ?? []) {
    const value = parameters[parameterName(name)];
    if (value === undefined || value === null) continue;
    // What a value of a header cannot hold would otherwise be read as another header.
    if (/[\r\n]/.test(value)) throw new TypeError(`the parameter ${parameterName(name)} has a line break`);
    headers.push([name, String(value)]);
  }
  return headerLines(headers);
}

/** What an answer of the interface says, or the error that it is. */
export function readAnswer([status, lines, bytes]) {
  const headers = new Map(headerPairs(lines));
  const text = decoder.decode(bytes);
  const body = text === "" ? undefined : JSON.parse(text);
  if (status < 400) return { status, headers, body };
  throw new KnowledgeError({
    code: body?.error ?? headers.get("error-code") ?? "invalid_request",
    message: body?.message ?? headers.get("error-message") ?? `the answer has the status ${status}`,
    details: body?.details,
    status,
    requestId: headers.get("request-id"),
  });
}

/** The workspace knowledge service over one store. */
export class KnowledgeService {
  #service;

  constructor(service) {
    this.#service = service;
    /** The operator's side: whoever can call it can do everything. */
    this.provision = new Provisioning(
      (method, path, body) => this.#ask(true, method, path, body),
      (request) => this.#answer(true, request),
    );
  }

  /** Serves a store; an empty one is made ready. */
  static async open(store, options) {
    const { sealingKey, ...others } = options ?? {};
    const json = JSON.stringify({ sealingKey: sealingKeyText(sealingKey), ...others });
    return new KnowledgeService(await open(new StoreBridge(store), json));
  }

  /** Answers a request as the server does: the same statuses, headers and bytes. */
  fetch(request) {
    return this.#answer(false, request);
  }

  /** Makes a direct call of any operation, and gives its whole answer. */
  async call(operationId, credential, parameters = {}) {
    const operation = OPERATIONS[operationId];
    if (!operation) throw new TypeError(`there is no operation ${operationId}`);
    const lines = requestHeaders(operation, credential, parameters);
    const { body } = parameters;
    const bytes = body === undefined ? new Uint8Array() : encoder.encode(JSON.stringify(body));
    const path = target(operation, parameters);
    return readAnswer(await this.#handle(false, operation.method, path, lines, bytes));
  }

  /** Changes attributes of many memories: `bulkUpdateMemories` with its parts as arguments. */
  bulkUpdate(token, idempotencyKey, update) {
    return this.bulkUpdateMemories(token, { idempotencyKey, body: update });
  }

  /** The summary of a workspace: `getDashboardSummary` with its parts as arguments. */
  dashboardSummary(token, workspaceId) {
    return this.getDashboardSummary(token, { id: workspaceId });
  }

  /** Fails where the store does not answer. */
  async ready() {
    await run(() => this.#service.ready());
  }

  /** Does a bounded part of what is due: call again while it says that there is more. */
  async maintain(now) {
    const done = JSON.parse(await run(() => this.#service.maintain(millis(now))));
    return { ...done, oldestDue: done.oldestDue === null ? null : new Date(done.oldestDue) };
  }

  /** Makes a round of deliveries with this `fetch`: call again when it says. */
  async dispatch(fetch, now) {
    const sender = new Sender(fetch);
    const done = JSON.parse(await run(() => this.#service.dispatch(sender, millis(now))));
    return { ...done, nextDue: done.nextDue === null ? null : new Date(done.nextDue) };
  }

  async #answer(isOperator, request) {
    const { method } = request;
    const { pathname, search } = new URL(request.url);
    const path = pathname + search;
    let body;
    try {
      body = await readBody(request, call(() => this.#service.bodyBytesMax));
    } catch (refused) {
      if (!(refused instanceof BodyRefused)) throw refused;
      const answer = call(() => this.#service.refuse(method, path, refused.isTooLarge));
      return toResponse(answer, method);
    }
    const lines = headerLines(request.headers);
    return toResponse(await this.#handle(isOperator, method, path, lines, body), method);
  }

  #handle(isOperator, method, path, lines, body) {
    return run(() => this.#service.handle(isOperator, method, path, lines, body));
  }

  async #ask(isOperator, method, path, body) {
    const lines = body === undefined ? "" : headerLines([["content-type", "application/json"]]);
    const bytes = body === undefined ? new Uint8Array() : encoder.encode(JSON.stringify(body));
    return readAnswer(await this.#handle(isOperator, method, path, lines, bytes)).body;
  }
}

for (const operationId of Object.keys(OPERATIONS)) {
  Object.defineProperty(KnowledgeService.prototype, operationId, {
    async value(credential, parameters) {
      return (await this.call(operationId, credential, parameters)).body;
    },
    configurable: true,
    writable: true,
  });
}
