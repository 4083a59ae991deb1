//! Tests of indeterminate commits and conflicts: each operation takes effect once.

use std::collections::BTreeMap;

use knowledge_core::Error;
use knowledge_core::access::{BaseRole, RoleRef};
use knowledge_core::model::{
    EventType, InboundWebhookUpdate, MemoryUpdate, NewInboundWebhook, ReviewStatus, RoleId,
};
use knowledge_core::service::{ConnectorUpdate, DeleteRole, Endpoint, MemberUpdate};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::dispatching::answer;
use crate::inbound_sender::Sender;
use crate::make::{
    HOUR, MEMBER, SUCCESS, VIEWER, create_memory, new_chat, new_connector, new_mcp_key, new_member,
    new_memory, new_recall, new_role, new_webhook, new_workspace, review, set_active,
};
use crate::world::World;

/// The data that exists before each operation.
struct Stage {
    world: World,
    memories: Vec<knowledge_core::model::MemoryId>,
    member: knowledge_core::model::MemberId,
    role: RoleId,
    chat: knowledge_core::model::ChatId,
    connector: knowledge_core::model::ConnectorId,
    subscription: knowledge_core::model::SubscriptionId,
    mcp_key: knowledge_core::model::CredentialId,
    webhook: knowledge_core::model::WebhookId,
    /// A dead letter.
    delivery: knowledge_core::model::DeliveryId,
    sender: Sender,
}

impl Stage {
    async fn set() -> Self {
        let world = World::with_endpoint().await;
        let memories = world.approved_memories(2).await;
        let role = world.plain_role(BaseRole::Viewer).await.id;
        let member = world.member(RoleRef::Custom(role)).await;
        let workspace = world.workspace.id;
        let chat = world.add_chat("Plans").await;
        let connector = world.connector(HOUR).await;
        let mcp_key = world.mcp_key_for("org:acme").await;
        let webhook = world.webhook(EventType::ChunkCreated).await.id;
        let endpoint = Endpoint::Webhook(workspace, webhook);
        let ping = world.ping_endpoint(endpoint).await.unwrap();
        let claimed = world.claim_one().await;
        world.finish(&claimed, &answer(500)).await;
        let sender = Sender::new(&world).await;
        world
            .assign_in(member, workspace, Some(MEMBER))
            .await
            .unwrap();
        Self {
            mcp_key: mcp_key.summary.id,
            webhook,
            delivery: ping.id,
            sender,
            memories,
            member,
            role,
            chat,
            connector,
            subscription: world.subscription().await,
            world,
        }
    }

    /// Executes an operation in a copy of the stage's world.
    async fn act(&self, world: &World, operation: &str) -> Result<(), Error> {
        let (service, owner, workspace) = (&world.service, &world.owner, world.workspace.id);
        let provisioning = service.provisioning();
        match operation {
            "bulk_update_memories" => {
                let approved = review(ReviewStatus::Approved);
                world.bulk(owner, &self.memories, approved).await.map(drop)
            }
            "ingest_memories" => {
                let batch = [new_memory("Note")];
                world.ingest_memories(world.source, &batch).await.map(drop)
            }
            "create_memory" => {
                let new = create_memory("Note", world.source);
                world.create_memory(&new).await.map(drop)
            }
            "update_memory" => {
                let update = MemoryUpdate::builder().title("Renamed").build();
                world
                    .update_memory(self.memories[0], &update, None)
                    .await
                    .map(drop)
            }
            "delete_memory" => world.delete_memory(self.memories[0]).await,
            "rotate_citation_subscription_secret" => {
                world.rotate_subscription(self.subscription).await.map(drop)
            }
            "delete_citation_subscription" => world.delete_subscription(self.subscription).await,
            "create_custom_role" => {
                let new = new_role("curator");
                world.create_role(&new).await.map(drop)
            }
            "update_custom_role" => {
                let update = knowledge_core::model::CustomRoleUpdate::builder()
                    .slug("other")
                    .build();
                world.update_role(self.role, &update, None).await.map(drop)
            }
            "delete_custom_role" => {
                let request = DeleteRole::builder().reassign_to(VIEWER).build();
                world.delete_role(self.role, &request).await
            }
            "assign_role" => world.assign(self.member, MEMBER).await,
            "create_webhook" => {
                let request = new_webhook("https://example.com/");
                world.create_webhook(&request).await.map(drop)
            }
            "create_inbound_webhook" => {
                let request = NewInboundWebhook::builder().name("Forms").build();
                world.create_inbound(&request).await.map(drop)
            }
            "create_recall" => {
                let new = new_recall(&self.memories);
                world.create_recall(&new).await.map(drop)
            }
            "create_mcp_key" => {
                let new = new_mcp_key("org:acme");
                world.create_mcp_key(&new).await.map(drop)
            }
            "create_chat" => world.create_chat(&new_chat("Hi")).await.map(drop),
            "post_chat_message" => world.post_message(self.chat, "Hi").await.map(drop),
            "create_connector" => {
                let new = new_connector(HOUR);
                world.create_connector(&new).await.map(drop)
            }
            "update_connector to pause" => {
                let update = ConnectorUpdate::paused(true);
                let paused = world.update_connector(self.connector, &update);
                paused.await.map(drop)
            }
            "update_connector" => {
                let update = ConnectorUpdate::builder().account_label("other").build();
                let updated = world.update_connector(self.connector, &update);
                updated.await.map(drop)
            }
            "delete_connector" => world.delete_connector(self.connector).await,
            "rotate_mcp_key" => world.rotate_mcp_key(self.mcp_key, None).await.map(drop),
            "revoke_mcp_key" => world.revoke_mcp_key(self.mcp_key).await,
            "update_webhook" => {
                let update = set_active(false);
                let updated = world.update_webhook(self.webhook, &update, None);
                updated.await.map(drop)
            }
            "delete_webhook" => world.delete_webhook(self.webhook).await,
            "rotate_webhook_secret" => world.rotate_webhook(self.webhook).await.map(drop),
            "update_inbound_webhook" => {
                let update = InboundWebhookUpdate::builder().name("Other").build();
                let updated = world.update_inbound(self.sender.webhook, &update, None);
                updated.await.map(drop)
            }
            "delete_inbound_webhook" => world.delete_inbound(self.sender.webhook).await,
            "rotate_inbound_webhook_secret" => {
                world.rotate_inbound(self.sender.webhook).await.map(drop)
            }
            "ingest_message" => {
                let batch = [new_memory("Note")];
                self.sender.post(world, "msg_1", &batch).await
            }
            "add_member" => {
                let new = new_member("bob", MEMBER);
                world.add_member(&new).await.map(drop)
            }
            "update_member" => {
                let update = MemberUpdate::builder()
                    .role(MEMBER)
                    .teams(vec!["platform".to_owned()])
                    .build();
                let updated = world.update_member(self.member, &update, None);
                updated.await.map(drop)
            }
            "end_workspace_role" => world.end_workspace_role(self.member, workspace).await,
            "create_workspace" => {
                let new = new_workspace("sales");
                provisioning
                    .create_workspace(world.org.id, &new)
                    .await
                    .map(drop)
            }
            "create_member" => {
                let new = new_member("bob", MEMBER);
                provisioning
                    .create_member(world.org.id, &new)
                    .await
                    .map(drop)
            }
            "report_sync" => world.report_sync(self.connector, &SUCCESS).await,
            "ping" => {
                let pinged = provisioning.ping(world.org.id, self.webhook.into());
                pinged.await.map(drop)
            }
            "redeliver" => {
                let endpoint = Endpoint::Webhook(workspace, self.webhook);
                world.redeliver(endpoint, self.delivery).await.map(drop)
            }
            "redeliver_dead" => {
                let endpoint = Endpoint::Webhook(workspace, self.webhook);
                let redelivered = world.redeliver_dead(endpoint).await?;
                assert_eq!(redelivered.redelivered, 1);
                Ok(())
            }
            other => panic!("{other}"),
        }
    }
}

const OPERATIONS: &[&str] = &[
    "bulk_update_memories",
    "ingest_memories",
    "create_memory",
    "update_memory",
    "delete_memory",
    "rotate_citation_subscription_secret",
    "delete_citation_subscription",
    "create_custom_role",
    "update_custom_role",
    "delete_custom_role",
    "assign_role",
    "create_webhook",
    "create_inbound_webhook",
    "create_recall",
    "create_mcp_key",
    "create_chat",
    "post_chat_message",
    "create_connector",
    "update_connector to pause",
    "update_connector",
    "delete_connector",
    "rotate_mcp_key",
    "revoke_mcp_key",
    "update_webhook",
    "delete_webhook",
    "rotate_webhook_secret",
    "ping",
    "redeliver",
    "redeliver_dead",
    "update_inbound_webhook",
    "delete_inbound_webhook",
    "rotate_inbound_webhook_secret",
    "ingest_message",
    "add_member",
    "update_member",
    "end_workspace_role",
    "create_workspace",
    "create_member",
];

/// Returns the number of keys of each family, and all counters.
async fn shape(world: &World) -> (BTreeMap<String, usize>, BTreeMap<String, i64>) {
    let mut families: BTreeMap<String, usize> = BTreeMap::new();
    let mut counters = BTreeMap::new();
    for (key, value) in world.contents().await {
        let key = key.to_string();
        let family = key.split('/').next().unwrap();
        *families.entry(family.to_owned()).or_default() += 1;
        if let Ok(count) = serde_json::from_slice(&value) {
            counters.insert(key, count);
        }
    }
    (families, counters)
}

#[tokio::test]
async fn operation_with_indeterminate_commit_takes_effect_once() {
    let stage = Stage::set().await;
    for operation in OPERATIONS {
        let plain = stage.world.copy(FaultPlan::none()).await;
        stage.act(&plain, operation).await.unwrap();
        let expected = shape(&plain).await;
        for fault in [
            CommitFault::Conflict,
            CommitFault::LostApplied,
            CommitFault::LostNotApplied,
            CommitFault::LostAppliedLater,
        ] {
            let world = stage
                .world
                .copy(FaultPlan::none().at_commit(1, fault))
                .await;
            let done = stage.act(&world, operation).await;
            assert!(done.is_ok(), "{operation} after {fault:?}: {done:?}");
            world.assert_holders_are_right().await;
            assert_eq!(shape(&world).await, expected, "{operation} after {fault:?}");
        }
        for fault in [
            CommitFault::Unavailable,
            CommitFault::Full,
            CommitFault::Close,
        ] {
            let world = stage
                .world
                .copy(FaultPlan::none().at_commit(1, fault))
                .await;
            let before = world.contents().await;
            let refused = stage.act(&world, operation).await.unwrap_err();
            assert_eq!(refused.code(), "unavailable", "{operation} after {fault:?}");
            assert_eq!(
                world.contents().await,
                before,
                "{operation} after {fault:?}"
            );
        }
    }
}

/// Nothing proves the arrival of a report: its caller gets an unknown outcome, and reports again.
#[tokio::test]
async fn report_with_indeterminate_commit_may_be_sent_again() {
    let stage = Stage::set().await;
    for fault in [CommitFault::LostApplied, CommitFault::LostNotApplied] {
        let world = stage
            .world
            .copy(FaultPlan::none().at_commit(1, fault))
            .await;
        let lost = stage.act(&world, "report_sync").await.unwrap_err();
        assert_eq!(lost.code(), "unavailable");
        stage.act(&world, "report_sync").await.unwrap();
        let announced = world.events_of(EventType::ConnectorStatusChanged).await;
        assert_eq!(announced.len(), 1, "{fault:?}");
    }
}
