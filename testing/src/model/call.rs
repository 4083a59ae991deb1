//! Calls of the service as data, with their answers and refusals.

use std::fmt;

use uuid::Uuid;

use knowledge_core::access::{Credential, RoleRef, Secret};
use knowledge_core::{Error, ProblemCode};
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

/// A credential under the name that a failing sequence shows it by.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    /// For people: `acme/olga/session`.
    pub name: String,
    /// What is presented.
    pub credential: Credential,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// One call of the service, with everything that it is given.
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

/// What the service answers to a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing to tell: it is done.
    Done,
    /// Something was made, with this identifier; the rest of the answer was lost.
    Made(Uuid),
    /// Of a bulk update. The messages of failed items are for people and left out.
    Bulk(BulkResult),
    /// Of an ingest.
    Ingested(Vec<IngestedMemory>),
    /// A new source.
    Source(Source),
    /// A new role.
    Role(CustomRole),
    /// A role with its entity tag.
    TaggedRole(CustomRole, String),
    /// The roles of an organisation.
    Roles(Vec<CustomRole>),
    /// A new webhook.
    Webhook(Webhook),
    /// A new inbound webhook.
    InboundWebhook(InboundWebhook),
    /// A new recall.
    Recall(Recall),
    /// A new subscription.
    Subscription(CitationSubscription),
    /// A connector.
    Connector(Connector),
    /// A new chat.
    Chat(Chat),
    /// A new message.
    Message(ChatMessage),
    /// A new MCP key, with the key itself.
    McpKey(McpKeySummary, Option<Secret>),
    /// A dashboard with its entity tag. The texts of the checklist are for people and left out.
    Dashboard(Box<DashboardSummary>, String),
    /// An entry of the audit log: who did what to which memory. The rest is left out.
    Audit(Option<MemberId>, MemoryId, bool),
}

/// Why the service refuses a [`Call`]: the kind of the error and what a program would look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// [`Error::InvalidRequest`], with where and what.
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
    /// [`Error::Conflict`]: the model never expects it; contention alone explains it.
    Conflict,
    /// [`Error::Unavailable`]: the model never expects it; a failing store alone explains it.
    Unavailable,
    /// Anything else, with its text: always a defect.
    Defect(String),
}

impl Refusal {
    /// One thing wrong with a request.
    pub(super) fn invalid(path: &str, code: ProblemCode) -> Self {
        Self::Invalid(vec![(path.to_owned(), code)])
    }

    /// Whether the store, not the domain, explains it.
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

/// What became of a call.
pub type Outcome = Result<Answer, Refusal>;

/// What the model takes for right: one answer, or any one of some refusals where several things are wrong and nothing
/// says which is told.
pub type Expected = Result<Answer, Vec<Refusal>>;

/// Whether what the service did is right.
#[must_use]
pub fn agrees(expected: &Expected, outcome: &Outcome) -> bool {
    match (expected, outcome) {
        (Ok(expected), Ok(answer)) => expected == answer,
        (Err(allowed), Err(refusal)) => allowed.contains(refusal),
        _ => false,
    }
}

impl Answer {
    /// The identifier that the service made for this answer, where it made one.
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

    /// The answer to a bulk update, without what is for people alone.
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

    /// The answer to a dashboard read, without what is for people alone.
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

    /// The answer to a read of the audit log, without what the model does not keep.
    #[must_use]
    pub fn of_audit(entry: &AuditEntry) -> Self {
        let is_ok = entry.outcome == knowledge_core::service::AuditOutcome::Ok;
        Self::Audit(entry.actor_id, MemoryId(entry.resource.id), is_ok)
    }
}
