//! Records that the requests name.

use knowledge_core::access::{ActionSet, BaseRole};
use knowledge_core::model::{
    ChatId, ConnectorId, CredentialId, DeliveryId, ErasureId, EventType, InboundWebhookId,
    MemberId, MemberKind, MemoryId, NewErasure, RecallId, RoleId, SubscriptionId, WebhookId,
};
use knowledge_core::service::{Endpoint, NewApiToken};

use super::callers::Caller;
use crate::dispatching::answer;
use crate::inbound_sender::Sender;
use crate::make::{
    HOUR, MEMBER, VIEWER, failure, new_chat, new_mcp_key, new_member, new_memory, new_recall,
};
use crate::world::World;
use knowledge_testing::requests::with;

/// A world with two records of each list, and a caller that owns some of them.
pub(super) struct Records {
    pub(super) memory: MemoryId,
    pub(super) connector: ConnectorId,
    pub(super) mcp_key: CredentialId,
    /// MCP key of the caller.
    pub(super) key_secret: String,
    pub(super) chat: ChatId,
    pub(super) role: RoleId,
    /// Member with a role in the workspace.
    pub(super) member: MemberId,
    /// Person with an unused login link.
    pub(super) invited: MemberId,
    /// Service account with two tokens.
    pub(super) account: MemberId,
    pub(super) token: CredentialId,
    pub(super) recall: RecallId,
    pub(super) erasure: ErasureId,
    pub(super) subscription: SubscriptionId,
    pub(super) webhook: WebhookId,
    pub(super) inbound: InboundWebhookId,
    /// Signing secret of the inbound webhook, which acts as the caller.
    pub(super) inbound_secret: String,
}

impl Records {
    pub(super) async fn new(world: &World, caller: &Caller) -> Self {
        let workspace = world.workspace.id;
        let memories = world.approved_memories(2).await;
        // Without permissions, a recall exists only for the member that made it.
        let new = new_recall(&memories);
        let recall = world.by(&caller.trusted).create_recall(&new);
        let recall = recall.await.unwrap().id;
        world.recall_of(&memories).await;
        let mut erasure = ErasureId(uuid::Uuid::nil());
        for _ in 0..2 {
            let gone = NewErasure::builder().memory_ids(world.memories(1).await);
            let key = world.name("erasure").parse().unwrap();
            let gone = gone.build();
            let erased = world.create_erasure(&key, &gone);
            erasure = erased.await.unwrap().erasure.id;
        }
        let subscription = world.subscribe(&caller.trusted, recall).await.id;
        world.subscribe(&world.owner, recall).await;
        let connector = world.connector(HOUR).await;
        world.connector(HOUR).await;
        let failed = failure("unreachable");
        world.report_sync(connector, &failed).await.unwrap();
        let plans = with(new_chat("Plans"), |new| {
            new.participants = vec![caller.member];
        });
        let chat = world.chat(workspace, &plans).await.unwrap();
        world.add_chat("Notes").await;
        world.post_message(chat, "Hello.").await.unwrap();
        let webhook = world.webhook(EventType::WebhookPing).await.id;
        world.webhook(EventType::WebhookPing).await;
        let inbound = Sender::registered_by(world, &caller.trusted).await;
        world.inbound_webhook(workspace, "Mail").await.unwrap();
        let known = with(new_memory("Known"), |new| {
            new.source_key = Some("page/1".to_owned());
        });
        let known = std::slice::from_ref(&known);
        world.ingest(workspace, world.source, known).await.unwrap();
        inbound.post(world, "known", known).await.unwrap();
        let key = new_mcp_key("org:acme");
        let key = world.by(&caller.trusted).create_mcp_key(&key);
        let key = key.await.unwrap();
        let role = world.role(BaseRole::Viewer, ActionSet::EMPTY, ActionSet::EMPTY);
        let role = role.await.id;
        let member = world.member(MEMBER).await;
        let assigned = world.assign_in(member, workspace, Some(VIEWER));
        assigned.await.unwrap();
        let (invited, (account, token)) = (invited(world).await, account(world).await);
        Self {
            invited,
            account,
            token,
            memory: memories[0],
            connector,
            mcp_key: world.mcp_key_for("org:acme").await.summary.id,
            key_secret: key.secret.as_ref().unwrap().expose().to_owned(),
            chat,
            role,
            member,
            recall,
            erasure,
            subscription,
            webhook,
            inbound: inbound.webhook,
            inbound_secret: inbound.secret,
        }
    }

    /// Creates a dead letter and a pending delivery of an endpoint, and returns the latter.
    pub(super) async fn deliveries(&self, world: &World, to: Endpoint) -> DeliveryId {
        let ping = async || world.ping_endpoint(to).await.unwrap().id;
        ping().await;
        let claimed = world.claim_one().await;
        world.finish(&claimed, &answer(500)).await;
        ping().await
    }
}

/// Adds a person with an unused login link.
async fn invited(world: &World) -> MemberId {
    let new = with(new_member("invited", VIEWER), |new| new.login_link = true);
    let added = world.add_member(&new).await.unwrap();
    added.value.details.member.id
}

/// Adds a service account with two tokens that a session created, and returns one of them.
async fn account(world: &World) -> (MemberId, CredentialId) {
    let new = with(new_member("bot", VIEWER), |new| {
        new.kind = MemberKind::ServiceAccount;
    });
    let account = world.add(&new).await;
    // Not that of the caller, which the service would know then.
    let session = world.session(world.owner_id).await.secret.into();
    let new = NewApiToken::builder().name("Search").build();
    let mut token = CredentialId(uuid::Uuid::nil());
    for _ in 0..2 {
        let created = world.by(&session).create_token(account, &new);
        token = created.await.unwrap().token.id;
    }
    (account, token)
}
