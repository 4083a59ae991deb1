// Enumerations of the API in the order of the forms, and what roles permit.

/** @import { Action, BuiltInRole, CustomRole, EventType, McpClient, OutcomeKind, ResourceKind, ReviewStatus, SensitivityLabel } from "../../../wasm/pkg/operations.js" */

/** Sensitivity labels in ascending order. @type {readonly SensitivityLabel[]} */
export const SENSITIVITY_LABELS = ["public", "internal", "confidential", "restricted"];

/** @type {readonly ReviewStatus[]} */
export const REVIEW_STATUSES = ["pending", "approved", "rejected"];

/** Roles in ascending order of permissions. @type {readonly BuiltInRole[]} */
export const BUILT_IN_ROLES = ["viewer", "member", "admin", "owner"];

/** Types of events that an endpoint can be registered for. @type {readonly EventType[]} */
export const EVENT_TYPES = [
  "chunk.created",
  "chunk.deleted",
  "memory.updated",
  "citation.changed",
  "ingest.completed",
  "ingest.failed",
  "connector.status_changed",
  "webhook.ping",
];

/** @type {readonly McpClient[]} */
export const MCP_CLIENTS = [
  "claude_desktop",
  "claude_code",
  "chatgpt",
  "cursor",
  "vscode",
  "windsurf",
  "opencode",
  "other",
];

/** @type {readonly OutcomeKind[]} */
export const OUTCOMES = ["ok", "forbidden", "not_found"];

/** @type {readonly ResourceKind[]} */
export const RESOURCE_KINDS = [
  "memory",
  "source",
  "role",
  "member",
  "citation_subscription",
  "webhook",
  "inbound_webhook",
  "connector",
  "credential",
  "chat",
  "recall",
  "erasure",
  "organization",
  "workspace",
];

/** Actions that a role can allow or deny. @type {readonly Action[]} */
export const ACTIONS = [
  "memory:read",
  "memory:read_confidential",
  "memory:read_restricted",
  "memory:create",
  "memory:propose",
  "memory:update",
  "memory:share",
  "memory:declassify",
  "memory:review",
  "memory:delete",
  "dashboard:read",
  "connector:report",
  "connector:manage",
  "mcp_key:manage",
  "chat:write",
  "recall:create",
  "citation_subscription:manage",
  "webhook:manage",
  "inbound_webhook:manage",
  "role:read",
  "role:manage",
  "member:manage",
  "member:act_for",
  "token:manage",
  "audit:read",
  "erasure:manage",
];

/** @type {readonly Action[]} */
const VIEWER = ["memory:read", "dashboard:read", "recall:create", "role:read"];
/** @type {readonly Action[]} */
const MEMBER = [
  ...VIEWER,
  "memory:create",
  "memory:propose",
  "memory:update",
  "memory:review",
  "connector:report",
  "chat:write",
  "citation_subscription:manage",
];
/** @type {Record<string, readonly Action[]>} */
const BUILT_IN = {
  viewer: VIEWER,
  member: MEMBER,
  admin: ACTIONS.filter((action) => action !== "member:act_for"),
  owner: ACTIONS,
};

/**
 * Returns the actions that a role permits; `null` if the page does not know the role.
 * @param {string} id
 * @param {readonly CustomRole[]} customRoles
 * @param {boolean} [isActive] True for what a custom role permits once it is active.
 * @returns {readonly Action[] | null}
 */
export function actionsOf(id, customRoles, isActive) {
  const role = customRoles.find((role) => role.id === id);
  if (!role) return BUILT_IN[id] ?? null;
  const { allow, deny } = role.actions;
  const added = isActive || role.is_active ? allow : [];
  return [...(BUILT_IN[role.base_role] ?? []), ...added].filter((action) => !deny.includes(action));
}

/** Form of slugs, handles and teams. */
export const SLUG_PATTERN = "[a-z0-9_.\\-]{1,64}";
/** Form of audience labels. */
export const AUDIENCE_PATTERN = `(org|workspace|team|user):${SLUG_PATTERN}`;
