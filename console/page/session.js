// The member who uses this page. The session is a cookie that scripts cannot read; operations that
// take a bearer token get one that is made from it, lives for minutes, and is kept in memory.

import { ApiError } from "./api/error.js";

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

/** Returns the secret of the sign-in link that this page was opened with, or `null`. */
export function takeLink() {
  if (!location.hash.startsWith("#/login/")) return null;
  const secret = secretOf(location.hash);
  // Neither the history nor a bookmark keeps it.
  history.replaceState(null, "", location.pathname);
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
  /** The request for a token that is under way. @type {Promise<Response> | null} */
  #renewal = null;

  /** @param {Identity} identity */
  constructor(identity) {
    this.identity = identity;
  }

  /** Returns the session of this browser, or `null` if nobody is signed in. */
  static async restore() {
    const response = await send("GET", "session");
    if (response.status === 401) return null;
    return new Session(await read(response));
  }

  /**
   * Signs a member in.
   * @param {string} link Secret of a sign-in link.
   */
  static async start(link) {
    return new Session(await read(await send("POST", "login", { link })));
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
        const response = await this.#renewal;
        if (!response.ok) return response.clone();
        this.#token = /** @type {Token} */ (await response.clone().json());
      } finally {
        this.#renewal = null;
      }
    }
    headers.set("authorization", `Bearer ${this.#token.token}`);
    return null;
  }

  /** Signs the member out, in this page also if the server cannot be reached. */
  async end() {
    this.#token = null;
    await send("POST", "logout").catch((cause) => console.warn("sign out:", cause));
  }
}

/**
 * @param {string} method
 * @param {string} name
 * @param {object} [body]
 */
const send = (method, name, body) =>
  fetch(`/auth/${name}`, {
    method,
    headers: body ? { "content-type": "application/json" } : {},
    body: body ? JSON.stringify(body) : undefined,
    credentials: "same-origin",
    redirect: "error",
  });

/**
 * @param {Response} response
 * @returns {Promise<any>}
 */
async function read(response) {
  const { status, headers } = response;
  const text = await response.text();
  if (!response.ok) throw ApiError.of({ status, headers, text });
  return JSON.parse(text);
}
