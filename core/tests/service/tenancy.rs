//! Test of tenancy.
//!
//! References to another organisation get the response for non-existent resources, and change
//! nothing.

use knowledge_core::Error;
use knowledge_core::access::{BaseRole, Credential, RoleRef};
use knowledge_core::model::{
    AuditLogId, ChatId, ConnectorId, CredentialId, CustomRoleUpdate, DeliveryId, EventType,
    InboundWebhookId, InboundWebhookUpdate, MemberId, MemoryChange, MemoryFilter, MemoryId,
    MemoryUpdate, NewCitationSubscription, NewCustomRole, NewInboundWebhook, NewWebhook, RecallId,
    RoleId, SourceId, SubscriptionId, WebhookId, WebhookUpdate, WorkspaceId,
};
use knowledge_core::service::{
    ConnectorUpdate, DeleteRole, Endpoint, MemberAssignment, MemberUpdate, PageRequest,
    SignedMessage,
};
use knowledge_core::store::Key;
use uuid::Uuid;

use crate::make::{
    ACME, HOUR, MEMBER, OWNER, SUCCESS, VIEWER, actions, create_memory, new_connector, new_mcp_key,
    new_member, new_memory, new_recall, new_role, new_workspace,
};
use crate::world::World;

/// The identifiers of one organisation, or unused ones.
#[derive(Clone)]
struct Ids {
    slug: String,
    workspace: WorkspaceId,
    source: SourceId,
    memory: MemoryId,
    role: RoleId,
    member: MemberId,
    recall: RecallId,
    subscription: SubscriptionId,
    audit: AuditLogId,
    chat: ChatId,
    connector: ConnectorId,
    mcp_key: CredentialId,
    webhook: WebhookId,
    inbound: InboundWebhookId,
    delivery: DeliveryId,
}

impl Ids {
    async fn of_acme(world: &World) -> Self {
        let (service, owner, workspace) = (&world.service, &world.owner, world.workspace.id);
        let memories = world.memories(1).await;
        let recall = service
            .create_recall(owner, workspace, &new_recall(&memories))
            .await;
        let connector = service
            .create_connector(owner, workspace, &new_connector(HOUR))
            .await;
        let chat = service
            .create_chat(owner, workspace, "Plans")
            .await
            .unwrap();
        let mcp_key = service
            .create_mcp_key(owner, workspace, &new_mcp_key("org:acme"))
            .await;
        let webhook = NewWebhook {
            event_type: EventType::ChunkCreated,
            url: "https://example.com/".parse().unwrap(),
        };
        let webhook = service.create_webhook(owner, workspace, &webhook).await;
        let webhook = webhook.unwrap().id;
        let delivery = service
            .ping(owner, Endpoint::Webhook(workspace, webhook))
            .await;
        let inbound = NewInboundWebhook {
            name: "Forms".to_owned(),
        };
        let inbound = service
            .create_inbound_webhook(owner, workspace, &inbound)
            .await;
        Self {
            slug: ACME.to_owned(),
            workspace,
            source: world.source,
            memory: memories[0],
            role: world
                .role(BaseRole::Viewer, actions(&[]), actions(&[]))
                .await
                .id,
            member: world.member(MEMBER).await,
            recall: recall.unwrap().id,
            subscription: world.subscription().await,
            audit: world.audit().await,
            chat: chat.id,
            connector: connector.unwrap().id,
            mcp_key: mcp_key.unwrap().summary.id,
            webhook,
            inbound: inbound.unwrap().id,
            delivery: delivery.unwrap().id,
        }
    }

    fn of_nothing() -> Self {
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

/// The owner of another organisation, and its own resources.
struct Stranger {
    caller: Credential,
    workspace: WorkspaceId,
    source: SourceId,
    role: RoleId,
    member: MemberId,
}

const EVIL: &str = "evil";

impl Stranger {
    async fn come(world: &World) -> Self {
        let provisioning = world.service.provisioning();
        let eve = new_member("eve", OWNER);
        let (org, eve) = provisioning
            .create_organization("Evil", EVIL, &eve)
            .await
            .unwrap();
        let workspace = provisioning
            .create_workspace(org.id, &new_workspace("lair"))
            .await;
        let member = provisioning
            .create_member(org.id, &new_member("minion", VIEWER))
            .await;
        let caller = Credential::Trusted {
            org: org.id,
            member: eve.id,
        };
        let wiki = knowledge_core::service::NewSource {
            name: "Wiki".to_owned(),
            kind: "confluence".to_owned(),
        };
        let source = world.service.create_source(&caller, &wiki).await.unwrap();
        let role = world
            .service
            .create_custom_role(&caller, EVIL, &new_role("henchman"))
            .await;
        Self {
            caller,
            workspace: workspace.unwrap().id,
            source: source.id,
            role: role.unwrap().id,
            member: member.unwrap().id,
        }
    }

    /// Attempts the operations on deliveries to an endpoint.
    async fn try_deliveries(
        &self,
        world: &World,
        endpoint: Endpoint,
        delivery: DeliveryId,
    ) -> [Result<(), Error>; 5] {
        let (service, caller, page) = (&world.service, &self.caller, PageRequest::default());
        let listed = service.list_deliveries(caller, endpoint, None, &page);
        [
            listed.await.map(drop),
            service.delivery(caller, endpoint, delivery).await.map(drop),
            service
                .redeliver(caller, endpoint, delivery)
                .await
                .map(drop),
            service.redeliver_dead(caller, endpoint).await.map(drop),
            service.ping(caller, endpoint).await.map(drop),
        ]
    }

    /// Attempts each operation with these identifiers; returns the errors as the caller sees them.
    async fn try_everything(&self, world: &World, ids: &Ids) -> Vec<String> {
        let mut answers = Vec::new();
        let mut note = |answer: Result<(), Error>| {
            let error = answer.expect_err("it is refused");
            assert!(!matches!(error, Error::Forbidden { .. }), "{error:?}");
            answers.push(format!("{} {error}", error.code()));
        };
        let (service, caller) = (&world.service, &self.caller);
        let batch = [new_memory("Note")];
        let (theirs, own) = (ids.workspace, self.workspace);

        note(service.source(caller, ids.source).await.map(drop));
        note(service.memory(caller, ids.memory).await.map(drop));
        let update = MemoryUpdate::default();
        note(
            service
                .update_memory(caller, ids.memory, &update, None)
                .await
                .map(drop),
        );
        note(service.delete_memory(caller, ids.memory).await);
        let page = PageRequest::default();
        let subscription = ids.subscription;
        let (any, recall) = (MemoryFilter::default(), ids.recall);
        note(
            service
                .list_citation_subscriptions(caller, recall, &page)
                .await
                .map(drop),
        );
        note(
            service
                .citation_subscription(caller, subscription)
                .await
                .map(drop),
        );
        note(
            service
                .delete_citation_subscription(caller, subscription)
                .await,
        );
        note(
            service
                .rotate_citation_subscription_secret(caller, subscription)
                .await
                .map(drop),
        );

        let endpoint = Endpoint::Subscription(subscription);
        let tried = self.try_deliveries(world, endpoint, ids.delivery).await;
        tried.into_iter().for_each(&mut note);

        // The identifier of their inbound webhook in the URL of the own organisation, with any
        // signature.
        let Credential::Trusted { org, .. } = caller else {
            panic!("the stranger is trusted");
        };
        let timestamp = (world.time.now().as_millis() / 1_000).to_string();
        let message = SignedMessage {
            id: b"msg_1",
            timestamp: timestamp.as_bytes(),
            signature: b"v1,AAAA",
            body: b"{}",
        };
        let verified = service.verify_message(*org, ids.inbound, &message);
        note(verified.await.map(drop));

        // Their workspace, and their resources in the own workspace.
        for place in [theirs, own] {
            let update = ConnectorUpdate::default();
            note(
                service
                    .connector(caller, place, ids.connector)
                    .await
                    .map(drop),
            );
            let updated = service.update_connector(caller, place, ids.connector, &update);
            note(updated.await.map(drop));
            note(service.delete_connector(caller, place, ids.connector).await);
            note(
                service
                    .report_sync(caller, place, ids.connector, &SUCCESS)
                    .await,
            );
            note(service.mcp_key(caller, place, ids.mcp_key).await.map(drop));
            let rotated = service.rotate_mcp_key(caller, place, ids.mcp_key, None);
            note(rotated.await.map(drop));
            note(service.revoke_mcp_key(caller, place, ids.mcp_key).await);
            note(service.chat(caller, place, ids.chat).await.map(drop));
            let (hook, update) = (ids.webhook, WebhookUpdate::default());
            note(service.webhook(caller, place, hook).await.map(drop));
            let updated = service.update_webhook(caller, place, hook, &update, None);
            note(updated.await.map(drop));
            note(service.delete_webhook(caller, place, hook).await);
            let rotated = service.rotate_webhook_secret(caller, place, hook);
            note(rotated.await.map(drop));
            let endpoint = Endpoint::Webhook(place, hook);
            let tried = self.try_deliveries(world, endpoint, ids.delivery).await;
            tried.into_iter().for_each(&mut note);
            let (hook, update) = (ids.inbound, InboundWebhookUpdate::default());
            note(service.inbound_webhook(caller, place, hook).await.map(drop));
            let updated = service.update_inbound_webhook(caller, place, hook, &update, None);
            note(updated.await.map(drop));
            note(service.delete_inbound_webhook(caller, place, hook).await);
            let rotated = service.rotate_inbound_webhook_secret(caller, place, hook);
            note(rotated.await.map(drop));
            let listed = service.list_chat_messages(caller, place, ids.chat, &page);
            note(listed.await.map(drop));
        }
        note(
            service
                .list_connectors(caller, theirs, &page)
                .await
                .map(drop),
        );
        note(service.list_mcp_keys(caller, theirs, &page).await.map(drop));
        note(service.list_chats(caller, theirs, &page).await.map(drop));
        note(service.list_webhooks(caller, theirs, &page).await.map(drop));
        let listed = service.list_inbound_webhooks(caller, theirs, &page);
        note(listed.await.map(drop));
        note(service.workspace(caller, theirs).await.map(drop));
        note(service.list_recalls(caller, theirs, &page).await.map(drop));
        note(service.recall(caller, recall).await.map(drop));
        note(service.audit_entry(caller, ids.audit).await.map(drop));
        note(
            service
                .list_memories(caller, theirs, &any, &page)
                .await
                .map(drop),
        );
        note(service.dashboard_summary(caller, theirs).await.map(drop));
        note(
            service
                .ingest(caller, theirs, self.source, &batch)
                .await
                .map(drop),
        );
        let new = create_memory("Note", self.source);
        note(service.create_memory(caller, theirs, &new).await.map(drop));
        note(
            service
                .create_connector(caller, theirs, &new_connector(HOUR))
                .await
                .map(drop),
        );
        note(
            service
                .pause_connector(caller, theirs, ids.connector, true)
                .await
                .map(drop),
        );
        note(
            service
                .create_mcp_key(caller, theirs, &new_mcp_key("org:acme"))
                .await
                .map(drop),
        );
        note(service.create_chat(caller, theirs, "Hi").await.map(drop));
        note(
            service
                .post_chat_message(caller, theirs, ids.chat, "Hi")
                .await
                .map(drop),
        );
        note(
            service
                .create_recall(caller, theirs, &new_recall(&[ids.memory]))
                .await
                .map(drop),
        );
        let webhook = NewWebhook {
            event_type: EventType::ChunkCreated,
            url: "https://example.com/".parse().unwrap(),
        };
        note(
            service
                .create_webhook(caller, theirs, &webhook)
                .await
                .map(drop),
        );
        let inbound = NewInboundWebhook {
            name: "Forms".to_owned(),
        };
        note(
            service
                .create_inbound_webhook(caller, theirs, &inbound)
                .await
                .map(drop),
        );

        // Their resources in the own workspace.
        note(
            service
                .ingest(caller, own, ids.source, &batch)
                .await
                .map(drop),
        );
        let new = create_memory("Note", ids.source);
        note(service.create_memory(caller, own, &new).await.map(drop));
        note(
            service
                .report_sync(caller, own, ids.connector, &SUCCESS)
                .await,
        );
        note(
            service
                .pause_connector(caller, own, ids.connector, true)
                .await
                .map(drop),
        );
        note(
            service
                .post_chat_message(caller, own, ids.chat, "Hi")
                .await
                .map(drop),
        );
        note(
            service
                .create_recall(caller, own, &new_recall(&[ids.memory]))
                .await
                .map(drop),
        );
        let subscription = NewCitationSubscription {
            recall_id: ids.recall,
            webhook_url: "https://example.com/".parse().unwrap(),
        };
        let subscribed = service
            .create_citation_subscription(caller, &subscription)
            .await;
        note(subscribed.map(drop));
        let change = MemoryChange {
            source_id: Some(ids.source),
            ..MemoryChange::default()
        };
        note(world.bulk(caller, &[ids.memory], change).await.map(drop));

        // Their organisation, and their roles and members in the own organisation.
        let (slug, update) = (&*ids.slug, CustomRoleUpdate::default());
        for org in [slug, EVIL] {
            let none = DeleteRole::default();
            note(service.custom_role(caller, org, ids.role).await.map(drop));
            let updated = service
                .update_custom_role(caller, org, ids.role, &update, None)
                .await;
            note(updated.map(drop));
            note(
                service
                    .delete_custom_role(caller, org, ids.role, &none)
                    .await,
            );
            let role = MemberAssignment::Organization(MEMBER);
            note(service.assign_role(caller, org, ids.member, role).await);
            note(service.member(caller, org, ids.member).await.map(drop));
            let none = MemberUpdate::default();
            let updated = service.update_member(caller, org, ids.member, &none, None);
            note(updated.await.map(drop));
            for place in [theirs, own] {
                let ended = service.end_workspace_role(caller, org, ids.member, place);
                note(ended.await);
            }
        }
        note(service.list_custom_roles(caller, slug).await.map(drop));
        note(service.list_members(caller, slug, &page).await.map(drop));
        let spy = new_member("spy", VIEWER);
        note(service.add_member(caller, slug, &spy).await.map(drop));
        note(
            service
                .create_custom_role(caller, slug, &new_role("spy"))
                .await
                .map(drop),
        );
        let local = NewCustomRole {
            workspace_id: Some(theirs),
            ..new_role("spy")
        };
        note(
            service
                .create_custom_role(caller, EVIL, &local)
                .await
                .map(drop),
        );
        let to = DeleteRole {
            reassign_to: Some(RoleRef::Custom(ids.role)),
        };
        note(
            service
                .delete_custom_role(caller, EVIL, self.role, &to)
                .await,
        );
        for assignment in [
            MemberAssignment::Organization(RoleRef::Custom(ids.role)),
            MemberAssignment::Workspace(own, Some(RoleRef::Custom(ids.role))),
            MemberAssignment::Workspace(theirs, Some(MEMBER)),
        ] {
            note(
                service
                    .assign_role(caller, EVIL, self.member, assignment)
                    .await,
            );
        }
        answers
    }
}

#[tokio::test]
async fn resources_of_another_org_appear_nonexistent_everywhere() {
    let world = World::new().await;
    let ids = Ids::of_acme(&world).await;
    let stranger = Stranger::come(&world).await;
    let of_acme = world.org.id.0.simple().to_string();
    let contents = async || {
        let mut contents = world.contents().await;
        contents.retain(|key: &Key, _| key.to_string().contains(&of_acme));
        contents
    };
    let before = contents().await;
    let with_theirs = stranger.try_everything(&world, &ids).await;
    assert_eq!(contents().await, before);
    let with_nothing = stranger.try_everything(&world, &Ids::of_nothing()).await;
    assert_eq!(with_theirs, with_nothing);
}
