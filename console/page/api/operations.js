// The operations of the API that the console uses, named by their identifiers.

/**
 * @import { BulkUpdate, CustomRoleUpdate, EndedReason, MemberUpdate, NewCustomRole, NewMcpKey, NewMember, NewMemory,
 *   NewWebhook, NewWorkspaceAccess, Operations as Table, WebhookUpdate } from "../../../wasm/pkg/operations.js"
 * @import { Client } from "./client.js"
 */
/**
 * The body of the response of an operation. Only conditional requests, of which there are none, are
 * answered without the body that the operation otherwise has.
 * @template {keyof Table} Name
 * @typedef {Promise<Table[Name]["answer"] extends undefined ? void : Exclude<Table[Name]["answer"], undefined>>} Answer
 */
/**
 * The body of the response of an operation, with the tag of the resource.
 * @template {keyof Table} Name
 * @typedef {Promise<{ body: Table[Name]["answer"], etag: string }>} TaggedAnswer
 */
/**
 * Filters of a list and the position of a page.
 * @typedef {Record<string, string | number | undefined>} Query
 */

/**
 * Builds a path, in which each value is one segment.
 * @param {TemplateStringsArray} texts
 * @param {string[]} values
 */
const path = (texts, ...values) => String.raw({ raw: texts }, ...values.map(encodeURIComponent));

/**
 * Appends a query; absent and empty values are left out.
 * @param {string} path
 * @param {Query} query
 */
function withQuery(path, query) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") parameters.set(name, String(value));
  }
  return parameters.size > 0 ? `${path}?${parameters}` : path;
}

/** Operations that take a bearer token. */
export class Operations {
  #client;

  /** @param {Client} client */
  constructor(client) {
    this.#client = client;
  }

  /** @returns {Answer<"listWorkspaces">} */
  listWorkspaces(/** @type {Query} */ query) {
    return this.#client.send("GET", withQuery("/v1/workspaces", query));
  }

  /** @returns {Answer<"setWorkspaceAccess">} */
  setWorkspaceAccess(/** @type {string} */ workspace, /** @type {NewWorkspaceAccess} */ body) {
    return this.#client.send("PUT", path`/v1/workspaces/${workspace}/access`, { body });
  }

  /** @returns {Answer<"getDashboardSummary">} */
  getDashboardSummary(/** @type {string} */ workspace) {
    return this.#client.send("GET", path`/v1/workspaces/${workspace}/dashboard-summary`);
  }

  /** @returns {Answer<"getActivity">} */
  getActivity(/** @type {string} */ workspace, /** @type {Query} */ query) {
    return this.#client.send("GET", withQuery(path`/v1/workspaces/${workspace}/activity`, query));
  }

  /** @returns {Answer<"listAuditEntries">} */
  listAuditEntries(/** @type {Query} */ query) {
    return this.#client.send("GET", withQuery("/v1/audit-log", query));
  }

  /** @returns {Answer<"listMemories">} */
  listMemories(/** @type {string} */ workspace, /** @type {Query} */ query) {
    return this.#client.send("GET", withQuery(path`/v1/workspaces/${workspace}/memories`, query));
  }

  /** @returns {Answer<"listLabels">} */
  listLabels(/** @type {string} */ workspace) {
    return this.#client.send("GET", path`/v1/workspaces/${workspace}/labels`);
  }

  /** @returns {Answer<"getMemory">} */
  getMemory(/** @type {string} */ memory) {
    return this.#client.send("GET", path`/v1/memories/${memory}`);
  }

  /** @returns {Answer<"bulkUpdateMemories">} */
  bulkUpdateMemories(/** @type {BulkUpdate} */ body, /** @type {string} */ idempotencyKey) {
    return this.#client.send("PATCH", "/v1/memories/bulk", { body, idempotencyKey });
  }

  /**
   * Ingests memories with source keys, so that repeating it changes nothing.
   * @param {string} workspace
   * @param {{ source_id: string, memories: NewMemory[] }} body
   * @returns {Answer<"ingestMemories">}
   */
  ingestMemories(workspace, body) {
    return this.#client.send("POST", path`/v1/workspaces/${workspace}/ingest`, { body, isRepeatable: true });
  }

  /** @returns {Answer<"listSources">} */
  listSources(/** @type {Query} */ query) {
    return this.#client.send("GET", withQuery("/v1/sources", query));
  }

  /** @returns {Answer<"createSource">} */
  createSource(/** @type {{ name: string, kind: string }} */ body) {
    return this.#client.create("/v1/sources", body);
  }

  /** @returns {Answer<"listMcpKeys">} */
  listMcpKeys(/** @type {string} */ workspace, /** @type {Query} */ query) {
    return this.#client.send("GET", withQuery(path`/v1/workspaces/${workspace}/mcp-keys`, query));
  }

  /** @returns {Answer<"createMcpKey">} */
  createMcpKey(/** @type {string} */ workspace, /** @type {NewMcpKey} */ body) {
    return this.#client.send("POST", path`/v1/workspaces/${workspace}/mcp-keys`, { body });
  }

  /** @returns {Answer<"rotateMcpKey">} */
  rotateMcpKey(/** @type {string} */ workspace, /** @type {string} */ key) {
    return this.#client.send("POST", path`/v1/workspaces/${workspace}/mcp-keys/${key}/rotate`);
  }

  /** @returns {Answer<"revokeMcpKey">} */
  revokeMcpKey(/** @type {string} */ workspace, /** @type {string} */ key) {
    return this.#client.send("DELETE", path`/v1/workspaces/${workspace}/mcp-keys/${key}`);
  }

  /** @returns {Answer<"listWebhooks">} */
  listWebhooks(/** @type {string} */ workspace, /** @type {Query} */ query) {
    return this.#client.send("GET", withQuery(path`/v1/workspaces/${workspace}/webhooks`, query));
  }

  /** @returns {Answer<"createWebhook">} */
  createWebhook(/** @type {string} */ workspace, /** @type {NewWebhook} */ body) {
    return this.#client.send("POST", path`/v1/workspaces/${workspace}/webhooks`, { body });
  }

  /** @returns {Answer<"getWebhook">} */
  getWebhook(/** @type {string} */ workspace, /** @type {string} */ webhook) {
    return this.#client.send("GET", path`/v1/workspaces/${workspace}/webhooks/${webhook}`);
  }

  /** @returns {Answer<"updateWebhook">} */
  updateWebhook(/** @type {string} */ workspace, /** @type {string} */ webhook, /** @type {WebhookUpdate} */ body) {
    return this.#client.send("PATCH", path`/v1/workspaces/${workspace}/webhooks/${webhook}`, { body });
  }

  /** @returns {Answer<"deleteWebhook">} */
  deleteWebhook(/** @type {string} */ workspace, /** @type {string} */ webhook) {
    return this.#client.send("DELETE", path`/v1/workspaces/${workspace}/webhooks/${webhook}`);
  }

  /** @returns {Answer<"rotateWebhookSecret">} */
  rotateWebhookSecret(/** @type {string} */ workspace, /** @type {string} */ webhook) {
    return this.#client.send("POST", path`/v1/workspaces/${workspace}/webhooks/${webhook}/rotate-secret`);
  }

  /** @returns {Answer<"pingWebhook">} */
  pingWebhook(/** @type {string} */ workspace, /** @type {string} */ webhook) {
    return this.#client.create(path`/v1/workspaces/${workspace}/webhooks/${webhook}/ping`);
  }

  /** @returns {Answer<"listWebhookDeliveries">} */
  listWebhookDeliveries(/** @type {string} */ workspace, /** @type {string} */ webhook, /** @type {Query} */ query) {
    return this.#client.send("GET", withQuery(path`/v1/workspaces/${workspace}/webhooks/${webhook}/deliveries`, query));
  }

  /** @returns {Answer<"redeliverToWebhook">} */
  redeliverToWebhook(/** @type {string} */ workspace, /** @type {string} */ webhook, /** @type {string} */ delivery) {
    const deliveries = path`/v1/workspaces/${workspace}/webhooks/${webhook}/deliveries`;
    return this.#client.send("POST", `${deliveries}${path`/${delivery}/redeliver`}`);
  }

  /** @returns {Answer<"redeliverDeadToWebhook">} */
  redeliverDeadToWebhook(/** @type {string} */ workspace, /** @type {string} */ webhook) {
    return this.#client.send("POST", path`/v1/workspaces/${workspace}/webhooks/${webhook}/deliveries/redeliver-dead`);
  }

  /** @returns {Answer<"listInboundWebhooks">} */
  listInboundWebhooks(/** @type {string} */ workspace, /** @type {Query} */ query) {
    return this.#client.send("GET", withQuery(path`/v1/workspaces/${workspace}/inbound-webhooks`, query));
  }

  /** @returns {Answer<"createInboundWebhook">} */
  createInboundWebhook(/** @type {string} */ workspace, /** @type {{ name: string }} */ body) {
    return this.#client.send("POST", path`/v1/workspaces/${workspace}/inbound-webhooks`, { body });
  }

  /** @returns {Answer<"rotateInboundWebhookSecret">} */
  rotateInboundWebhookSecret(/** @type {string} */ workspace, /** @type {string} */ webhook) {
    return this.#client.send("POST", path`/v1/workspaces/${workspace}/inbound-webhooks/${webhook}/rotate-secret`);
  }

  /** @returns {Answer<"deleteInboundWebhook">} */
  deleteInboundWebhook(/** @type {string} */ workspace, /** @type {string} */ webhook) {
    return this.#client.send("DELETE", path`/v1/workspaces/${workspace}/inbound-webhooks/${webhook}`);
  }
}

/** Operations on one organisation, which take a session. */
export class OrganizationOperations {
  #client;
  #organization;

  /**
   * @param {Client} client
   * @param {string} organization Slug of the organisation.
   */
  constructor(client, organization) {
    this.#client = client;
    this.#organization = organization;
  }

  /** @returns {Answer<"listCustomRoles">} */
  listCustomRoles() {
    return this.#client.send("GET", path`/v1/orgs/${this.#organization}/custom-roles`);
  }

  /** @returns {Answer<"createCustomRole">} */
  createCustomRole(/** @type {NewCustomRole} */ body) {
    return this.#client.create(path`/v1/orgs/${this.#organization}/custom-roles`, body);
  }

  /** @returns {TaggedAnswer<"getCustomRole">} */
  getCustomRole(/** @type {string} */ role) {
    return this.#client.sendTagged("GET", path`/v1/orgs/${this.#organization}/custom-roles/${role}`);
  }

  /** @returns {Answer<"updateCustomRole">} */
  updateCustomRole(/** @type {string} */ role, /** @type {CustomRoleUpdate} */ body, /** @type {string} */ ifMatch) {
    return this.#client.send("PATCH", path`/v1/orgs/${this.#organization}/custom-roles/${role}`, { body, ifMatch });
  }

  /** @returns {Answer<"deleteCustomRole">} */
  deleteCustomRole(/** @type {string} */ role, /** @type {{ reassign_to?: string }} */ body) {
    return this.#client.send("DELETE", path`/v1/orgs/${this.#organization}/custom-roles/${role}`, { body });
  }

  /** @returns {Answer<"listMembers">} */
  listMembers(/** @type {Query} */ query) {
    return this.#client.send("GET", withQuery(path`/v1/orgs/${this.#organization}/members`, query));
  }

  /** @returns {Answer<"addMember">} */
  addMember(/** @type {NewMember} */ body) {
    return this.#client.create(path`/v1/orgs/${this.#organization}/members`, body);
  }

  /** @returns {TaggedAnswer<"getMember">} */
  getMember(/** @type {string} */ member) {
    return this.#client.sendTagged("GET", path`/v1/orgs/${this.#organization}/members/${member}`);
  }

  /** @returns {Answer<"updateMember">} */
  updateMember(/** @type {string} */ member, /** @type {MemberUpdate} */ body, /** @type {string} */ ifMatch) {
    return this.#client.send("PATCH", path`/v1/orgs/${this.#organization}/members/${member}`, { body, ifMatch });
  }

  /** @returns {Answer<"removeMember">} */
  removeMember(/** @type {string} */ member) {
    return this.#client.send("DELETE", path`/v1/orgs/${this.#organization}/members/${member}`);
  }

  /** @returns {Answer<"assignWorkspaceRole">} */
  assignWorkspaceRole(/** @type {string} */ member, /** @type {string} */ workspace, /** @type {string} */ role) {
    const workspaceRole = path`/v1/orgs/${this.#organization}/members/${member}/workspace-roles/${workspace}`;
    return this.#client.send("PUT", workspaceRole, { body: { role } });
  }

  /** @returns {Answer<"endWorkspaceRole">} */
  endWorkspaceRole(/** @type {string} */ member, /** @type {string} */ workspace) {
    const workspaceRole = path`/v1/orgs/${this.#organization}/members/${member}/workspace-roles/${workspace}`;
    return this.#client.send("DELETE", workspaceRole);
  }
}

/**
 * A session or a token of the caller.
 * @typedef {object} Credential
 * @property {string} id
 * @property {"session" | "token"} kind
 * @property {string} name
 * @property {string} created_at
 * @property {string | null} last_used_at
 * @property {string} expires_at
 * @property {boolean} current True for the session of this page.
 */

/**
 * Something that a session or a token created or last took over.
 * @typedef {object} Created
 * @property {string} id
 * @property {"mcp_key" | "token" | "webhook" | "inbound_webhook" | "citation_subscription"} kind
 * @property {string} name
 * @property {string} state
 * @property {EndedReason | null} ended_reason
 * @property {string | null} ended_at
 */

/** Operations of a server on what is signed in as the caller. */
export class AccountOperations {
  #client;

  /** @param {Client} client */
  constructor(client) {
    this.#client = client;
  }

  /** @returns {Promise<import("./list.js").Page<Credential>>} */
  listCredentials(/** @type {Query} */ query) {
    return this.#client.send("GET", withQuery("/auth/credentials", query));
  }

  /** @returns {Promise<import("./list.js").Page<Created>>} */
  listCreatedWith(/** @type {string} */ id, /** @type {Query} */ query) {
    return this.#client.send("GET", withQuery(path`/auth/credentials/${id}/created`, query));
  }

  /** @returns {Promise<void>} */
  endCredential(/** @type {string} */ id, /** @type {boolean} */ withCreated) {
    const query = { with_created: withCreated ? "true" : "" };
    return this.#client.send("DELETE", withQuery(path`/auth/credentials/${id}`, query));
  }
}
