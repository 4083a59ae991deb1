//! Test of tenancy.
//!
//! References to another organisation get the response for non-existent resources, and change
//! nothing.

use knowledge_core::Error;
use knowledge_core::access::{Credential, RoleRef};
use knowledge_core::model::{
    CustomRoleUpdate, DeliveryId, EventType, InboundWebhookUpdate, MemberId, MemoryChange,
    MemoryFilter, MemoryUpdate, NewCitationSubscription, NewInboundWebhook, NewWebhook, RoleId,
    SourceId, WebhookUpdate, WorkspaceId,
};
use knowledge_core::service::{
    Caller, ConnectorUpdate, DeleteRole, Endpoint, MemberAssignment, MemberUpdate, PageRequest,
    SignedMessage,
};
use knowledge_core::store::Key;

use crate::make::{
    HOUR, MEMBER, SUCCESS, VIEWER, create_memory, new_chat, new_connector, new_mcp_key, new_member,
    new_memory, new_recall, new_role, new_workspace,
};
use crate::tenancy_ids::Ids;
use crate::world::World;
use knowledge_testing::requests::with;

/// The owner of another organisation, and its own resources.
struct Stranger {
    caller: Caller,
    workspace: WorkspaceId,
    source: SourceId,
    role: RoleId,
    member: MemberId,
}

const EVIL: &str = "evil";

impl Stranger {
    async fn come(world: &World) -> Self {
        let evil = world.stranger(EVIL).await;
        let workspace = evil.workspace(&new_workspace("lair")).await;
        let member = evil.member(&new_member("minion", VIEWER)).await;
        let source = evil.source("Wiki", "confluence").await;
        let role = evil.role(&new_role("henchman")).await;
        Self {
            caller: evil.owner,
            workspace: workspace.unwrap().id,
            source: source.unwrap(),
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
            service
                .get_delivery(caller, endpoint, delivery)
                .await
                .map(drop),
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

        note(service.get_source(caller, ids.source).await.map(drop));
        note(service.get_memory(caller, ids.memory).await.map(drop));
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
                .get_citation_subscription(caller, subscription)
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
        let Credential::Trusted { org, .. } = caller.credential() else {
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
                    .get_connector(caller, place, ids.connector)
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
            note(
                service
                    .get_mcp_key(caller, place, ids.mcp_key)
                    .await
                    .map(drop),
            );
            let rotated = service.rotate_mcp_key(caller, place, ids.mcp_key, None);
            note(rotated.await.map(drop));
            note(service.revoke_mcp_key(caller, place, ids.mcp_key).await);
            note(service.get_chat(caller, place, ids.chat).await.map(drop));
            let (hook, update) = (ids.webhook, WebhookUpdate::default());
            note(service.get_webhook(caller, place, hook).await.map(drop));
            let updated = service.update_webhook(caller, place, hook, &update, None);
            note(updated.await.map(drop));
            note(service.delete_webhook(caller, place, hook).await);
            let rotated = service.rotate_webhook_secret(caller, place, hook);
            note(rotated.await.map(drop));
            let endpoint = Endpoint::Webhook(place, hook);
            let tried = self.try_deliveries(world, endpoint, ids.delivery).await;
            tried.into_iter().for_each(&mut note);
            let (hook, update) = (ids.inbound, InboundWebhookUpdate::default());
            note(
                service
                    .get_inbound_webhook(caller, place, hook)
                    .await
                    .map(drop),
            );
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
        note(service.get_workspace(caller, theirs).await.map(drop));
        note(service.list_recalls(caller, theirs, &page).await.map(drop));
        note(service.get_recall(caller, recall).await.map(drop));
        note(service.get_audit_entry(caller, ids.audit).await.map(drop));
        note(
            service
                .list_memories(caller, theirs, &any, &page)
                .await
                .map(drop),
        );
        note(
            service
                .get_dashboard_summary(caller, theirs)
                .await
                .map(drop),
        );
        note(
            service
                .ingest_memories(caller, theirs, self.source, &batch)
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
                .update_connector(
                    caller,
                    theirs,
                    ids.connector,
                    &ConnectorUpdate::paused(true),
                )
                .await
                .map(drop),
        );
        note(
            service
                .create_mcp_key(caller, theirs, &new_mcp_key("org:acme"))
                .await
                .map(drop),
        );
        note(
            service
                .create_chat(caller, theirs, &new_chat("Hi"))
                .await
                .map(drop),
        );
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
        let webhook = NewWebhook::builder()
            .event_type(EventType::ChunkCreated)
            .url("https://example.com/".parse().unwrap())
            .build();
        note(
            service
                .create_webhook(caller, theirs, &webhook)
                .await
                .map(drop),
        );
        let inbound = NewInboundWebhook::builder().name("Forms").build();
        note(
            service
                .create_inbound_webhook(caller, theirs, &inbound)
                .await
                .map(drop),
        );

        // Their resources in the own workspace.
        note(
            service
                .ingest_memories(caller, own, ids.source, &batch)
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
                .update_connector(caller, own, ids.connector, &ConnectorUpdate::paused(true))
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
        let subscription = NewCitationSubscription::builder()
            .recall_id(ids.recall)
            .webhook_url("https://example.com/".parse().unwrap())
            .build();
        let subscribed = service
            .create_citation_subscription(caller, &subscription)
            .await;
        note(subscribed.map(drop));
        let change = MemoryChange::builder().source_id(ids.source).build();
        note(world.bulk(caller, &[ids.memory], change).await.map(drop));

        // Their organisation, and their roles and members in the own organisation.
        let (slug, update) = (&*ids.slug, CustomRoleUpdate::default());
        for org in [slug, EVIL] {
            let none = DeleteRole::default();
            note(
                service
                    .get_custom_role(caller, org, ids.role)
                    .await
                    .map(drop),
            );
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
            note(service.get_member(caller, org, ids.member).await.map(drop));
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
        let local = with(new_role("spy"), |new| new.workspace_id = Some(theirs));
        note(
            service
                .create_custom_role(caller, EVIL, &local)
                .await
                .map(drop),
        );
        let to = DeleteRole::builder()
            .reassign_to(RoleRef::Custom(ids.role))
            .build();
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
