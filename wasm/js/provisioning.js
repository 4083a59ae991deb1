// The operator API of a service: organisations, workspaces, members, tokens and sessions.

import { PROVISIONING } from "./operations.js";

function withQuery(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(pairs).toString();
  return text === "" ? path : `${path}?${text}`;
}

/** Client of the operator API; its methods are the rows of the generated table. */
export class Provisioning {
  #ask;
  #answer;

  constructor(ask, answer) {
    this.#ask = ask;
    this.#answer = answer;
  }

  /** Handles a request to the operator API, `/admin/v1/...`, without authentication. */
  fetch(request) {
    return this.#answer(request);
  }

  static {
    for (const [name, row] of Object.entries(PROVISIONING)) {
      const value = function (...args) {
        const path = row.path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(args.shift()));
        const query = Object.fromEntries((row.query ?? []).map((name) => [name, args.shift()]));
        const [last] = args;
        const target = withQuery(path, row.last === "query" ? last : query);
        return this.#ask(row.method, target, row.last === "body" ? last : undefined);
      };
      Object.defineProperty(Provisioning.prototype, name, { value, configurable: true, writable: true });
    }
  }
}
