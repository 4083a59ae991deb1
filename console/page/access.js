// Permissions of the caller, as far as the page has learnt them from the service, which decides.

import { ApiError } from "./api/error.js";

/** @typedef {import("./api/operations.js").Operations} Operations */
/** @typedef {import("./api/operations.js").OrganizationOperations} OrganizationOperations */

/** Beginning of the message of a refusal for lack of a permission. */
const MISSING = "missing permission";

/** Permissions of the caller in one workspace. */
export class Access {
  /** Messages of refusals, by operation or screen. @type {Map<string, string>} */
  #refusals = new Map();

  /**
   * Asks which screens the caller may see, by reading one item of each.
   * @param {Operations} operations
   * @param {OrganizationOperations} organization
   * @param {string} workspace
   */
  async probe(operations, organization, workspace) {
    const one = { limit: 1 };
    const members = () => organization.listMembers(one);
    await Promise.all([
      this.#note("audit", () => operations.listAuditEntries(one)),
      this.#note("webhooks", () => operations.listWebhooks(workspace, one)),
      this.#note("members", members),
      this.#note("roles", members),
    ]);
  }

  /**
   * Returns why an operation or a screen was refused; `null` unless it was.
   * @param {string} name
   */
  refusal(name) {
    return this.#refusals.get(name) ?? null;
  }

  /**
   * Notes that the caller lacks a permission, if an error says so.
   * @param {string} name
   * @param {unknown} error
   */
  note(name, error) {
    // Other refusals concern what was asked for, not the operation.
    if (error instanceof ApiError && error.message.startsWith(MISSING)) this.#refusals.set(name, error.message);
  }

  /**
   * @param {string} name
   * @param {() => Promise<unknown>} read
   */
  async #note(name, read) {
    try {
      await read();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.note(name, error);
    }
  }
}
