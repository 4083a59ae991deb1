//! Tests of indeterminate commits and conflicts: each operation takes effect once.

use std::collections::BTreeMap;

use knowledge_core::Error;
use knowledge_core::access::{BaseRole, RoleRef};
use knowledge_core::model::{
    EventType, InboundWebhookUpdate, MemoryUpdate, NewInboundWebhook, NewWebhook, ReviewStatus,
    RoleId, WebhookUpdate,
};
use knowledge_core::service::{ConnectorUpdate, DeleteRole, Endpoint, MemberUpdate};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::dispatching::answer;
use crate::inbound_sender::Sender;
use crate::make::{
    ACME, HOUR, MEMBER, SUCCESS, VIEWER, actions, create_memory, new_chat, new_connector,
    new_mcp_key, new_member, new_memory, new_recall, new_role, new_workspace, review,
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
        let role = world
            .role(BaseRole::Viewer, actions(&[]), actions(&[]))
            .await
            .id;
        let member = world.member(RoleRef::Custom(role)).await;
        let (service, owner, workspace) = (&world.service, &world.owner, world.workspace.id);
        let chat = world.add_chat("Plans").await;
        let connector = world.connector(HOUR).await;
        let mcp_key = world.mcp_key_for("org:acme").await;
        let webhook = world.webhook(EventType::ChunkCreated).await.id;
        let endpoint = Endpoint::Webhook(workspace, webhook);
        let ping = service.deliveries().ping(owner, endpoint).await.unwrap();
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
                service
                    .memories()
                    .ingest(owner, workspace, world.source, &batch)
                    .await
                    .map(drop)
            }
            "create_memory" => {
                let new = create_memory("Note", world.source);
                service
                    .memories()
                    .create(owner, workspace, &new)
                    .await
                    .map(drop)
            }
            "update_memory" => {
                let update = MemoryUpdate::builder().title("Renamed").build();
                service
                    .memories()
                    .update(owner, self.memories[0], &update, None)
                    .await
                    .map(drop)
            }
            "delete_memory" => service.memories().delete(owner, self.memories[0]).await,
            "rotate_citation_subscription_secret" => service
                .citation_subscriptions()
                .rotate_secret(owner, self.subscription)
                .await
                .map(drop),
            "delete_citation_subscription" => {
                service
                    .citation_subscriptions()
                    .delete(owner, self.subscription)
                    .await
            }
            "create_custom_role" => {
                let new = new_role("curator");
                service.roles().create(owner, ACME, &new).await.map(drop)
            }
            "update_custom_role" => {
                let update = knowledge_core::model::CustomRoleUpdate::builder()
                    .slug("other")
                    .build();
                service
                    .roles()
                    .update(owner, ACME, self.role, &update, None)
                    .await
                    .map(drop)
            }
            "delete_custom_role" => {
                let request = DeleteRole::builder().reassign_to(VIEWER).build();
                service
                    .roles()
                    .delete(owner, ACME, self.role, &request)
                    .await
            }
            "assign_role" => world.assign(self.member, MEMBER).await,
            "create_webhook" => {
                let request = NewWebhook::builder()
                    .event_type(EventType::ChunkCreated)
                    .url("https://example.com/".parse().unwrap())
                    .build();
                service
                    .webhooks()
                    .create(owner, workspace, &request)
                    .await
                    .map(drop)
            }
            "create_inbound_webhook" => {
                let request = NewInboundWebhook::builder().name("Forms").build();
                service
                    .inbound_webhooks()
                    .create(owner, workspace, &request)
                    .await
                    .map(drop)
            }
            "create_recall" => {
                let new = new_recall(&self.memories);
                service
                    .recalls()
                    .create(owner, workspace, &new)
                    .await
                    .map(drop)
            }
            "create_mcp_key" => {
                let new = new_mcp_key("org:acme");
                service
                    .mcp_keys()
                    .create(owner, workspace, &new)
                    .await
                    .map(drop)
            }
            "create_chat" => service
                .chats()
                .create(owner, workspace, &new_chat("Hi"))
                .await
                .map(drop),
            "post_chat_message" => service
                .chats()
                .post_message(owner, workspace, self.chat, "Hi")
                .await
                .map(drop),
            "create_connector" => {
                let new = new_connector(HOUR);
                service
                    .connectors()
                    .create(owner, workspace, &new)
                    .await
                    .map(drop)
            }
            "update_connector to pause" => {
                let update = ConnectorUpdate::paused(true);
                let paused = service
                    .connectors()
                    .update(owner, workspace, self.connector, &update);
                paused.await.map(drop)
            }
            "update_connector" => {
                let update = ConnectorUpdate::builder().account_label("other").build();
                let updated =
                    service
                        .connectors()
                        .update(owner, workspace, self.connector, &update);
                updated.await.map(drop)
            }
            "delete_connector" => {
                service
                    .connectors()
                    .delete(owner, workspace, self.connector)
                    .await
            }
            "rotate_mcp_key" => service
                .mcp_keys()
                .rotate(owner, workspace, self.mcp_key, None)
                .await
                .map(drop),
            "revoke_mcp_key" => {
                service
                    .mcp_keys()
                    .revoke(owner, workspace, self.mcp_key)
                    .await
            }
            "update_webhook" => {
                let update = WebhookUpdate::builder().is_active(false).build();
                let updated =
                    service
                        .webhooks()
                        .update(owner, workspace, self.webhook, &update, None);
                updated.await.map(drop)
            }
            "delete_webhook" => {
                service
                    .webhooks()
                    .delete(owner, workspace, self.webhook)
                    .await
            }
            "rotate_webhook_secret" => {
                let rotated = service
                    .webhooks()
                    .rotate_secret(owner, workspace, self.webhook);
                rotated.await.map(drop)
            }
            "update_inbound_webhook" => {
                let update = InboundWebhookUpdate::builder().name("Other").build();
                let updated = service.inbound_webhooks().update(
                    owner,
                    workspace,
                    self.sender.webhook,
                    &update,
                    None,
                );
                updated.await.map(drop)
            }
            "delete_inbound_webhook" => {
                service
                    .inbound_webhooks()
                    .delete(owner, workspace, self.sender.webhook)
                    .await
            }
            "rotate_inbound_webhook_secret" => {
                let rotated =
                    service
                        .inbound_webhooks()
                        .rotate_secret(owner, workspace, self.sender.webhook);
                rotated.await.map(drop)
            }
            "ingest_message" => {
                let batch = [new_memory("Note")];
                self.sender.post(world, "msg_1", &batch).await
            }
            "add_member" => {
                let new = new_member("bob", MEMBER);
                service.members().add(owner, ACME, &new).await.map(drop)
            }
            "update_member" => {
                let update = MemberUpdate::builder()
                    .role(MEMBER)
                    .teams(vec!["platform".to_owned()])
                    .build();
                let updated = service
                    .members()
                    .update(owner, ACME, self.member, &update, None);
                updated.await.map(drop)
            }
            "end_workspace_role" => {
                service
                    .members()
                    .end_workspace_role(owner, ACME, self.member, workspace)
                    .await
            }
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
            "report_sync" => {
                service
                    .connectors()
                    .report_sync(owner, workspace, self.connector, &SUCCESS)
                    .await
            }
            "ping" => {
                let pinged = provisioning.ping(world.org.id, self.webhook.into());
                pinged.await.map(drop)
            }
            "redeliver" => {
                let endpoint = Endpoint::Webhook(workspace, self.webhook);
                let redelivered = service
                    .deliveries()
                    .redeliver(owner, endpoint, self.delivery);
                redelivered.await.map(drop)
            }
            "redeliver_dead" => {
                let endpoint = Endpoint::Webhook(workspace, self.webhook);
                let redelivered = service.deliveries().redeliver_dead(owner, endpoint).await?;
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
