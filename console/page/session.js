// The member who uses this page. The session is a cookie that scripts cannot read; operations that
// take a bearer token get one that is made from it, lives for minutes, and is kept in memory.

import { ApiError } from "./api/error.js";

/** @import { Answer } from "./api/client.js" */

/**
 * Who is signed in, as the server says.
 * @typedef {object} Identity
 * @property {{ id: string, slug: string, name: string }} organization
 * @property {{ id: string, handle: string, name: string }} member
 */
/** @typedef {{ token: string, expires_at: string }} Token */

/** Secret of a sign-in link, in a link or alone. */
const SECRET = /wkl_[\w-]+/;
/** Remaining time in which a token is replaced. */
const RENEWAL_MS = 60_000;

/**
 * Returns the secret of the sign-in link that was followed, or `null`.
 * @param {string} [address] Address in its place: neither the history nor a bookmark keeps it.
 */
export function takeLink(address = location.pathname) {
  if (!location.hash.startsWith("#/login/")) return null;
  const secret = secretOf(location.hash);
  history.replaceState(null, "", address);
  return secret;
}

/**
 * Returns the secret in a text that a member has entered, or the text if there is none.
 * @param {string} text
 */
export const secretOf = (text) => SECRET.exec(text)?.[0] ?? text;

/** A member who is signed in. */
export class Session {
  /** @type {Token | null} */
  #token = null;
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
    if (this.#token === null || Date.parse(this.#token.expires_at) - Date.now() < RENEWAL_MS) {
      this.#renewal ??= send("POST", "token");
      try {
        const answer = await this.#renewal;
        if (answer.status >= 400) return new Response(answer.text, answer);
        this.#token = /** @type {Token} */ (JSON.parse(answer.text));
      } finally {
        this.#renewal = null;
      }
    }
    headers.set("authorization", `Bearer ${this.#token.token}`);
    return null;
  }

  /** Signs the member out. Throws an `ApiError` if the session may not have ended. */
  async end() {
    this.#token = null;
    const answer = await send("POST", "logout").catch(() => null);
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
  return JSON.parse(answer.text);
}
