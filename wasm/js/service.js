// The service: requests and direct calls.

import { StoreBridge, headerPairs, isBytes } from "./bridge.js";
import { Sender } from "./deliveries.js";
import { KnowledgeError } from "./error.js";
import { open } from "./module.js";
import { OPERATIONS } from "./operations.js";
import { Provisioning } from "./provisioning.js";

const SESSION_COOKIE = "service_session";
const SESSION_PREFIX = "wks_";
/** Statuses without a body (Fetch, "null body status"), for which `Response` requires `null`. */
const WITHOUT_BODY = new Set([101, 103, 204, 205, 304]);

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Maximum distance of a `Date` from the epoch, in milliseconds. */
const DATE_MS_MAX = 8.64e15;

/** Encodes a sealing key in base64, unless it is text already. */
function sealingKeyText(key) {
  return isBytes(key) ? btoa(String.fromCharCode(...key)) : key;
}

/** Converts a `Date` or a number into milliseconds since the Unix epoch. */
function millis(now) {
  if (now === undefined || now === null) return undefined;
  const at = now.valueOf();
  if (typeof at !== "number" || !(Math.abs(at) <= DATE_MS_MAX)) {
    throw new TypeError("now must be a valid Date, or milliseconds since the Unix epoch");
  }
  return at;
}

function checkStore(store) {
  const missing = ["read", "commit"].filter((method) => typeof store?.[method] !== "function");
  if (missing.length > 0) {
    throw new TypeError(`the store has no method ${missing.join(" and no method ")}; a store must have read and commit`);
  }
}

/** Returns an optional limit; throws unless it is a positive whole number. */
function count(name, limits) {
  const number = limits?.[name] ?? undefined;
  if (number === undefined || (Number.isInteger(number) && number >= 1 && number < 2 ** 32)) return number;
  throw new TypeError(`${name} must be a whole number from 1 to 2^32 - 1`);
}

/**
 * Returns the value of a header as bytes, one per character. Some hosts decode UTF-8 and replace
 * invalid bytes: such characters become a byte that is not ASCII. Some join cookies with a comma as
 * other headers; a cookie itself contains none (RFC 6265, 4.1.1).
 */
function headerValue(name, value) {
  const bytes = value.replaceAll(/[^\0-\xff]/g, "\xff");
  return name === "cookie" ? bytes.replaceAll(", ", "; ") : bytes;
}

function headerLines(headers) {
  let lines = "";
  for (const [name, value] of headers) {
    // A line break would start another header.
    if (/[\r\n]/.test(name + value)) throw new TypeError(`the header ${JSON.stringify(name)} must not contain a line break`);
    lines += `${name}\n${headerValue(name, value)}\n`;
  }
  return lines;
}

/** Thrown for a body that was not read to its end, with the status of the response. */
class BodyRejected {
  constructor(status) {
    this.status = status;
  }
}

/** Returns the status of the response to a failed request; `undefined` for a caller's mistake. */
function rejectionStatus(error) {
  if (error instanceof BodyRejected) return error.status;
  return error instanceof KnowledgeError && error.code === "internal" ? 500 : undefined;
}

/** Placeholder for a body that the host hides. */
const HIDDEN_BODY = new Uint8Array([0x20]);

/** Returns true if the host hides a body, that of a GET (Fetch, "Request"); its type is checked. */
function hasHiddenBody(headers) {
  return Number(headers.get("content-length")) > 0 || headers.has("transfer-encoding");
}

/**
 * Reads a body of at most `bytesMax` bytes; rejects a larger one early. Each chunk is copied and
 * released, because one byte may be a view of a large buffer.
 */
async function receiveBody(request, bytesMax) {
  if (Number(request.headers.get("content-length")) > bytesMax) {
    await request.body?.cancel().catch(() => {});
    throw new BodyRejected(413);
  }
  if (!request.body) return hasHiddenBody(request.headers) ? HIDDEN_BODY : new Uint8Array();
  const reader = request.body.getReader();
  let bytes = new Uint8Array();
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw new BodyRejected(400);
    });
    if (done) return bytes.subarray(0, length);
    if (!isBytes(value)) {
      await reader.cancel().catch(() => {});
      throw new TypeError("the chunks of a body must be of type Uint8Array");
    }
    const start = length;
    length += value.length;
    if (length > bytesMax) {
      await reader.cancel().catch(() => {});
      throw new BodyRejected(413);
    }
    if (length > bytes.length) {
      const grown = new Uint8Array(Math.min(Math.max(length, 2 * start), bytesMax));
      grown.set(bytes.subarray(0, start));
      bytes = grown;
    }
    bytes.set(value, start);
  }
}

/** Returns the pairs of the header lines in the module's memory. */
const readHeaders = (lines) => [...headerPairs(decoder.decode(lines))];

/** Returns a reader of the response to a request with this method. */
function responseReader(method) {
  return (status, lines, body) => {
    const hasBody = !WITHOUT_BODY.has(status) && method !== "HEAD";
    return new Response(hasBody ? body.slice() : null, { status, headers: readHeaders(lines) });
  };
}

/** The templates of paths, split into texts and the names of parameters in turn. */
const templates = new Map();

function templateOf(path) {
  if (!templates.has(path)) templates.set(path, path.split(/\{(\w+)\}/));
  return templates.get(path);
}

/** Builds the path of a direct call. */
function pathOf(operation, parameters) {
  const [first, ...others] = templateOf(operation.path);
  let path = first;
  for (let at = 0; at < others.length; at += 2) {
    const name = others[at];
    const value = parameters[name];
    if (value === undefined || value === "") {
      throw new TypeError(`the parameter ${name} is missing`);
    }
    path += encodeURIComponent(value) + others[at + 1];
  }
  return path;
}

/** Builds the path and the query of a direct call. */
function target(operation, parameters) {
  const path = pathOf(operation, parameters);
  if (!operation.query) return path;
  const query = new URLSearchParams();
  for (const name of operation.query) {
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

/** Reads the body of a response of the API; throws that of an error. */
function readBody(status, lines, bytes) {
  const text = decoder.decode(bytes);
  const body = text === "" ? undefined : JSON.parse(text);
  if (status < 400) return body;
  const headers = new Map(readHeaders(lines));
  throw new KnowledgeError({
    code: body?.error ?? headers.get("error-code") ?? "invalid_request",
    message: body?.message ?? headers.get("error-message") ?? `the response has status ${status}`,
    details: body?.details,
    status,
    requestId: headers.get("request-id"),
  });
}

/** Reads a response of the API with its status and headers. */
function readAnswer(status, lines, bytes) {
  const body = readBody(status, lines, bytes);
  return { status, headers: new Map(readHeaders(lines)), body };
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
    /** The operator API, without authentication: a caller can do everything. */
    this.provision = new Provisioning(
      (method, path, body) => this.#ask(method, path, body),
      (request) => this.#answer(true, request),
    );
  }

  /** Opens a service over a store; an empty store is initialised. */
  static async open(store, options) {
    checkStore(store);
    const { sealingKey, ...others } = options ?? {};
    const json = JSON.stringify({ sealingKey: sealingKeyText(sealingKey), ...others });
    const bridge = new StoreBridge(store);
    return new KnowledgeService(bridge, json, await open(bridge, json));
  }

  /** Frees the service's share of the module's memory. Calls under way are completed. */
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#free();
  }

  /** Handles a request as the server does, with the same statuses, headers and bytes. */
  async fetch(request) {
    return this.#answer(false, request);
  }

  /** Calls an operation directly, and returns the whole response. */
  async call(operationId, credential, parameters) {
    return this.#callOperation(operationId, credential, parameters, readAnswer);
  }

  static {
    for (const operationId of Object.keys(OPERATIONS)) {
      const value = async function (credential, parameters) {
        return this.#callOperation(operationId, credential, parameters, readBody);
      };
      Object.defineProperty(KnowledgeService.prototype, operationId, { value, configurable: true, writable: true });
    }
  }

  /** Runs an operation, and resolves to what `read` reads from the response. */
  #callOperation(operationId, credential, parameters = {}, read) {
    const operation = OPERATIONS[operationId];
    if (!operation) throw new TypeError(`there is no operation ${operationId}`);
    const lines = requestHeaders(operation, credential, parameters);
    const { body } = parameters;
    const bytes = body === undefined ? new Uint8Array() : encoder.encode(JSON.stringify(body));
    return this.#handle(false, operation.method, target(operation, parameters), lines, bytes, read);
  }

  /** Changes attributes of many memories: `bulkUpdateMemories` with positional arguments. */
  bulkUpdate(token, idempotencyKey, update) {
    return this.bulkUpdateMemories(token, { idempotencyKey, body: update });
  }

  /** Returns the summary of a workspace: `getDashboardSummary` with positional arguments. */
  dashboardSummary(token, workspaceId) {
    return this.getDashboardSummary(token, { id: workspaceId });
  }

  /** Rejects if the store does not respond. */
  async ready() {
    await this.#run((service) => service.ready());
  }

  /** Runs a limited number of due tasks; call it again while the report has `hasMore`. */
  async maintain(now) {
    const at = millis(now);
    const done = JSON.parse(await this.#run((service) => service.maintain(at)));
    return { ...done, oldestDue: done.oldestDue === null ? null : new Date(done.oldestDue) };
  }

  /** Runs one dispatch pass with this `fetch`; call it again as the report says. */
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
      const body = await receiveBody(request, bytesMax);
      const lines = headerLines(request.headers);
      return await this.#handle(isOperator, method, path, lines, body, responseReader(method));
    } catch (error) {
      const status = rejectionStatus(error);
      if (status === undefined) throw error;
      return this.#run((service) => service.reject(isOperator, method, path, status), responseReader(method));
    }
  }

  /** Returns the service and its instance; throws after `close`. */
  #live() {
    if (this.#isClosed) throw new KnowledgeError({ code: "closed", message: "the service is closed" });
    return this.#opened;
  }

  /** Reopens the service after a crash of its instance. */
  async #reopen() {
    this.#opened = await open(this.#bridge, this.#options);
    // It was closed while it was being reopened.
    if (this.#isClosed) this.#free();
  }

  #free() {
    const { instance, service } = this.#opened;
    if (!instance.stopped) instance.call(() => service.free());
  }

  /** Calls the service synchronously, once it is open. */
  async #call(callee) {
    if (this.#live().instance.stopped) await this.#reopen();
    const { instance, service } = this.#live();
    return instance.call(() => callee(service));
  }

  /** Runs a task of the service, whose number `begin` returns. */
  #run(begin, read) {
    const { instance, service } = this.#live();
    if (instance.stopped) return this.#reopen().then(() => this.#run(begin, read));
    return instance.run(() => begin(service), read);
  }

  #handle(isOperator, method, path, lines, body, read) {
    return this.#run((service) => service.handle(isOperator, method, path, lines, body), read);
  }

  async #ask(method, path, body) {
    const lines = body === undefined ? "" : headerLines([["content-type", "application/json"]]);
    const bytes = body === undefined ? new Uint8Array() : encoder.encode(JSON.stringify(body));
    return this.#handle(true, method, path, lines, bytes, readBody);
  }
}

// Older hosts lack the symbol.
if (Symbol.dispose) KnowledgeService.prototype[Symbol.dispose] = KnowledgeService.prototype.close;
