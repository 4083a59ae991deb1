//! The one way in which tests and measurements create an organisation and its records.

use crate::requests::answered;
use knowledge_core::Error;
use knowledge_core::access::Credential;
use knowledge_core::limits::INGEST_MEMORIES_MAX;
use knowledge_core::model::{
    BulkResult, BulkUpdate, ChatId, ConnectorId, CustomRole, EndpointId, EventType, InboundWebhook,
    Member, MemberId, MemoryChange, MemoryId, NewCitationSubscription, NewCustomRole,
    NewInboundWebhook, NewWebhook, Organization, RecallId, SourceId, SubscriptionId, Webhook,
    Workspace, WorkspaceId,
};
use knowledge_core::service::{
    Caller, InFlight, IngestOutcome, Issued, IssuedMcpKey, KnowledgeService, MemberAssignment,
    NewChat, NewConnector, NewMcpKey, NewMember, NewMemory, NewOrganization, NewRecall, NewSource,
    NewToken, NewWorkspace,
};

/// An organisation whose owner creates the records.
///
/// The requests come from [`requests`](crate::requests), as they are or changed. All methods return
/// the errors of their operation.
#[derive(Clone)]
pub struct Seed {
    /// Service that is called.
    pub service: KnowledgeService,
    /// The organisation.
    pub org: Organization,
    /// Trusted credential of the owner.
    pub owner: Caller,
    /// Record of the owner when it was created.
    pub founder: Member,
}

/// Result of an operation.
type Done<T> = Result<T, Error>;

impl Seed {
    /// Creates an organisation.
    pub async fn new(service: &KnowledgeService, new: &NewOrganization) -> Done<Self> {
        let (org, founder) = service.provisioning().create_organization(new).await?;
        Ok(Self {
            service: service.clone(),
            owner: Caller::new(Credential::Trusted {
                org: org.id,
                member: founder.id,
            }),
            founder,
            org,
        })
    }

    /// Returns a credential of a member that the host vouches for.
    #[must_use]
    pub fn trusted(&self, member: MemberId) -> Caller {
        Caller::new(Credential::Trusted {
            org: self.org.id,
            member,
        })
    }

    /// Creates a workspace.
    pub async fn workspace(&self, new: &NewWorkspace) -> Done<Workspace> {
        let provisioning = self.service.provisioning();
        provisioning.create_workspace(self.org.id, new).await
    }

    /// Creates a member.
    pub async fn member(&self, new: &NewMember) -> Done<Member> {
        let provisioning = self.service.provisioning();
        provisioning.create_member(self.org.id, new).await
    }

    /// Issues a token or a session.
    pub async fn issue(&self, new: &NewToken) -> Done<Issued> {
        self.service.provisioning().issue(self.org.id, new).await
    }

    /// Creates a custom role.
    pub async fn role(&self, new: &NewCustomRole) -> Done<CustomRole> {
        let (roles, org) = (self.service.roles(), &self.org.slug);
        roles.create(&self.owner, org, new).await
    }

    /// Assigns a role to a member.
    pub async fn assign(&self, member: MemberId, role: MemberAssignment) -> Done<()> {
        let (members, org) = (self.service.members(), &self.org.slug);
        let assigned = members.assign_role(&self.owner, org, member, role);
        assigned.await
    }

    /// Creates a source.
    pub async fn source(&self, name: &str, kind: &str) -> Done<SourceId> {
        let new = NewSource::builder().name(name).kind(kind).build();
        Ok(self.service.sources().create(&self.owner, &new).await?.id)
    }

    /// Ingests any number of new memories.
    ///
    /// # Panics
    /// If a memory with the same source key exists.
    pub async fn ingest(
        &self,
        workspace: WorkspaceId,
        source: SourceId,
        memories: &[NewMemory],
    ) -> Done<Vec<MemoryId>> {
        let mut ids = Vec::with_capacity(memories.len());
        for batch in memories.chunks(INGEST_MEMORIES_MAX) {
            let service = self.service.memories();
            let ingested = service.ingest(&self.owner, workspace, source, batch);
            for memory in ingested.await? {
                assert_eq!(memory.outcome, IngestOutcome::Created);
                ids.extend(memory.id);
            }
        }
        Ok(ids)
    }

    /// Changes memories by one bulk update with this idempotency key.
    ///
    /// # Panics
    /// If the text is not an idempotency key.
    pub async fn bulk_update(
        &self,
        key: &str,
        memories: &[MemoryId],
        change: MemoryChange,
    ) -> Done<BulkResult> {
        let key = key.parse().expect("an idempotency key");
        let update = BulkUpdate::builder().memory_ids(memories.to_vec());
        let update = update.change(change).build();
        let service = self.service.memories();
        service.bulk_update(&self.owner, &key, &update).await
    }

    /// Creates a recall.
    pub async fn recall(&self, workspace: WorkspaceId, new: &NewRecall) -> Done<RecallId> {
        let recalls = self.service.recalls();
        Ok(recalls.create(&self.owner, workspace, new).await?.id)
    }

    /// Subscribes the owner to the citations of a recall.
    ///
    /// # Panics
    /// If the text is not a URL.
    pub async fn subscription(&self, recall: RecallId, url: &str) -> Done<SubscriptionId> {
        let new = NewCitationSubscription::builder()
            .recall_id(recall)
            .webhook_url(url.parse().expect("a URL"))
            .build();
        let subscriptions = self.service.citation_subscriptions();
        Ok(subscriptions.create(&self.owner, &new).await?.id)
    }

    /// Creates an outbound webhook.
    ///
    /// # Panics
    /// If the text is not a URL.
    pub async fn webhook(
        &self,
        workspace: WorkspaceId,
        event_type: EventType,
        url: &str,
    ) -> Done<Webhook> {
        let new = NewWebhook::builder().event_type(event_type);
        let new = new.url(url.parse().expect("a URL")).build();
        let webhooks = self.service.webhooks();
        webhooks.create(&self.owner, workspace, &new).await
    }

    /// Creates an inbound webhook.
    pub async fn inbound_webhook(
        &self,
        workspace: WorkspaceId,
        name: &str,
    ) -> Done<InboundWebhook> {
        let new = NewInboundWebhook::builder().name(name).build();
        let webhooks = self.service.inbound_webhooks();
        webhooks.create(&self.owner, workspace, &new).await
    }

    /// Creates a connector.
    pub async fn connector(&self, workspace: WorkspaceId, new: &NewConnector) -> Done<ConnectorId> {
        let connectors = self.service.connectors();
        let created = connectors.create(&self.owner, workspace, new).await?;
        Ok(created.connector.id)
    }

    /// Creates a chat of the owner and these members.
    pub async fn chat(&self, workspace: WorkspaceId, new: &NewChat) -> Done<ChatId> {
        let chats = self.service.chats();
        Ok(chats.create(&self.owner, workspace, new).await?.id)
    }

    /// Creates an MCP key.
    pub async fn mcp_key(&self, workspace: WorkspaceId, new: &NewMcpKey) -> Done<IssuedMcpKey> {
        let keys = self.service.mcp_keys();
        keys.create(&self.owner, workspace, new).await
    }
}

/// Confirms a new endpoint: claims its ping and answers it with 204.
///
/// An endpoint whose URL is confirmed already is not asked.
///
/// # Errors
/// Errors of the store.
///
/// # Panics
/// If anything else is due now.
pub async fn confirm(service: &KnowledgeService, endpoint: EndpointId) -> Done<()> {
    let (now, nothing) = (service.env().now(), InFlight::default());
    let claimed = service.dispatcher().claim(now, 8, &nothing).await?;
    let claimed = claimed.deliveries;
    let due = claimed.iter();
    let due = due.map(|claimed| (claimed.lease.endpoint(), claimed.event_type));
    let due: Vec<_> = due.collect();
    if due.is_empty() {
        return Ok(());
    }
    assert_eq!(due, [(endpoint, EventType::WebhookPing)]);
    let (dispatcher, lease) = (service.dispatcher(), &claimed[0].lease);
    dispatcher.finish(now, lease, &answered(204)).await?;
    Ok(())
}
