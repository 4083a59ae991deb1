// The service, for requests and for direct calls.

import { StoreBridge, headerPairs, isBytes } from "./bridge.js";
import { Sender } from "./deliveries.js";
import { KnowledgeError } from "./error.js";
import { open } from "./module.js";
import { OPERATIONS } from "./operations.js";
import { Provisioning } from "./provisioning.js";

const SESSION_COOKIE = "service_session";
const SESSION_PREFIX = "wks_";
/** Answers that have no body (Fetch, "null body status"), which `Response` wants told by `null`. */
const WITHOUT_BODY = new Set([101, 103, 204, 205, 304]);

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The furthest from the epoch that a `Date` goes, in milliseconds. */
const DATE_MS_MAX = 8.64e15;

/** 32 bytes in base64, of bytes or of base64. */
function sealingKeyText(key) {
  return isBytes(key) ? btoa(String.fromCharCode(...key)) : key;
}

/** A `Date`, or milliseconds since the Unix epoch, as the latter. */
function millis(now) {
  if (now === undefined || now === null) return undefined;
  const at = now.valueOf();
  if (typeof at !== "number" || !(Math.abs(at) <= DATE_MS_MAX)) {
    throw new TypeError("a time has to be a valid Date, or milliseconds since the Unix epoch");
  }
  return at;
}

function checkStore(store) {
  const missing = ["read", "commit"].filter((method) => typeof store?.[method] !== "function");
  if (missing.length > 0) {
    throw new TypeError(`the store has no method ${missing.join(" and no method ")}: a store has the methods read and commit`);
  }
}

/** A limit that is a number of something, where it is given. */
function count(name, limits) {
  const number = limits?.[name] ?? undefined;
  if (number === undefined || (Number.isInteger(number) && number >= 1 && number < 2 ** 32)) return number;
  throw new TypeError(`${name} has to be a whole number from 1`);
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
  for (const [name, value] of headers) {
    // What a header cannot hold would be read as another header.
    if (/[\r\n]/.test(name + value)) throw new TypeError(`there is a line break in the header ${JSON.stringify(name)}`);
    lines += `${name}\n${headerValue(name, value)}\n`;
  }
  return lines;
}

/** Thrown where a body was not read to its end, with the status of the answer. */
class BodyRefused {
  constructor(status) {
    this.status = status;
  }
}

/** The status of the answer to a request that this came of, where it is not its caller's mistake. */
function refusalStatus(error) {
  if (error instanceof BodyRefused) return error.status;
  return error instanceof KnowledgeError && error.code === "internal" ? 500 : undefined;
}

/** What stands for a body that the host hides. */
const HIDDEN_BODY = new Uint8Array([0x20]);

/** Whether a request has a body that its host does not show: that of a GET (Fetch, "Request"). What type it has counts. */
function hasHiddenBody(headers) {
  return Number(headers.get("content-length")) > 0 || headers.has("transfer-encoding");
}

/**
 * Reads a body that may have so many bytes: of one that has more, not much more. Each chunk is copied and let go at once: it
 * may be one byte of a buffer of many.
 */
async function readBody(request, bytesMax) {
  if (Number(request.headers.get("content-length")) > bytesMax) {
    await request.body?.cancel().catch(() => {});
    throw new BodyRefused(413);
  }
  if (!request.body) return hasHiddenBody(request.headers) ? HIDDEN_BODY : new Uint8Array();
  const reader = request.body.getReader();
  let bytes = new Uint8Array();
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw new BodyRefused(400);
    });
    if (done) return bytes.subarray(0, length);
    if (!isBytes(value)) {
      await reader.cancel().catch(() => {});
      throw new TypeError("the chunks of a body have to be of the type Uint8Array");
    }
    const start = length;
    length += value.length;
    if (length > bytesMax) {
      await reader.cancel().catch(() => {});
      throw new BodyRefused(413);
    }
    if (length > bytes.length) {
      const grown = new Uint8Array(Math.min(Math.max(length, 2 * start), bytesMax));
      grown.set(bytes.subarray(0, start));
      bytes = grown;
    }
    bytes.set(value, start);
  }
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

function requestHeaders(operation, credential, parameters) {
  const headers = [];
  if (String(credential).startsWith(SESSION_PREFIX)) {
    headers.push(["cookie", `${SESSION_COOKIE}=${credential}`]);
  } else if (credential) {
    headers.push(["authorization", `Bearer ${credential}`]);
  }
  if (parameters.body !== undefined) headers.push(["content-type", "application/json"]);
  for (const [parameter, name] of Object.entries(operation.headers ?? {})) {
    const value = parameters[parameter];
    if (value !== undefined && value !== null) headers.push([name, String(value)]);
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
  #bridge;
  #options;
  /** The service inside an instance of the module, and that instance. */
  #opened;
  #isClosed = false;

  constructor(bridge, options, opened) {
    this.#bridge = bridge;
    this.#options = options;
    this.#opened = opened;
    /** The operator's side: whoever can call it can do everything. */
    this.provision = new Provisioning(
      (method, path, body) => this.#ask(method, path, body),
      (request) => this.#answer(true, request),
    );
  }

  /** Serves a store; an empty one is made ready. */
  static async open(store, options) {
    checkStore(store);
    const { sealingKey, ...others } = options ?? {};
    const json = JSON.stringify({ sealingKey: sealingKeyText(sealingKey), ...others });
    const bridge = new StoreBridge(store);
    return new KnowledgeService(bridge, json, await open(bridge, json));
  }

  /** Gives back what the service holds of the module's memory. What is under way comes to its end. */
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#free();
  }

  /** Answers a request as the server does: the same statuses, headers and bytes. */
  async fetch(request) {
    return this.#answer(false, request);
  }

  /** Makes a direct call of an operation, and gives its whole answer. */
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
    await this.#run((service) => service.ready());
  }

  /** Does a bounded part of what is due: call again while it says that there is more. */
  async maintain(now) {
    const at = millis(now);
    const done = JSON.parse(await this.#run((service) => service.maintain(at)));
    return { ...done, oldestDue: done.oldestDue === null ? null : new Date(done.oldestDue) };
  }

  /** Makes a round of deliveries with this `fetch`, within these limits: call again when it says. */
  async dispatch(fetch, now, limits) {
    const sender = new Sender(fetch);
    const at = millis(now);
    const atOnceMax = count("atOnceMax", limits);
    const attemptsMax = count("attemptsMax", limits);
    const begin = (service) => service.dispatch(sender, at, atOnceMax, attemptsMax);
    const done = JSON.parse(await this.#run(begin));
    return { ...done, nextDue: done.nextDue === null ? null : new Date(done.nextDue) };
  }

  async #answer(isOperator, request) {
    const { method } = request;
    if (typeof method !== "string") throw new TypeError("the request has no method");
    const { pathname, search } = new URL(request.url);
    const path = pathname + search;
    try {
      const bytesMax = await this.#call((service) => service.bodyBytesMax);
      const body = await readBody(request, bytesMax);
      const lines = headerLines(request.headers);
      return toResponse(await this.#handle(isOperator, method, path, lines, body), method);
    } catch (error) {
      const status = refusalStatus(error);
      if (status === undefined) throw error;
      return toResponse(await this.#call((service) => service.refuse(isOperator, method, path, status)), method);
    }
  }

  /** The service to call now. */
  #live() {
    if (this.#isClosed) throw new KnowledgeError({ code: "closed", message: "the service is closed" });
    return this.#opened;
  }

  /** Opens the service again, where a defect has stopped its instance. */
  async #reopen() {
    this.#opened = await open(this.#bridge, this.#options);
    // Closed meanwhile, when this was not there yet.
    if (this.#isClosed) this.#free();
  }

  #free() {
    const { instance, service } = this.#opened;
    if (!instance.stopped) instance.call(() => service.free());
  }

  /** What the service says at once. */
  async #call(callee) {
    if (this.#live().instance.stopped) await this.#reopen();
    const { instance, service } = this.#live();
    return instance.call(() => callee(service));
  }

  /** What the task that `begin` gives the number of comes to. */
  async #run(begin) {
    if (this.#live().instance.stopped) await this.#reopen();
    const { instance, service } = this.#live();
    return instance.run(() => begin(service));
  }

  #handle(isOperator, method, path, lines, body) {
    return this.#run((service) => service.handle(isOperator, method, path, lines, body));
  }

  async #ask(method, path, body) {
    const lines = body === undefined ? "" : headerLines([["content-type", "application/json"]]);
    const bytes = body === undefined ? new Uint8Array() : encoder.encode(JSON.stringify(body));
    return readAnswer(await this.#handle(true, method, path, lines, bytes)).body;
  }
}

// Older hosts have no such symbol.
if (Symbol.dispose) KnowledgeService.prototype[Symbol.dispose] = KnowledgeService.prototype.close;

for (const operationId of Object.keys(OPERATIONS)) {
  Object.defineProperty(KnowledgeService.prototype, operationId, {
    async value(credential, parameters) {
      return (await this.call(operationId, credential, parameters)).body;
    },
    configurable: true,
    writable: true,
  });
}
