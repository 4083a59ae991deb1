// What the page has learnt from the service: permissions of the caller, on which the service
// decides, and names of sources, members and roles, which records refer to by their identifiers.

import { ApiError } from "./api/error.js";
import { readAll } from "./api/list.js";
import { shortId } from "./ui/format.js";

/**
 * @import { CustomRole, Member, Source } from "../../wasm/pkg/operations.js"
 * @import { Operations, OrganizationOperations } from "./api/operations.js"
 */

/** Number of sources and of members that are read; others are shown by their identifier. */
const NAMES_MAX = 1_000;

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
    await Promise.all([
      this.#note("audit", () => operations.listAuditEntries(one)),
      this.#note("webhooks", () => operations.listWebhooks(workspace, one)),
      this.#note("members", () => organization.listMembers(one)),
      this.#note("roles", () => organization.listCustomRoles()),
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
    if (error instanceof ApiError && error.details.permission) this.#refusals.set(name, error.message);
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
    await Promise.all([
      this.loadSources(),
      readNames(this.#members, (page) => this.#organization.listMembers(page)),
      readNames(new Map(), () => this.readRoles()),
    ]);
  }

  async loadSources() {
    await readNames(this.#sources, (page) => this.#operations.listSources(page));
  }

  /** Reads the custom roles, all of which are on one page. */
  async readRoles() {
    const { data } = await this.#organization.listCustomRoles();
    this.#roles = new Map(data.map((role) => [role.id, role]));
    return { data, next_cursor: null };
  }

  /** Sources by name. */
  get sources() {
    return byName(this.#sources);
  }

  /** Custom roles by name. */
  get roles() {
    return [...this.#roles.values()];
  }

  /** Members by name. */
  get members() {
    return byName(this.#members);
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
 * @template {{ name: string }} T
 * @param {Map<string, T>} names
 */
const byName = (names) => [...names.values()].toSorted((left, right) => left.name.localeCompare(right.name));

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
