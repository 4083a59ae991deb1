//! Operations as a caller of a [`World`] calls them, so that a call states only what differs.

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::Secret;
use knowledge_core::model::{
    AccessCheck, AccessCheckResult, AccessFilter, AccessFilterOptions, Activity, AuditLogId,
    BulkResult, BulkUpdate, ChatId, CitationFilter, CitationSubscription, ConnectorId,
    CredentialId, CustomRole, CustomRoleUpdate, DashboardSummary, Delivery, DeliveryId,
    DeliveryStatus, Erasure, ErasureId, ErasurePreview, InboundWebhook, InboundWebhookId,
    InboundWebhookUpdate, McpKeySummary, Member, MemberId, MemoryDetails, MemoryFilter, MemoryId,
    MemorySummary, MemoryUpdate, NewCitationSubscription, NewCustomRole, NewErasure,
    NewInboundWebhook, NewWebhook, Recall, RecallId, RecallResults, RecallSearch, RecallSummary,
    RoleId, Source, SourceId, SubscriptionId, Webhook, WebhookId, WebhookUpdate, Workspace,
    WorkspaceId, WorkspaceLabels,
};
use knowledge_core::service::{
    ActivityDays, AddedMember, ApiToken, AuditEntry, AuditFilter, Caller, Chat, ChatMessage,
    ClientInfo, ConnectorDetails, ConnectorUpdate, CreateMemory, DeleteRole, Endpoint,
    ErasureResult, IdempotencyKey, IfMatch, IngestBatch, IngestedMemory, Issued, IssuedApiToken,
    IssuedMcpKey, KnowledgeService, LoginLink, MemberAssignment, MemberDetails, MemberUpdate,
    NewApiToken, NewChat, NewConnector, NewMcpKey, NewMember, NewMemory, NewRecall, NewRetention,
    NewSource, NewWorkspaceAccess, Page, PageRequest, RecallUpdate, RedeliveryReport, Retention,
    RotatedSecret, SyncReport, WithEtag,
};

use crate::world::World;

/// Operations by one caller in one workspace of an organisation.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'w> {
    service: &'w KnowledgeService,
    caller: &'w Caller,
    org_slug: &'w str,
    workspace: WorkspaceId,
}

impl<'w> Calls<'w> {
    /// Returns the operations in another workspace.
    pub(crate) fn within(self, workspace: WorkspaceId) -> Self {
        Self { workspace, ..self }
    }

    /// Returns the operations in another organisation.
    pub(crate) fn in_org(self, org_slug: &'w str) -> Self {
        Self { org_slug, ..self }
    }
}

/// Defines an operation of [`Calls`] and of [`World`] by the view and the function that it calls.
macro_rules! calls {
    ($($view:ident.$op:ident$(($place:ident))? => $name:ident($($arg:ident: $type:ty),*)
        -> $result:ty;)*) => {
        impl Calls<'_> {
            $(pub(crate) async fn $name(self, $($arg: $type),*) -> Result<$result, Error> {
                self.service.$view().$op(self.caller, $(self.$place,)? $($arg),*).await
            })*
        }

        /// The same operations, by the owner in the workspace of the world.
        #[allow(dead_code, reason = "some operations are called only by other members")]
        impl World {
            $(pub(crate) async fn $name(&self, $($arg: $type),*) -> Result<$result, Error> {
                self.by(&self.owner).$name($($arg),*).await
            })*
        }
    };
}

calls! {
    memories.bulk_update => bulk_update_memories(key: &IdempotencyKey, update: &BulkUpdate)
        -> BulkResult;
    memories.access_filter(workspace) => access_filter(options: &AccessFilterOptions)
        -> WithEtag<AccessFilter>;
    memories.check_access => check_access(check: &AccessCheck) -> AccessCheckResult;
    memories.create(workspace) => create_memory(new: &CreateMemory) -> WithEtag<MemoryDetails>;
    memories.delete => delete_memory(memory: MemoryId) -> ();
    memories.get => get_memory(memory: MemoryId) -> WithEtag<MemoryDetails>;
    memories.ingest(workspace) => ingest_memories(source: SourceId, memories: &[NewMemory])
        -> Vec<IngestedMemory>;
    memories.ingest_batch(workspace) => ingest_batch(batch: &IngestBatch) -> Vec<IngestedMemory>;
    memories.labels(workspace) => list_labels() -> WorkspaceLabels;
    memories.list(workspace) => list_memories(filter: &MemoryFilter, page: &PageRequest)
        -> Page<MemorySummary>;
    memories.update =>
        update_memory(memory: MemoryId, update: &MemoryUpdate, if_match: Option<&IfMatch>)
        -> WithEtag<MemoryDetails>;
    sources.create => create_source(new: &NewSource) -> Source;
    sources.get => get_source(source: SourceId) -> Source;
    sources.list => list_sources(page: &PageRequest) -> Page<Source>;
    recalls.create(workspace) => create_recall(new: &NewRecall) -> Recall;
    recalls.delete => delete_recall(recall: RecallId) -> ();
    recalls.get => get_recall(recall: RecallId) -> Recall;
    recalls.list(workspace) => list_recalls(filter: &CitationFilter, page: &PageRequest)
        -> Page<RecallSummary>;
    recalls.update => update_recall(recall: RecallId, update: &RecallUpdate) -> Recall;
    recalls.search(workspace) => search_recalls(search: &RecallSearch) -> RecallResults;
    chats.create(workspace) => create_chat(new: &NewChat) -> Chat;
    chats.delete(workspace) => delete_chat(chat: ChatId) -> ();
    chats.get(workspace) => get_chat(chat: ChatId) -> Chat;
    chats.list(workspace) => list_chats(page: &PageRequest) -> Page<Chat>;
    chats.list_messages(workspace) => list_messages(chat: ChatId, page: &PageRequest)
        -> Page<ChatMessage>;
    chats.post_message(workspace) => post_message(chat: ChatId, content: &str) -> ChatMessage;
    connectors.create(workspace) => create_connector(new: &NewConnector) -> ConnectorDetails;
    connectors.delete(workspace) => delete_connector(connector: ConnectorId) -> ();
    connectors.get(workspace) => get_connector(connector: ConnectorId) -> ConnectorDetails;
    connectors.list(workspace) => list_connectors(page: &PageRequest) -> Page<ConnectorDetails>;
    connectors.report_sync(workspace) => report_sync(connector: ConnectorId, report: &SyncReport)
        -> ();
    connectors.update(workspace) =>
        update_connector(connector: ConnectorId, update: &ConnectorUpdate)
        -> ConnectorDetails;
    mcp_keys.create(workspace) => create_mcp_key(new: &NewMcpKey) -> IssuedMcpKey;
    mcp_keys.get(workspace) => get_mcp_key(key: CredentialId) -> McpKeySummary;
    mcp_keys.list(workspace) => list_mcp_keys(page: &PageRequest) -> Page<McpKeySummary>;
    mcp_keys.revoke(workspace) => revoke_mcp_key(key: CredentialId) -> ();
    mcp_keys.rotate(workspace) => rotate_mcp_key(key: CredentialId, rotation: Option<Duration>)
        -> IssuedMcpKey;
    workspaces.get(workspace) => get_workspace() -> Workspace;
    workspaces.get_activity(workspace) => get_activity(days: &ActivityDays) -> Activity;
    workspaces.get_dashboard_summary(workspace) => get_dashboard() -> WithEtag<DashboardSummary>;
    workspaces.get_retention(workspace) => get_retention() -> Retention;
    workspaces.list => list_workspaces(page: &PageRequest) -> Page<Workspace>;
    workspaces.set_access(workspace) => set_access(new: &NewWorkspaceAccess) -> Workspace;
    workspaces.set_retention(workspace) => set_retention(new: &NewRetention) -> Retention;
    members.add(org_slug) => add_member(new: &NewMember) -> WithEtag<AddedMember>;
    members.assign_role(org_slug) => assign_role(member: MemberId, assignment: MemberAssignment)
        -> ();
    members.create_login_link(org_slug) => create_login_link(member: MemberId) -> LoginLink;
    members.end_workspace_role(org_slug) =>
        end_workspace_role(member: MemberId, workspace: WorkspaceId)
        -> ();
    members.get(org_slug) => get_member(member: MemberId) -> WithEtag<MemberDetails>;
    members.list(org_slug) => list_members(page: &PageRequest) -> Page<Member>;
    members.remove(org_slug) => remove_member(member: MemberId) -> ();
    members.update(org_slug) =>
        update_member(member: MemberId, update: &MemberUpdate, if_match: Option<&IfMatch>)
        -> WithEtag<MemberDetails>;
    tokens.create(org_slug) => create_token(member: MemberId, new: &NewApiToken) -> IssuedApiToken;
    tokens.end(org_slug) => end_token(member: MemberId, token: CredentialId, with_created: bool) -> ();
    tokens.get(org_slug) => get_token(member: MemberId, token: CredentialId) -> ApiToken;
    tokens.list(org_slug) => list_tokens(member: MemberId, page: &PageRequest) -> Page<ApiToken>;
    roles.create(org_slug) => create_role(new: &NewCustomRole) -> CustomRole;
    roles.delete(org_slug) => delete_role(role: RoleId, request: &DeleteRole) -> ();
    roles.get(org_slug) => get_role(role: RoleId) -> WithEtag<CustomRole>;
    roles.list(org_slug) => list_roles() -> Vec<CustomRole>;
    roles.update(org_slug) =>
        update_role(role: RoleId, update: &CustomRoleUpdate, if_match: Option<&IfMatch>)
        -> WithEtag<CustomRole>;
    webhooks.create(workspace) => create_webhook(new: &NewWebhook) -> Webhook;
    webhooks.delete(workspace) => delete_webhook(id: WebhookId) -> ();
    webhooks.get(workspace) => get_webhook(id: WebhookId) -> WithEtag<Webhook>;
    webhooks.list(workspace) => list_webhooks(page: &PageRequest) -> Page<Webhook>;
    webhooks.rotate_secret(workspace) => rotate_webhook(id: WebhookId) -> RotatedSecret;
    webhooks.update(workspace) =>
        update_webhook(id: WebhookId, update: &WebhookUpdate, if_match: Option<&IfMatch>)
        -> WithEtag<Webhook>;
    inbound_webhooks.create(workspace) => create_inbound(new: &NewInboundWebhook) -> InboundWebhook;
    inbound_webhooks.delete(workspace) => delete_inbound(id: InboundWebhookId) -> ();
    inbound_webhooks.get(workspace) => get_inbound(id: InboundWebhookId)
        -> WithEtag<InboundWebhook>;
    inbound_webhooks.list(workspace) => list_inbound(page: &PageRequest) -> Page<InboundWebhook>;
    inbound_webhooks.rotate_secret(workspace) => rotate_inbound(id: InboundWebhookId)
        -> RotatedSecret;
    inbound_webhooks.update(workspace) => update_inbound(
        id: InboundWebhookId,
        update: &InboundWebhookUpdate,
        if_match: Option<&IfMatch>
    ) -> WithEtag<InboundWebhook>;
    citation_subscriptions.create => create_subscription(new: &NewCitationSubscription)
        -> CitationSubscription;
    citation_subscriptions.delete => delete_subscription(id: SubscriptionId) -> ();
    citation_subscriptions.get => get_subscription(id: SubscriptionId) -> CitationSubscription;
    citation_subscriptions.list => list_subscriptions(recall: RecallId, page: &PageRequest)
        -> Page<CitationSubscription>;
    citation_subscriptions.rotate_secret => rotate_subscription(id: SubscriptionId)
        -> RotatedSecret;
    deliveries.get => get_delivery(endpoint: Endpoint, id: DeliveryId) -> Delivery;
    deliveries.list =>
        list_deliveries(endpoint: Endpoint, status: Option<DeliveryStatus>, page: &PageRequest)
        -> Page<Delivery>;
    deliveries.ping => ping_endpoint(endpoint: Endpoint) -> Delivery;
    deliveries.redeliver => redeliver(endpoint: Endpoint, id: DeliveryId) -> Delivery;
    deliveries.redeliver_dead => redeliver_dead(endpoint: Endpoint) -> RedeliveryReport;
    audit_log.get => get_audit_entry(id: AuditLogId) -> AuditEntry;
    audit_log.list => list_audit_log(filter: &AuditFilter, page: &PageRequest) -> Page<AuditEntry>;
    erasures.create => create_erasure(key: &IdempotencyKey, new: &NewErasure) -> ErasureResult;
    erasures.get => get_erasure(id: ErasureId) -> Erasure;
    erasures.preview => preview_erasure(new: &NewErasure) -> ErasurePreview;
    erasures.list => list_erasures(page: &PageRequest) -> Page<Erasure>;
}

/// Other callers and workspaces, and the operations of sessions, which have no caller.
impl World {
    /// Returns the operations by the owner in another workspace.
    pub(crate) fn within(&self, workspace: WorkspaceId) -> Calls<'_> {
        self.by(&self.owner).within(workspace)
    }

    /// Returns the operations by this caller in the workspace of the world.
    pub(crate) fn by<'w>(&'w self, caller: &'w Caller) -> Calls<'w> {
        Calls {
            service: &self.service,
            caller,
            org_slug: &self.org.slug,
            workspace: self.workspace.id,
        }
    }

    /// Exchanges a login link for a session, from no known address.
    pub(crate) async fn sign_in(&self, link: &str) -> Result<Issued, Error> {
        let client = ClientInfo::default();
        self.service.sessions().sign_in(link, client).await
    }

    /// Issues an access token to a session, from no known address.
    pub(crate) async fn access_token(&self, session: &Secret) -> Result<Issued, Error> {
        let client = ClientInfo::default();
        self.service.sessions().access_token(session, client).await
    }

    /// Ends a session, from no known address.
    pub(crate) async fn sign_out(&self, session: &Secret) -> Result<(), Error> {
        let client = ClientInfo::default();
        self.service
            .sessions()
            .sign_out(session, false, client)
            .await
    }

    /// Ends one of the credentials of the member signed in, from no known address.
    pub(crate) async fn end_own_credential(
        &self,
        session: &Secret,
        id: CredentialId,
    ) -> Result<(), Error> {
        let (sessions, client) = (self.service.sessions(), ClientInfo::default());
        sessions
            .end_own_credential(session, id, false, client)
            .await
    }
}
