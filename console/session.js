// Credentials of the member who uses this page. Each operation takes one kind of them: a bearer
// token, or a session under /v1/orgs.

const STORAGE_KEY = "knowledge-console";
const COOKIE = "service_session";
const COOKIE_PATH = "/v1/orgs";

/**
 * Credentials that a member enters.
 * @typedef {object} Credentials
 * @property {string} token Bearer token.
 * @property {string} session Session; empty if the member has none.
 * @property {string} organization Slug of the organisation that the session belongs to.
 */

/** A member who is signed in, until the page or the browser tab is closed. */
export class Session {
  /** @type {Credentials} */
  #credentials;

  /** @param {Credentials} credentials */
  constructor(credentials) {
    this.#credentials = credentials;
  }

  /** Returns the session of this tab, or `null` if nobody is signed in. */
  static restore() {
    const stored = sessionStorage.getItem(STORAGE_KEY);
    return stored === null ? null : new Session(JSON.parse(stored));
  }

  /**
   * Signs a member in.
   * @param {Credentials} credentials
   */
  static start(credentials) {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(credentials));
    setCookie(credentials.session);
    return new Session(credentials);
  }

  /** Slug of the organisation; empty without a session, which its operations require. */
  get organization() {
    return this.#credentials.session === "" ? "" : this.#credentials.organization;
  }

  /**
   * Returns a bearer token that is valid now.
   * @returns {Promise<string>}
   */
  async bearerToken() {
    return this.#credentials.token;
  }

  /** Signs the member out. */
  end() {
    sessionStorage.removeItem(STORAGE_KEY);
    setCookie("");
  }
}

/**
 * Sets the session cookie, which the browser sends and scripts cannot send themselves; an empty
 * value removes it. It has no age, so the browser forgets it when it closes.
 * @param {string} value
 */
function setCookie(value) {
  const age = value === "" ? "; Max-Age=0" : "";
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${COOKIE}=${value}; Path=${COOKIE_PATH}; SameSite=Strict${secure}${age}`;
}
