//! Domain records and wire types.

pub mod access;
mod access_filter;
mod activity;
mod address;
mod audit;
mod bulk_json;
mod confirmation;
mod created;
mod dashboard;
mod deliveries;
mod delivery;
mod erasure;
mod event;
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
mod host_url;
mod ids;
mod labels;
mod memory;
mod memory_access;
mod memory_record;
pub(crate) mod names;
mod organization;
mod quota;
mod recall_search;
mod role;
mod url;
mod workspace_labels;

pub use self::access_filter::{AccessFilter, AccessFilterFormat, AccessFilterOptions};
pub use self::activity::{Activity, ActivityDay, ActivityKind};
pub(crate) use self::address::canonical_host;
pub use self::address::{
    AddressPolicy, GLOBAL_UNICAST, IpNet, RejectedAddress, RejectedUrl, SPECIAL_RANGES,
    SpecialRange,
};
pub use self::audit::{AuditAction, AuditReads, OutcomeKind, ResourceKind};
pub use self::confirmation::{Confirmation, ConfirmationReason, ConfirmationState};
pub use self::created::{CreatedKind, CreatedResource, EndedReason, ResourceState, ResourceStatus};
pub use self::dashboard::{
    ChatSummary, Checklist, ChecklistStep, ChecklistTier, ConnectorHealth, ConnectorScope,
    ConnectorStatus, DashboardSummary, McpClient, McpKeySummary, WorkspaceSummary,
};
pub use self::deliveries::{
    Delivery, DeliveryAttempt, DeliveryFailure, DeliveryFailureCode, DeliveryStatus, DisabledReason,
};
pub use self::delivery::{
    CitationFilter, CitationSubscription, InboundWebhook, InboundWebhookUpdate,
    NewCitationSubscription, NewInboundWebhook, NewWebhook, Recall, RecallSummary, Webhook,
    WebhookUpdate,
};
pub use self::erasure::{
    Erasure, ErasureCounts, ErasurePreview, ErasureRemainder, ErasureScope, ErasureStatus,
    NewErasure,
};
pub(crate) use self::event::EventContent;
pub use self::event::{
    ChangedCitations, ChangedMemories, CitationChange, ConnectorStatusChange, EventData, EventType,
    IngestFailure, IngestSummary, WebhookPing,
};
pub(crate) use self::ids::time_of;
pub use self::ids::{
    AuditLogId, ChatId, ChatMessageId, ConnectorId, CredentialId, DeliveryId, EndpointId,
    ErasureId, EventId, InboundWebhookId, MemberId, MemoryId, OperationId, OrgId, RecallId, RoleId,
    SourceId, SubscriptionId, WebhookId, WorkspaceId,
};
pub use self::labels::{
    AUDIENCE_NAME_CHARS_MAX, AudienceLabel, AudienceScope, InvalidAudienceLabel, ReviewStatus,
    SensitivityLabel, is_blank_name, is_control_character, is_label_name,
};
pub use self::memory::{
    BulkImpact, BulkItem, BulkItemError, BulkItemErrorCode, BulkResult, BulkSummary, BulkUpdate,
    Memory, MemoryChange, MemoryDetails, MemoryFilter, MemorySummary, MemoryUpdate,
};
pub use self::memory_access::{
    AccessCheck, AccessCheckResult, AccessLabels, MemoryAccess, MemoryKey,
};
pub use self::memory_record::{MemoryContent, MemoryLabels, Provenance};
pub use self::names::{InvalidId, UnknownName};
pub use self::organization::{
    Member, MemberKind, Organization, Source, Workspace, WorkspaceAccess,
};
pub use self::quota::Quota;
pub use self::recall_search::{Candidate, RecallResults, RecallSearch, RecalledMemory};
pub use self::role::{CustomRole, CustomRoleUpdate, NewCustomRole, RoleActions, RoleActionsUpdate};
pub use self::url::{BaseUrl, InvalidUrl, URL_CHARS_MAX, WebhookUrl, is_origin};
pub use self::workspace_labels::{WorkspaceLabel, WorkspaceLabels};
pub use knowledge_store::{InvalidTimestamp, Timestamp};
