// What the page has learnt from the service: what the caller may do, on which the service decides,
// and names of sources, members and roles, which records refer to by their identifiers.

import { ApiError } from "./api/error.js";
import { readAll } from "./api/list.js";
import { actionsOf } from "./models/vocabulary.js";
import { shortId } from "./ui/format.js";

/**
 * @import { Action, CustomRole, Member, MemberDetails, MemorySummary, Source } from "../../wasm/pkg/operations.js"
 * @import { Identity } from "./api/client.js"
 * @import { Operations, OrganizationOperations } from "./api/operations.js"
 */

/** Number of sources and of members that are read; others are shown by their identifier. */
const NAMES_MAX = 1_000;

/** Actions that operations of the page require in the organisation; others are required in the workspace. */
const IN_ORGANIZATION = ["audit:read", "connector:manage", "member:manage", "role:manage", "role:read"];

/** What the caller may do, as far as the page knows; what it does not know is not excluded. */
export class Access {
  /** Actions that the service said are missing. @type {Set<string>} */
  #missing = new Set();
  #identity;
  #directory;
  #workspaceRoles;
  /** Actions in the workspace. @type {readonly Action[] | null} */
  #inWorkspace;
  /** True unless a private workspace would no longer exist for the caller. */
  #remains;

  /**
   * @param {Identity | null} identity `null` for an owner, where nobody signs in.
   * @param {string} workspace
   * @param {MemberDetails["workspace_roles"] | null} workspaceRoles Those of the caller.
   * @param {Directory} directory
   */
  constructor(identity, workspace, workspaceRoles, directory) {
    this.#identity = identity;
    this.#directory = directory;
    this.#workspaceRoles = workspaceRoles ?? [];
    const own = workspaceRoles?.find(({ workspace_id }) => workspace_id === workspace);
    const inOrganization = workspaceRoles && identity ? identity.actions : null;
    this.#inWorkspace = own ? actionsOf(own.role, directory.roles) : inOrganization;
    this.#remains = this.isOwner || own !== undefined || workspaceRoles === null;
  }

  get isOwner() {
    return (this.#identity?.role ?? "owner") === "owner";
  }

  /**
   * Returns false if the caller is known to lack an action.
   * @param {Action | undefined} action Nobody lacks none.
   */
  holds(action) {
    if (action === undefined) return true;
    const held = IN_ORGANIZATION.includes(action) ? this.#identity?.actions : this.#inWorkspace;
    return !this.#missing.has(action) && (held?.includes(action) ?? true);
  }

  /** True unless the caller is known not to be allowed to make the workspace private, or to open it. */
  get controls() {
    // Only the people of a private workspace see it, and only they make one private.
    const needed = "member:manage";
    return this.#remains && !this.#missing.has(needed) && (this.#inWorkspace?.includes(needed) ?? true);
  }

  /**
   * Returns false if a role is known to permit more than the caller may grant or take away.
   * @param {string} role
   */
  covers(role) {
    if (this.#identity === null || this.isOwner) return true;
    const { actions } = this.#identity;
    const permitted = actionsOf(role, this.#directory.roles, true) ?? [];
    return role !== "owner" && permitted.every((action) => actions.includes(action));
  }

  /**
   * Returns true if the caller holds a role, in the organisation or in a workspace.
   * @param {string} id
   */
  hasRole(id) {
    return this.#identity?.role === id || this.#workspaceRoles.some(({ role }) => role === id);
  }

  /**
   * Returns false if an audience label is known not to cover the caller.
   * @param {string} label
   */
  isCoveredBy(label) {
    const { handle, teams } = this.#identity?.member ?? {};
    const [kind, name = ""] = label.split(":");
    return kind === "team" ? (teams?.includes(name) ?? true) : kind !== "user" || name === (handle ?? name);
  }

  /**
   * Returns true if the caller may approve or reject a memory, as one who reviews: who can read it,
   * and is no program that added it.
   * @param {Pick<MemorySummary, "title" | "createdBy">} memory
   */
  decidesOn({ title, createdBy }) {
    const member = this.#identity?.member;
    const isOwn = member?.kind === "service_account" && member.id === createdBy;
    return title !== null && !isOwn;
  }

  /**
   * Notes that the caller lacks an action, if an error says so.
   * @param {unknown} error
   */
  note(error) {
    // Other refusals concern what was asked for.
    if (error instanceof ApiError && error.details.permission) this.#missing.add(error.details.permission);
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

  /**
   * Reads the roles of a member in workspaces; `null` if they cannot be read.
   * @param {string} member
   */
  async workspaceRolesOf(member) {
    try {
      return (await this.#organization.getMember(member)).body.data.workspace_roles;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return null;
    }
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

  /** Sources that take memories from members, by name: not those of inbound webhooks. */
  get openSources() {
    return this.sources.filter(({ kind }) => kind !== "inbound_webhook");
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
