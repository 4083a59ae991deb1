//! Permissions that operations require: enforced by the service, and shown in the reference.

use super::{Action, ActionSet};

/// Scope in which an action has to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionScope {
    /// The organisation as a whole.
    Organization,
    /// The workspace of the operation.
    Workspace,
    /// The organisation as a whole, or any workspace.
    Anywhere,
    /// The workspace of each memory. A memory without the permission is rejected, the others are
    /// not.
    EachMemory,
}

/// A permission that an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredPermission {
    /// Name of the operation's function.
    pub operation: &'static str,
    /// Condition under which it is required; empty if always.
    pub when: &'static str,
    /// Action that has to be held.
    pub action: Action,
    /// Scope in which it has to be held.
    pub scope: PermissionScope,
}

/// Defines the required permissions as constants, and the list of them.
macro_rules! permissions {
    ($($name:ident: $operation:literal $when:literal $scope:ident $action:ident;)+) => {
        $(#[doc = concat!("Permission that `", $operation, "` requires: `", stringify!($action), "`.")]
        pub const $name: RequiredPermission = RequiredPermission {
            operation: $operation,
            when: $when,
            action: Action::$action,
            scope: PermissionScope::$scope,
        };)+

        /// Required permissions of all operations.
        pub const REQUIRED_PERMISSIONS: &[RequiredPermission] = &[$($name),+];
    };
}

permissions! {
    RELABEL: "bulk_update" "to set the audience, the sensitivity or the source" EachMemory MemoryUpdate;
    REVIEW: "bulk_update" "to set the review status" EachMemory MemoryReview;
    DECLASSIFY: "bulk_update" "to lower the sensitivity" EachMemory MemoryDeclassify;
    LIST_MEMORIES: "list_memories" "for memories whose audience covers the caller" Workspace MemoryRead;
    LIST_LABELS: "list_memories" "for the labels of every memory" Workspace MemoryUpdate;
    READ_MEMORY: "memory" "for a memory whose audience covers the caller" Workspace MemoryRead;
    READ_LABELS: "memory" "for the labels of any memory" Workspace MemoryUpdate;
    CREATE_MEMORY: "create_memory" "" Workspace MemoryCreate;
    UPDATE_MEMORY: "update_memory" "to set anything except the review status" Workspace MemoryUpdate;
    REVIEW_MEMORY: "update_memory" "to set the review status" Workspace MemoryReview;
    DECLASSIFY_MEMORY: "update_memory" "to lower the sensitivity" Workspace MemoryDeclassify;
    REWRITE_MEMORY: "update_memory" "to set the title or content, with what reading the memory requires" Workspace MemoryRead;
    DELETE_MEMORY: "delete_memory" "" Workspace MemoryDelete;
    DASHBOARD: "dashboard_summary" "" Workspace DashboardRead;
    LIST_ROLES: "list_custom_roles" "" Organization RoleRead;
    READ_ROLE: "custom_role" "" Organization RoleRead;
    CREATE_ROLE: "create_custom_role" "" Organization RoleManage;
    UPDATE_ROLE: "update_custom_role" "" Organization RoleManage;
    DELETE_ROLE: "delete_custom_role" "" Organization RoleManage;
    LIST_MEMBERS: "list_members" "" Organization RoleRead;
    READ_MEMBER: "member" "" Organization RoleRead;
    ADD_MEMBER: "add_member" "" Organization MemberManage;
    UPDATE_MEMBER: "update_member" "" Organization MemberManage;
    END_WORKSPACE_ROLE: "end_workspace_role" "" Organization MemberManage;
    ASSIGN_ROLE: "assign_role" "" Organization MemberManage;
    REMOVE_MEMBER: "remove_member" "" Organization MemberManage;
    SUBSCRIBE: "create_citation_subscription" "" Workspace CitationSubscriptionManage;
    LIST_SUBSCRIPTIONS: "list_citation_subscriptions" "" Workspace CitationSubscriptionManage;
    READ_SUBSCRIPTION: "citation_subscription" "" Workspace CitationSubscriptionManage;
    DELETE_SUBSCRIPTION: "delete_citation_subscription" "" Workspace CitationSubscriptionManage;
    DELETE_OTHERS_SUBSCRIPTION: "delete_citation_subscription" "for another member's subscription" Workspace WebhookManage;
    ROTATE_SUBSCRIPTION_SECRET: "rotate_citation_subscription_secret" "" Workspace CitationSubscriptionManage;
    ROTATE_OTHERS_SUBSCRIPTION_SECRET: "rotate_citation_subscription_secret" "for another member's subscription" Workspace WebhookManage;
    CREATE_WEBHOOK: "create_webhook" "" Workspace WebhookManage;
    CREATE_INBOUND_WEBHOOK: "create_inbound_webhook" "" Workspace InboundWebhookManage;
    LIST_WEBHOOKS: "list_webhooks" "" Workspace WebhookManage;
    READ_WEBHOOK: "webhook" "" Workspace WebhookManage;
    UPDATE_WEBHOOK: "update_webhook" "" Workspace WebhookManage;
    DELETE_WEBHOOK: "delete_webhook" "" Workspace WebhookManage;
    ROTATE_WEBHOOK_SECRET: "rotate_webhook_secret" "" Workspace WebhookManage;
    LIST_WEBHOOK_DELIVERIES: "list_deliveries" "for a webhook" Workspace WebhookManage;
    LIST_SUBSCRIPTION_DELIVERIES: "list_deliveries" "for a citation subscription" Workspace CitationSubscriptionManage;
    LIST_OTHERS_SUBSCRIPTION_DELIVERIES: "list_deliveries" "for another member's citation subscription" Workspace WebhookManage;
    READ_WEBHOOK_DELIVERY: "delivery" "for a webhook" Workspace WebhookManage;
    READ_SUBSCRIPTION_DELIVERY: "delivery" "for a citation subscription" Workspace CitationSubscriptionManage;
    READ_OTHERS_SUBSCRIPTION_DELIVERY: "delivery" "for another member's citation subscription" Workspace WebhookManage;
    REDELIVER_TO_WEBHOOK: "redeliver" "for a webhook" Workspace WebhookManage;
    REDELIVER_TO_SUBSCRIPTION: "redeliver" "for a citation subscription" Workspace CitationSubscriptionManage;
    REDELIVER_TO_OTHERS_SUBSCRIPTION: "redeliver" "for another member's citation subscription" Workspace WebhookManage;
    REDELIVER_DEAD_TO_WEBHOOK: "redeliver_dead" "for a webhook" Workspace WebhookManage;
    REDELIVER_DEAD_TO_SUBSCRIPTION: "redeliver_dead" "for a citation subscription" Workspace CitationSubscriptionManage;
    REDELIVER_DEAD_TO_OTHERS_SUBSCRIPTION: "redeliver_dead" "for another member's citation subscription" Workspace WebhookManage;
    PING_WEBHOOK: "ping" "for a webhook" Workspace WebhookManage;
    PING_SUBSCRIPTION: "ping" "for a citation subscription" Workspace CitationSubscriptionManage;
    PING_OTHERS_SUBSCRIPTION: "ping" "for another member's citation subscription" Workspace WebhookManage;
    LIST_INBOUND_WEBHOOKS: "list_inbound_webhooks" "" Workspace InboundWebhookManage;
    READ_INBOUND_WEBHOOK: "inbound_webhook" "" Workspace InboundWebhookManage;
    UPDATE_INBOUND_WEBHOOK: "update_inbound_webhook" "" Workspace InboundWebhookManage;
    DELETE_INBOUND_WEBHOOK: "delete_inbound_webhook" "" Workspace InboundWebhookManage;
    ROTATE_INBOUND_WEBHOOK_SECRET: "rotate_inbound_webhook_secret" "" Workspace InboundWebhookManage;
    CREATE_SOURCE: "create_source" "" Organization ConnectorManage;
    LIST_SOURCES: "list_sources" "" Anywhere MemoryRead;
    READ_SOURCE: "source" "" Anywhere MemoryRead;
    INGEST: "ingest" "" Workspace MemoryCreate;
    INGEST_UPDATE: "ingest" "to update a memory with a known source key" Workspace MemoryUpdate;
    INGEST_MESSAGE: "ingest_message" "held by the member that the inbound webhook acts as" Workspace MemoryCreate;
    INGEST_MESSAGE_UPDATE: "ingest_message" "held by that member, to update a memory with a known source key" Workspace MemoryUpdate;
    CREATE_CONNECTOR: "create_connector" "" Workspace ConnectorManage;
    LIST_CONNECTORS: "list_connectors" "" Workspace DashboardRead;
    READ_CONNECTOR: "connector" "" Workspace DashboardRead;
    UPDATE_CONNECTOR: "update_connector" "" Workspace ConnectorManage;
    DELETE_CONNECTOR: "delete_connector" "" Workspace ConnectorManage;
    REPORT_SYNC: "report_sync" "" Workspace ConnectorReport;
    PAUSE_CONNECTOR: "pause_connector" "" Workspace ConnectorManage;
    CREATE_MCP_KEY: "create_mcp_key" "" Workspace McpKeyManage;
    LIST_MCP_KEYS: "list_mcp_keys" "" Workspace DashboardRead;
    READ_MCP_KEY: "mcp_key" "" Workspace DashboardRead;
    ROTATE_MCP_KEY: "rotate_mcp_key" "" Workspace McpKeyManage;
    REVOKE_MCP_KEY: "revoke_mcp_key" "" Workspace McpKeyManage;
    LIST_CHATS: "list_chats" "" Workspace DashboardRead;
    READ_CHAT: "chat" "" Workspace DashboardRead;
    LIST_CHAT_MESSAGES: "list_chat_messages" "" Workspace DashboardRead;
    CREATE_CHAT: "create_chat" "" Workspace ChatWrite;
    POST_CHAT_MESSAGE: "post_chat_message" "" Workspace ChatWrite;
    CREATE_RECALL: "create_recall" "" Workspace RecallCreate;
    LIST_RECALLS: "list_recalls" "" Workspace MemoryRead;
    READ_RECALL: "recall" "" Workspace MemoryRead;
    LIST_AUDIT: "list_audit_entries" "" Organization AuditRead;
    READ_AUDIT: "audit_entry" "" Organization AuditRead;
}

impl RequiredPermission {
    /// Returns the action as a set.
    #[must_use]
    pub const fn actions(self) -> ActionSet {
        ActionSet::of(&[self.action])
    }
}
