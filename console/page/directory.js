// Names of sources, members and roles, which other records refer to by their identifiers.

import { ApiError } from "./api/error.js";
import { readAll } from "./api/list.js";
import { shortId } from "./ui/format.js";

/**
 * @import { CustomRole, Member, Source } from "../../wasm/pkg/operations.js"
 * @import { Operations, OrganizationOperations } from "./api/operations.js"
 */

/** Number of sources and of members that are read; others are shown by their identifier. */
const NAMES_MAX = 1_000;

/** Names that the caller may know; the others are shown by the end of their identifier. */
export class Directory {
  /** @type {Map<string, Source>} */
  #sources = new Map();
  /** @type {Map<string, Member>} */
  #members = new Map();
  /** @type {Map<string, CustomRole>} */
  #roles = new Map();
  #operations;
  #organization;

  /**
   * @param {Operations} operations
   * @param {OrganizationOperations} organization
   */
  constructor(operations, organization) {
    this.#operations = operations;
    this.#organization = organization;
  }

  /** Reads all names. Those that the caller may not read stay unknown. */
  async load() {
    await Promise.all([this.loadSources(), this.#loadMembers(), this.loadRoles()]);
  }

  async loadSources() {
    await readNames(this.#sources, (page) => this.#operations.listSources(page));
  }

  async #loadMembers() {
    await readNames(this.#members, (page) => this.#organization.listMembers(page));
  }

  async loadRoles() {
    const read = () => this.#organization.listCustomRoles();
    await readNames(this.#roles, async () => ({ ...(await read()), next_cursor: null }));
  }

  /** Sources by name. */
  get sources() {
    return [...this.#sources.values()].toSorted((left, right) => left.name.localeCompare(right.name));
  }

  /** Custom roles by name. */
  get roles() {
    return [...this.#roles.values()];
  }

  /** Members by name. */
  get members() {
    return [...this.#members.values()].toSorted((left, right) => left.name.localeCompare(right.name));
  }

  /** @param {string} id */
  sourceName(id) {
    return this.#sources.get(id)?.name ?? `source ${shortId(id)}`;
  }

  /** @param {string} id */
  memberName(id) {
    return this.#members.get(id)?.name ?? `member ${shortId(id)}`;
  }

  /**
   * Returns the name of a role: a built-in one is its own name.
   * @param {string} role
   */
  roleName(role) {
    const isId = role.includes("-");
    return this.#roles.get(role)?.name ?? (isId ? `role ${shortId(role)}` : role);
  }
}

/**
 * Reads a list into a map by identifier.
 * @template {{ id: string }} T
 * @param {Map<string, T>} names
 * @param {import("./api/list.js").ReadPage<T>} readPage
 */
async function readNames(names, readPage) {
  try {
    await readAll(readPage, (items) => {
      for (const item of items) names.set(item.id, item);
      return names.size < NAMES_MAX;
    });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}
