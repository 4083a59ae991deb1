//! Identifiers for the test of tenancy.

use knowledge_core::access::BaseRole;
use knowledge_core::model::{
    AuditLogId, ChatId, ConnectorId, CredentialId, DeliveryId, EventType, InboundWebhookId,
    MemberId, MemoryId, RecallId, RoleId, SourceId, SubscriptionId, WebhookId, WorkspaceId,
};
use knowledge_core::service::Endpoint;
use uuid::Uuid;

use crate::make::{ACME, HOUR, MEMBER};
use crate::world::World;

/// The identifiers of one organisation, or unused ones.
#[derive(Clone)]
pub(crate) struct Ids {
    pub(crate) slug: String,
    pub(crate) workspace: WorkspaceId,
    pub(crate) source: SourceId,
    pub(crate) memory: MemoryId,
    pub(crate) role: RoleId,
    pub(crate) member: MemberId,
    pub(crate) recall: RecallId,
    pub(crate) subscription: SubscriptionId,
    pub(crate) audit: AuditLogId,
    pub(crate) chat: ChatId,
    pub(crate) connector: ConnectorId,
    pub(crate) mcp_key: CredentialId,
    pub(crate) webhook: WebhookId,
    pub(crate) inbound: InboundWebhookId,
    pub(crate) delivery: DeliveryId,
}

impl Ids {
    pub(crate) async fn of_acme(world: &World) -> Self {
        let workspace = world.workspace.id;
        let memories = world.memories(1).await;
        let recall = world.recall_of(&memories).await;
        let connector = world.connector(HOUR).await;
        let chat = world.add_chat("Plans").await;
        let mcp_key = world.mcp_key_for("org:acme").await;
        let webhook = world.webhook(EventType::ChunkCreated).await.id;
        let delivery = world
            .ping_endpoint(Endpoint::Webhook(workspace, webhook))
            .await;
        let inbound = world.inbound_webhook(workspace, "Forms").await;
        Self {
            slug: ACME.to_owned(),
            workspace,
            source: world.source,
            memory: memories[0],
            role: world.plain_role(BaseRole::Viewer).await.id,
            member: world.member(MEMBER).await,
            recall,
            subscription: world.subscription().await,
            audit: world.audit().await,
            chat,
            connector,
            mcp_key: mcp_key.summary.id,
            webhook,
            inbound: inbound.unwrap().id,
            delivery: delivery.unwrap().id,
        }
    }

    pub(crate) fn of_nothing() -> Self {
        let id = Uuid::from_u128(7);
        Self {
            slug: "nobody".to_owned(),
            workspace: WorkspaceId(id),
            source: SourceId(id),
            memory: MemoryId(id),
            role: RoleId(id),
            member: MemberId(id),
            recall: RecallId(id),
            subscription: SubscriptionId(id),
            audit: AuditLogId(id),
            chat: ChatId(id),
            connector: ConnectorId(id),
            mcp_key: CredentialId(id),
            webhook: WebhookId(id),
            inbound: InboundWebhookId(id),
            delivery: DeliveryId(id),
        }
    }
}
