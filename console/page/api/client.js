// The member who uses this page, and requests to the API: their transports, and their repetition
// where that is safe. The session is a cookie that scripts cannot read; operations that take a
// bearer token get one that is made from it, lives for minutes, and is kept in memory.

import { ApiError } from "./error.js";

/** Time after which a token is replaced. The service gives each at least five minutes. */
const RENEWAL_MS = 240_000;
/** Delays before the second and each further attempt. */
const RETRY_DELAYS_MS = [500, 2_000, 5_000, 10_000];
/** Longest wait that a response may ask for; after a longer one the user decides. */
const RETRY_AFTER_MS_MAX = 20_000;

/**
 * Identity of the member who is signed in, as the server says.
 * @typedef {object} Identity
 * @property {{ id: string, slug: string, name: string }} organization
 * @property {{ id: string, handle: string, name: string, kind: Member["kind"], teams: string[] }} member
 * @property {string} role Role in the organisation.
 * @property {Action[]} actions Actions that it permits.
 * @property {{ id: string }} session
 */
/**
 * @import { Action, Member } from "../../../wasm/pkg/operations.js"
 * @import { Created } from "./operations.js"
 */
/** @typedef {{ token: string, expires_at: string }} Token */

/**
 * Options of a request.
 * @typedef {object} RequestOptions
 * @property {object} [body]
 * @property {string} [idempotencyKey] Makes a request repeatable; the same for each repetition.
 * @property {string} [ifMatch] Tag that the changed resource must still have.
 * @property {boolean} [isRepeatable] True if repeating it has no effect of its own; the default for
 *   every method except POST and for requests with a key.
 */

/**
 * A request to the API.
 * @typedef {object} ApiRequest
 * @property {string} method
 * @property {string} path Path and query.
 * @property {Headers} headers
 * @property {string | undefined} body
 */

/**
 * Sends a request with the credential that its operation takes.
 * @typedef {(request: ApiRequest) => Promise<Response>} Transport
 */

/**
 * Returns true if the operation at a path takes a session, false if it takes a bearer token.
 * @param {string} path
 */
export const takesSession = (path) => path.startsWith("/v1/orgs/") || path.startsWith("/auth/");

/** A member who is signed in. */
export class Session {
  /** @type {Token | null} */
  #token = null;
  #renewAt = 0;
  /** The request for a token that is under way. @type {Promise<Answer> | null} */
  #renewal = null;

  /** @param {Identity} identity */
  constructor(identity) {
    this.identity = identity;
  }

  /** Returns the session of this browser, or `null` if nobody is signed in. */
  static async restore() {
    const answer = await send("GET", "session");
    return answer.status === 401 ? null : new Session(read(answer));
  }

  /** Returns the name of the provider of sign-ins, or `null`. */
  static provider() {
    return send("GET", "oidc")
      .then((answer) => read(answer).label)
      .catch(() => null);
  }

  /**
   * Signs a member in.
   * @param {string} link Secret of a sign-in link.
   */
  static async start(link) {
    return new Session(read(await send("POST", "login", { link })));
  }

  /**
   * Adds a bearer token to a request. Returns the refusal instead if there is no session any more.
   * @param {Headers} headers
   * @returns {Promise<Response | null>}
   */
  async authorize(headers) {
    if (this.#token === null || Date.now() > this.#renewAt) {
      this.#renewal ??= send("POST", "token");
      try {
        const answer = await this.#renewal;
        if (answer.status >= 400) return new Response(answer.text, answer);
        this.#token = /** @type {Token} */ (JSON.parse(answer.text));
        this.#renewAt = Date.now() + RENEWAL_MS;
      } finally {
        this.#renewal = null;
      }
    }
    headers.set("authorization", `Bearer ${this.#token.token}`);
    return null;
  }

  /**
   * Returns the first things that the session created and that have not ended; none if they cannot be read.
   * @returns {Promise<Created[]>}
   */
  async creations() {
    const answer = await send("GET", `credentials/${this.identity.session.id}/created`).catch(() => null);
    if (answer?.status !== 200) return [];
    return read(answer).data.filter((/** @type {Created} */ { state }) => state !== "ended");
  }

  /**
   * Signs the member out. Throws an `ApiError` if the session may not have ended.
   * @param {boolean} [withCreated] True to end what the session created, too.
   */
  async end(withCreated = false) {
    this.#token = null;
    const answer = await send("POST", withCreated ? "logout?with_created=true" : "logout").catch(() => null);
    if (answer?.status === 204 || answer?.status === 401) return;
    throw Object.assign(answer ? ApiError.of(answer) : ApiError.network(true), { code: "sign_out" });
  }
}

/**
 * @param {string} method
 * @param {string} name
 * @param {object} [body]
 * @returns {Promise<Answer>}
 */
async function send(method, name, body) {
  const response = await fetch(`auth/${name}`, {
    method,
    headers: body ? { "content-type": "application/json" } : {},
    body: body ? JSON.stringify(body) : undefined,
    credentials: "same-origin",
    redirect: "error",
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/**
 * @param {Answer} answer
 * @returns {any}
 */
function read(answer) {
  if (answer.status >= 400) throw ApiError.of(answer);
  return parsed(answer);
}

/**
 * Returns the body of a response; `undefined` if it has none.
 * @param {Answer} answer
 */
function parsed(answer) {
  if (answer.text === "") return undefined;
  try {
    return JSON.parse(answer.text);
  } catch {
    // A proxy, or the sign-in page of a network, may answer with a page of its own.
    throw ApiError.foreign(answer.status);
  }
}

/**
 * Returns the transport to the server that served the page. The browser adds the session cookie.
 * @param {Session} session
 * @returns {Transport}
 */
export function networkTransport(session) {
  return async ({ method, path, headers, body }) => {
    const refusal = takesSession(path) ? null : await session.authorize(headers);
    // Relative to the page, which a proxy may serve below a path.
    return refusal ?? fetch(path.slice(1), { method, headers, body, credentials: "same-origin", redirect: "error" });
  };
}

/**
 * A response that was received to its end.
 * @typedef {{ status: number, headers: Headers, text: string }} Answer
 */

/**
 * Returns a new idempotency key: one for each decision of the user, however often it is sent. A page
 * without https has no `crypto.randomUUID`.
 */
export const newIdempotencyKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** State of the connection, shared by all requests of the page. */
export class Connection {
  /** True while a request waits to be repeated. */
  isLost = false;
  /** @type {Set<() => void>} */
  #wakers = new Set();
  #onChange;

  /** @param {() => void} onChange Called after each change of `isLost`. */
  constructor(onChange) {
    this.#onChange = onChange;
    addEventListener("online", () => this.retryNow());
  }

  /**
   * Waits before the next attempt; ends early if the network returns or the user asks for it.
   * @param {number} delayMs
   */
  async wait(delayMs) {
    this.#set(true);
    /** @type {PromiseWithResolvers<void>} */
    const { promise, resolve } = Promise.withResolvers();
    this.#wakers.add(resolve);
    setTimeout(resolve, delayMs);
    await promise;
    this.#wakers.delete(resolve);
  }

  /** Ends all waits. */
  retryNow() {
    for (const wake of this.#wakers) wake();
  }

  /** Notes that a request was answered or is not repeated any more. */
  settle() {
    this.#set(false);
  }

  /** @param {boolean} isLost */
  #set(isLost) {
    if (this.isLost === isLost) return;
    this.isLost = isLost;
    this.#onChange();
  }
}

/** A client of the API. */
export class Client {
  #transport;
  #connection;
  #onSignedOut;
  /** Keys of creations that are not known to be done. @type {Map<string, string>} */
  #keys = new Map();

  /**
   * @param {Transport} transport
   * @param {Connection} connection
   * @param {() => void} onSignedOut Called if the credential is not valid any more.
   */
  constructor(transport, connection, onSignedOut) {
    this.#transport = transport;
    this.#connection = connection;
    this.#onSignedOut = onSignedOut;
  }

  /**
   * Sends a request and returns the body of its response; `undefined` if it has none.
   * @param {string} method
   * @param {string} path
   * @param {RequestOptions} [options]
   * @returns {Promise<any>}
   */
  async send(method, path, options) {
    return (await this.sendTagged(method, path, options)).body;
  }

  /**
   * Sends a request that creates something without a secret, with a key by which it is repeated. A
   * secret would be in the first response only.
   * @param {string} path
   * @param {object} [body]
   */
  async create(path, body) {
    const sent = path + JSON.stringify(body);
    const idempotencyKey = this.#keys.get(sent) ?? newIdempotencyKey();
    this.#keys.set(sent, idempotencyKey);
    const created = await this.send("POST", path, { body, idempotencyKey });
    this.#keys.delete(sent);
    return created;
  }

  /**
   * Sends a request and returns the body of its response with its tag.
   * @param {string} method
   * @param {string} path
   * @param {RequestOptions} [options]
   * @returns {Promise<{ body: any, etag: string }>}
   */
  async sendTagged(method, path, options = {}) {
    const answer = await this.#sendUntilAnswered(method, path, options);
    if (answer.status < 400) {
      return { body: parsed(answer), etag: answer.headers.get("etag") ?? "" };
    }
    if (answer.status === 401) this.#onSignedOut();
    throw ApiError.of(answer);
  }

  /**
   * Sends a request until it is answered or has failed for good.
   * @param {string} method
   * @param {string} path
   * @param {RequestOptions} options
   * @returns {Promise<Answer>}
   */
  async #sendUntilAnswered(method, path, options) {
    const isRepeatable =
      options.isRepeatable ?? ((method !== "POST" && !options.ifMatch) || options.idempotencyKey !== undefined);
    const delays = isRepeatable ? [...RETRY_DELAYS_MS] : [];
    try {
      for (let isRepetition = false; ; isRepetition = true) {
        const answer = await this.#sendOnce(method, path, options);
        // A deletion whose first response was lost has been done.
        if (isRepetition && method === "DELETE" && answer?.status === 404) return { ...answer, status: 204, text: "" };
        const waitMs = answer === null ? 0 : retryAfterMs(answer);
        const delayMs = delays.shift();
        if (answer !== null && (waitMs === null || delayMs === undefined || waitMs > RETRY_AFTER_MS_MAX)) return answer;
        if (delayMs === undefined) throw ApiError.network(isRepeatable);
        await this.#connection.wait(Math.max(delayMs, waitMs ?? 0));
      }
    } finally {
      this.#connection.settle();
    }
  }

  /**
   * Sends a request once; returns `null` if the whole response did not arrive.
   * @param {string} method
   * @param {string} path
   * @param {RequestOptions} options
   * @returns {Promise<Answer | null>}
   */
  async #sendOnce(method, path, { body, idempotencyKey, ifMatch }) {
    const headers = new Headers({ accept: "application/json" });
    if (body !== undefined) headers.set("content-type", "application/json");
    if (idempotencyKey !== undefined) headers.set("idempotency-key", idempotencyKey);
    if (ifMatch !== undefined) headers.set("if-match", ifMatch);
    try {
      const text = body === undefined ? undefined : JSON.stringify(body);
      const response = await this.#transport({ method, path, headers, body: text });
      return { status: response.status, headers: response.headers, text: await response.text() };
    } catch (cause) {
      console.warn(`${method} ${path}:`, cause);
      return null;
    }
  }
}

/** Statuses of responses after which the same request may succeed. */
const TEMPORARY = new Set([429, 502, 503, 504]);

/**
 * Returns how long to wait before a request is repeated; `null` if its response is final.
 * @param {Answer} answer
 */
function retryAfterMs({ status, headers }) {
  if (!TEMPORARY.has(status)) return null;
  const wanted = headers.get("retry-after") ?? "0";
  const waitMs = /^\d+$/.test(wanted) ? Number(wanted) * 1_000 : Date.parse(wanted) - Date.now();
  return Math.max(waitMs || 0, 0);
}
