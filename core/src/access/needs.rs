//! What each operation needs: the table that the service enforces and the reference documentation shows.

use super::{Action, ActionSet};

/// Where an action has to be held for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the organisation as a whole.
    Organization,
    /// In the workspace that the operation is about.
    Workspace,
    /// Anywhere: in the organisation as a whole or in any workspace.
    Anywhere,
    /// In the workspace of each memory; where it is missing, that memory is refused and the others go on.
    EachMemory,
}

/// An action that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The operation, by the name of its function.
    pub operation: &'static str,
    /// When it needs the action; empty for always.
    pub when: &'static str,
    /// The action.
    pub action: Action,
    /// Where it has to be held.
    pub place: Place,
}

/// Defines the needs as constants, and the list of them.
macro_rules! needs {
    ($($name:ident: $operation:literal $when:literal $place:ident $action:ident;)+) => {
        $(#[doc = concat!("A need of `", $operation, "`: `", stringify!($action), "`.")]
        pub const $name: Need = Need {
            operation: $operation,
            when: $when,
            action: Action::$action,
            place: Place::$place,
        };)+

        /// Every need of every operation.
        pub const NEEDS: &[Need] = &[$($name),+];
    };
}

needs! {
    RELABEL: "bulk_update" "it sets the audience, the sensitivity or the source" EachMemory MemoryUpdate;
    REVIEW: "bulk_update" "it sets the review status" EachMemory MemoryReview;
    DECLASSIFY: "bulk_update" "it lowers the sensitivity" EachMemory MemoryDeclassify;
    LIST_MEMORIES: "list_memories" "for memories whose audience covers the caller" Workspace MemoryRead;
    LIST_LABELS: "list_memories" "for the labels of every memory" Workspace MemoryUpdate;
    READ_MEMORY: "memory" "its audience covers the caller" Workspace MemoryRead;
    READ_LABELS: "memory" "for the labels of any memory" Workspace MemoryUpdate;
    CREATE_MEMORY: "create_memory" "" Workspace MemoryCreate;
    UPDATE_MEMORY: "update_memory" "it sets anything but the review status" Workspace MemoryUpdate;
    REVIEW_MEMORY: "update_memory" "it sets the review status" Workspace MemoryReview;
    DECLASSIFY_MEMORY: "update_memory" "it lowers the sensitivity" Workspace MemoryDeclassify;
    REWRITE_MEMORY: "update_memory" "it sets title or content: what the label needs for reading" Workspace MemoryRead;
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
    DELETE_OTHERS_SUBSCRIPTION: "delete_citation_subscription" "somebody else subscribed" Workspace WebhookManage;
    ROTATE_SUBSCRIPTION_SECRET: "rotate_citation_subscription_secret" "" Workspace CitationSubscriptionManage;
    ROTATE_OTHERS_SUBSCRIPTION_SECRET: "rotate_citation_subscription_secret" "somebody else subscribed" Workspace WebhookManage;
    CREATE_WEBHOOK: "create_webhook" "" Workspace WebhookManage;
    CREATE_INBOUND_WEBHOOK: "create_inbound_webhook" "" Workspace InboundWebhookManage;
    LIST_WEBHOOKS: "list_webhooks" "" Workspace WebhookManage;
    READ_WEBHOOK: "webhook" "" Workspace WebhookManage;
    UPDATE_WEBHOOK: "update_webhook" "" Workspace WebhookManage;
    DELETE_WEBHOOK: "delete_webhook" "" Workspace WebhookManage;
    ROTATE_WEBHOOK_SECRET: "rotate_webhook_secret" "" Workspace WebhookManage;
    LIST_WEBHOOK_DELIVERIES: "list_deliveries" "of a webhook" Workspace WebhookManage;
    LIST_SUBSCRIPTION_DELIVERIES: "list_deliveries" "of a citation subscription" Workspace CitationSubscriptionManage;
    LIST_OTHERS_SUBSCRIPTION_DELIVERIES: "list_deliveries" "of a citation subscription of somebody else" Workspace WebhookManage;
    READ_WEBHOOK_DELIVERY: "delivery" "of a webhook" Workspace WebhookManage;
    READ_SUBSCRIPTION_DELIVERY: "delivery" "of a citation subscription" Workspace CitationSubscriptionManage;
    READ_OTHERS_SUBSCRIPTION_DELIVERY: "delivery" "of a citation subscription of somebody else" Workspace WebhookManage;
    REDELIVER_TO_WEBHOOK: "redeliver" "of a webhook" Workspace WebhookManage;
    REDELIVER_TO_SUBSCRIPTION: "redeliver" "of a citation subscription" Workspace CitationSubscriptionManage;
    REDELIVER_TO_OTHERS_SUBSCRIPTION: "redeliver" "of a citation subscription of somebody else" Workspace WebhookManage;
    REDELIVER_DEAD_TO_WEBHOOK: "redeliver_dead" "of a webhook" Workspace WebhookManage;
    REDELIVER_DEAD_TO_SUBSCRIPTION: "redeliver_dead" "of a citation subscription" Workspace CitationSubscriptionManage;
    REDELIVER_DEAD_TO_OTHERS_SUBSCRIPTION: "redeliver_dead" "of a citation subscription of somebody else" Workspace WebhookManage;
    PING_WEBHOOK: "ping" "of a webhook" Workspace WebhookManage;
    PING_SUBSCRIPTION: "ping" "of a citation subscription" Workspace CitationSubscriptionManage;
    PING_OTHERS_SUBSCRIPTION: "ping" "of a citation subscription of somebody else" Workspace WebhookManage;
    LIST_INBOUND_WEBHOOKS: "list_inbound_webhooks" "" Workspace InboundWebhookManage;
    READ_INBOUND_WEBHOOK: "inbound_webhook" "" Workspace InboundWebhookManage;
    UPDATE_INBOUND_WEBHOOK: "update_inbound_webhook" "" Workspace InboundWebhookManage;
    DELETE_INBOUND_WEBHOOK: "delete_inbound_webhook" "" Workspace InboundWebhookManage;
    ROTATE_INBOUND_WEBHOOK_SECRET: "rotate_inbound_webhook_secret" "" Workspace InboundWebhookManage;
    CREATE_SOURCE: "create_source" "" Organization ConnectorManage;
    LIST_SOURCES: "list_sources" "" Anywhere MemoryRead;
    READ_SOURCE: "source" "" Anywhere MemoryRead;
    INGEST: "ingest" "" Workspace MemoryCreate;
    INGEST_UPDATE: "ingest" "a memory with a known source key changes" Workspace MemoryUpdate;
    TAKE_MESSAGE: "take_message" "of the member that the inbound webhook acts as" Workspace MemoryCreate;
    TAKE_MESSAGE_UPDATE: "take_message" "of that member, where a memory with a known source key changes" Workspace MemoryUpdate;
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

impl Need {
    /// The action as a set.
    #[must_use]
    pub const fn actions(self) -> ActionSet {
        ActionSet::of(&[self.action])
    }
}
