//! The service: one module per capability, all over one store.

pub(crate) mod access;
pub(crate) mod audit;
mod caller;
mod connectors;
mod deliveries;
mod endpoints;
mod erasures;
pub(crate) mod etag;
pub(crate) mod generations;
mod inbound;
mod knowledge_service;
mod maintain;
mod members;
mod memories;
mod meta;
mod open_error;
pub(crate) mod operation;
mod options;
pub(crate) mod outbox;
pub(crate) mod page;
mod process;
mod provision;
pub(crate) mod quota;
mod rekey;
mod removal;
mod sealing_keys;
mod search;
pub(crate) mod secrets;
mod session_timeouts;
mod sign_in;
pub(crate) mod tasks;
pub(crate) mod tokens;
mod verify;
mod views;
mod workspace;
mod write_fence;

pub use self::access::principal::{Denial, Principal};
pub use self::audit::denied::Refusal;
pub use self::audit::entry::{AuditEntry, AuditOutcome, AuditResource, ClientInfo};
pub use self::audit::log::AuditFilter;
pub use self::caller::Caller;
pub use self::connectors::types::{Connector, ConnectorDetails, ConnectorUpdate, NewConnector};
pub use self::connectors::types::{SyncOutcome, SyncOutcomeKind, SyncReport};
#[doc(hidden)]
pub use self::deliveries::FanOutLimits;
pub use self::deliveries::{
    Attempt, AttemptOutcome, ClaimBatch, ClaimedDelivery, DELIVERY_LEASE, DELIVERY_TIMEOUT,
    DeliveryLease, DeliveryRequest, DeliveryResponse, DeliverySender, DispatchLimits,
    DispatchReport, Endpoint, FanOutReport, IN_FLIGHT_PER_ENDPOINT_MAX,
    IN_FLIGHT_PER_QUICK_ENDPOINT_MAX, InFlight, OutboxStatus, QUICK_RESPONSE_MAX,
    RESPONSE_BYTES_MAX, RedeliveryReport,
};
pub use self::erasures::ErasureResult;
pub use self::etag::{IfMatch, WithEtag};
pub use self::inbound::post::{InboundBatch, VerifiedMessage};
pub use self::knowledge_service::KnowledgeService;
pub use self::maintain::MaintenanceReport;
pub use self::members::assign::MemberAssignment;
pub use self::members::change::{
    AddedMember, LoginLink, MemberDetails, MemberUpdate, WorkspaceRole,
};
pub use self::members::invitation::login_url;
pub use self::members::roles::DeleteRole;
pub use self::memories::change::CreateMemory;
pub use self::memories::counts::MemoryCounts;
pub use self::memories::ingest::{
    IngestBatch, IngestOutcome, IngestResult, IngestedMemory, NewMemory,
};
pub use self::memories::recalls::{CitedKey, NewRecall, RecallUpdate};
pub use self::memories::sources::NewSource;
pub use self::open_error::OpenError;
pub use self::operation::idempotency::{IdempotencyKey, InvalidIdempotencyKey};
pub use self::options::Options;
pub use self::outbox::Event;
pub use self::page::{Cursor, InvalidCursor, Page, PageRequest};
pub use self::provision::{
    EndpointKind, EndpointSummary, Issued, NewMember, NewOrganization, NewOwner, NewToken,
    NewWorkspace, Provisioning,
};
pub use self::rekey::{Rekey, RekeyReport};
pub use self::sealing_keys::SealingKeys;
pub use self::secrets::sealing::{RotatedSecret, SealingKey};
pub use self::secrets::signing::{InvalidSigningSecret, SignedMessage, SigningSecret};
pub use self::session_timeouts::SessionTimeouts;
pub use self::sign_in::{ACCESS_TOKEN_LIFETIME_MAX, OwnCredential, SignedIn};
pub use self::tokens::types::{ApiToken, IssuedApiToken, NewApiToken, NewTokenScope};
pub use self::verify::{DIFFERENCES_KEPT_MAX, Difference, DifferenceCode, Verification, Verify};
pub use self::views::{
    AuditLog, Chats, CitationSubscriptions, Connectors, Deliveries, Dispatcher, Erasures,
    InboundWebhooks, McpKeys, Members, Memories, Recalls, Roles, Sessions, Sources, Tokens,
    Webhooks, Workspaces,
};
pub use self::workspace::access::NewWorkspaceAccess;
pub use self::workspace::activity::ActivityDays;
pub use self::workspace::chats::{Chat, ChatMessage, NewChat, SNIPPET_CHARS_MAX};
pub(crate) use self::workspace::dashboard_cache::Dashboard;
pub use self::workspace::mcp_key_types::{IssuedMcpKey, NewMcpKey};
pub use self::workspace::retention::{MemoryDays, NewRetention, Retention};
pub use crate::format::SCHEMA;
pub use crate::model::{AuditAction, ResourceKind};
