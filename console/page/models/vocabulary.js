// Enumerations of the API, in the order in which they are offered.

/** @import { Action, BuiltInRole, EventType, McpClient, OutcomeKind, ResourceKind, ReviewStatus, SensitivityLabel } from "../../../wasm/pkg/operations.js" */

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
  "token:manage",
  "audit:read",
  "erasure:manage",
];

/** Form of slugs, handles, teams and the names in audience labels. */
export const SLUG_PATTERN = "[a-z0-9_.\\-]{1,64}";
/** Form of audience labels. */
export const AUDIENCE_PATTERN = `(org|workspace|team|user):${SLUG_PATTERN}`;
