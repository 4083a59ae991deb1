//! Calls of the service as data, with their results.

use std::fmt;

use uuid::Uuid;

use knowledge_core::access::{Credential, RoleRef, Secret};
use knowledge_core::model::{
    AuditLogId, BulkResult, BulkUpdate, ChatId, CitationSubscription, ConnectorId, CredentialId,
    CustomRole, CustomRoleUpdate, DashboardSummary, InboundWebhook, McpKeySummary, MemberId,
    MemoryId, NewCitationSubscription, NewCustomRole, NewInboundWebhook, NewWebhook, OrgId, Recall,
    RoleId, Source, SourceId, Webhook, WorkspaceId,
};
use knowledge_core::service::{
    AuditEntry, Chat, ChatMessage, Connector, IdempotencyKey, IfMatch, IngestedMemory,
    MemberAssignment, NewConnector, NewMcpKey, NewMemory, NewRecall, NewSource, SyncReport,
};
use knowledge_core::{Error, ProblemCode};

/// Credential with the name that reports show.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    /// Name for people: `acme/olga/session`.
    pub name: String,
    /// Credential of the request.
    pub credential: Credential,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Call of the service with its arguments.
#[derive(Clone, Debug)]
pub enum Call {
    /// [`bulk_update`](knowledge_core::service::KnowledgeService::bulk_update)
    BulkUpdate(Caller, IdempotencyKey, BulkUpdate),
    /// [`ingest`](knowledge_core::service::KnowledgeService::ingest)
    Ingest(Caller, WorkspaceId, SourceId, Vec<NewMemory>),
    /// [`create_source`](knowledge_core::service::KnowledgeService::create_source)
    CreateSource(Caller, NewSource),
    /// [`list_custom_roles`](knowledge_core::service::KnowledgeService::list_custom_roles)
    ListRoles(Caller, String),
    /// [`custom_role`](knowledge_core::service::KnowledgeService::custom_role)
    ReadRole(Caller, String, RoleId),
    /// [`create_custom_role`](knowledge_core::service::KnowledgeService::create_custom_role)
    CreateRole(Caller, String, NewCustomRole),
    /// [`update_custom_role`](knowledge_core::service::KnowledgeService::update_custom_role)
    UpdateRole(Caller, String, RoleId, CustomRoleUpdate, Option<IfMatch>),
    /// [`delete_custom_role`](knowledge_core::service::KnowledgeService::delete_custom_role)
    DeleteRole(Caller, String, RoleId, Option<RoleRef>),
    /// [`assign_role`](knowledge_core::service::KnowledgeService::assign_role)
    AssignRole(Caller, String, MemberId, MemberAssignment),
    /// [`revoke`](knowledge_core::service::Provisioning::revoke)
    Revoke(OrgId, CredentialId),
    /// [`create_webhook`](knowledge_core::service::KnowledgeService::create_webhook)
    CreateWebhook(Caller, WorkspaceId, NewWebhook),
    /// [`create_inbound_webhook`](knowledge_core::service::KnowledgeService::create_inbound_webhook)
    CreateInboundWebhook(Caller, WorkspaceId, NewInboundWebhook),
    /// [`create_recall`](knowledge_core::service::KnowledgeService::create_recall)
    CreateRecall(Caller, WorkspaceId, NewRecall),
    /// [`create_citation_subscription`](knowledge_core::service::KnowledgeService::create_citation_subscription)
    Subscribe(Caller, NewCitationSubscription),
    /// [`create_connector`](knowledge_core::service::KnowledgeService::create_connector)
    CreateConnector(Caller, WorkspaceId, NewConnector),
    /// [`report_sync`](knowledge_core::service::KnowledgeService::report_sync)
    ReportSync(Caller, WorkspaceId, ConnectorId, SyncReport),
    /// [`pause_connector`](knowledge_core::service::KnowledgeService::pause_connector)
    PauseConnector(Caller, WorkspaceId, ConnectorId, bool),
    /// [`create_chat`](knowledge_core::service::KnowledgeService::create_chat)
    CreateChat(Caller, WorkspaceId, String),
    /// [`post_chat_message`](knowledge_core::service::KnowledgeService::post_chat_message)
    PostMessage(Caller, WorkspaceId, ChatId, String),
    /// [`create_mcp_key`](knowledge_core::service::KnowledgeService::create_mcp_key)
    CreateMcpKey(Caller, WorkspaceId, NewMcpKey),
    /// [`note_mcp_key_use`](knowledge_core::service::KnowledgeService::note_mcp_key_use)
    NoteMcpKeyUse(Caller, WorkspaceId),
    /// [`dashboard_summary`](knowledge_core::service::KnowledgeService::dashboard_summary)
    Dashboard(Caller, WorkspaceId),
    /// [`audit_entry`](knowledge_core::service::KnowledgeService::audit_entry)
    ReadAudit(Caller, AuditLogId),
    /// [`maintain`](knowledge_core::service::KnowledgeService::maintain), once
    Maintain,
}

/// Successful response to a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Success without content.
    Done,
    /// Creation of this identifier; the rest of the response was lost.
    Made(Uuid),
    /// Result of a bulk update, without the messages of failed items.
    Bulk(BulkResult),
    /// Result of an ingest.
    Ingested(Vec<IngestedMemory>),
    /// New source.
    Source(Source),
    /// New role.
    Role(CustomRole),
    /// Role with its entity tag.
    TaggedRole(CustomRole, String),
    /// Roles of an organisation.
    Roles(Vec<CustomRole>),
    /// New webhook.
    Webhook(Webhook),
    /// New inbound webhook.
    InboundWebhook(InboundWebhook),
    /// New recall.
    Recall(Recall),
    /// New subscription.
    Subscription(CitationSubscription),
    /// Connector.
    Connector(Connector),
    /// New chat.
    Chat(Chat),
    /// New message.
    Message(ChatMessage),
    /// New MCP key, with the key itself.
    McpKey(McpKeySummary, Option<Secret>),
    /// Dashboard with its entity tag, without the texts of the checklist.
    Dashboard(Box<DashboardSummary>, String),
    /// Actor, memory and success of an entry of the audit log.
    Audit(Option<MemberId>, MemoryId, bool),
}

/// Error response to a [`Call`]: its kind and the parts that programs evaluate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// [`Error::InvalidRequest`], with path and code of each problem.
    Invalid(Vec<(String, ProblemCode)>),
    /// [`Error::Unauthenticated`]
    Unauthenticated,
    /// [`Error::Forbidden`]
    Forbidden,
    /// [`Error::NotFound`]
    NotFound,
    /// [`Error::RoleInUse`], with the number of holders.
    RoleInUse(u64),
    /// [`Error::SlugTaken`]
    SlugTaken,
    /// [`Error::PreconditionFailed`]
    PreconditionFailed,
    /// [`Error::IdempotencyKeyReused`]
    IdempotencyKeyReused,
    /// [`Error::Conflict`], which the model never expects: only contention explains it.
    Conflict,
    /// [`Error::Unavailable`], which the model never expects: only a failing store explains it.
    Unavailable,
    /// Any other error, with its text: always a defect.
    Defect(String),
}

impl Refusal {
    /// Creates a refusal with one problem of the request.
    pub(super) fn invalid(path: &str, code: ProblemCode) -> Self {
        Self::Invalid(vec![(path.to_owned(), code)])
    }

    /// Returns true if the store explains the error, not the domain.
    #[must_use]
    pub fn is_of_the_store(&self) -> bool {
        matches!(self, Self::Conflict | Self::Unavailable)
    }
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidRequest { fields } => {
                let mut fields: Vec<_> = fields
                    .iter()
                    .map(|field| (field.path.clone(), field.code))
                    .collect();
                fields.sort();
                Self::Invalid(fields)
            }
            Error::Unauthenticated { .. } => Self::Unauthenticated,
            Error::Forbidden { .. } => Self::Forbidden,
            Error::NotFound { .. } => Self::NotFound,
            Error::RoleInUse { holder_count } => Self::RoleInUse(*holder_count),
            Error::SlugTaken { .. } => Self::SlugTaken,
            Error::PreconditionFailed => Self::PreconditionFailed,
            Error::IdempotencyKeyReused => Self::IdempotencyKeyReused,
            Error::Conflict => Self::Conflict,
            Error::Unavailable { .. } => Self::Unavailable,
            Error::Internal { detail } => Self::Defect(detail.clone()),
            other => Self::Defect(other.to_string()),
        }
    }
}

/// Result of a call.
pub type Outcome = Result<Answer, Refusal>;

/// Expected result: one response, or any of several errors if more than one applies.
pub type Expected = Result<Answer, Vec<Refusal>>;

/// Returns true if the result is an expected one.
#[must_use]
pub fn agrees(expected: &Expected, outcome: &Outcome) -> bool {
    match (expected, outcome) {
        (Ok(expected), Ok(answer)) => expected == answer,
        (Err(allowed), Err(refusal)) => allowed.contains(refusal),
        _ => false,
    }
}

impl Answer {
    /// Returns the identifier that the service created, if any.
    pub(super) fn made(&self) -> Option<Uuid> {
        match self {
            Self::Made(id) => Some(*id),
            Self::Source(source) => Some(source.id.0),
            Self::Role(role) => Some(role.id.0),
            Self::Webhook(webhook) => Some(webhook.id.0),
            Self::InboundWebhook(webhook) => Some(webhook.id.0),
            Self::Recall(recall) => Some(recall.id.0),
            Self::Subscription(subscription) => Some(subscription.id.0),
            Self::Connector(connector) => Some(connector.id.0),
            Self::Chat(chat) => Some(chat.id.0),
            Self::Message(message) => Some(message.id.0),
            Self::McpKey(key, _) => Some(key.id.0),
            _ => None,
        }
    }

    /// Converts the result of a bulk update, dropping the texts for people.
    #[must_use]
    pub fn of_bulk(mut result: BulkResult) -> Self {
        for error in result
            .results
            .iter_mut()
            .filter_map(|item| item.error.as_mut())
        {
            error.message.clear();
        }
        Self::Bulk(result)
    }

    /// Converts a dashboard, dropping the texts for people.
    #[must_use]
    pub fn of_dashboard(mut summary: DashboardSummary, etag: String) -> Self {
        let checklist = &mut summary.first_value_checklist;
        for step in checklist
            .required
            .iter_mut()
            .chain(&mut checklist.suggested)
        {
            step.label.clear();
            step.cta_label.clear();
        }
        Self::Dashboard(Box::new(summary), etag)
    }

    /// Converts an entry of the audit log, dropping the fields that the model does not keep.
    #[must_use]
    pub fn of_audit(entry: &AuditEntry) -> Self {
        let is_ok = entry.outcome == knowledge_core::service::AuditOutcome::Ok;
        Self::Audit(entry.actor_id, MemoryId(entry.resource.id), is_ok)
    }
}
