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
        let listed = service.deliveries().list(caller, endpoint, None, &page);
        [
            listed.await.map(drop),
            service
                .deliveries()
                .get(caller, endpoint, delivery)
                .await
                .map(drop),
            service
                .deliveries()
                .redeliver(caller, endpoint, delivery)
                .await
                .map(drop),
            service
                .deliveries()
                .redeliver_dead(caller, endpoint)
                .await
                .map(drop),
            service.deliveries().ping(caller, endpoint).await.map(drop),
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

        note(service.sources().get(caller, ids.source).await.map(drop));
        note(service.memories().get(caller, ids.memory).await.map(drop));
        let update = MemoryUpdate::default();
        note(
            service
                .memories()
                .update(caller, ids.memory, &update, None)
                .await
                .map(drop),
        );
        note(service.memories().delete(caller, ids.memory).await);
        let page = PageRequest::default();
        let subscription = ids.subscription;
        let (any, recall) = (MemoryFilter::default(), ids.recall);
        note(
            service
                .citation_subscriptions()
                .list(caller, recall, &page)
                .await
                .map(drop),
        );
        note(
            service
                .citation_subscriptions()
                .get(caller, subscription)
                .await
                .map(drop),
        );
        note(
            service
                .citation_subscriptions()
                .delete(caller, subscription)
                .await,
        );
        note(
            service
                .citation_subscriptions()
                .rotate_secret(caller, subscription)
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
        let verified = service
            .inbound_webhooks()
            .verify_message(*org, ids.inbound, &message);
        note(verified.await.map(drop));

        // Their workspace, and their resources in the own workspace.
        for place in [theirs, own] {
            let update = ConnectorUpdate::default();
            note(
                service
                    .connectors()
                    .get(caller, place, ids.connector)
                    .await
                    .map(drop),
            );
            let updated = service
                .connectors()
                .update(caller, place, ids.connector, &update);
            note(updated.await.map(drop));
            note(
                service
                    .connectors()
                    .delete(caller, place, ids.connector)
                    .await,
            );
            note(
                service
                    .connectors()
                    .report_sync(caller, place, ids.connector, &SUCCESS)
                    .await,
            );
            note(
                service
                    .mcp_keys()
                    .get(caller, place, ids.mcp_key)
                    .await
                    .map(drop),
            );
            let rotated = service.mcp_keys().rotate(caller, place, ids.mcp_key, None);
            note(rotated.await.map(drop));
            note(service.mcp_keys().revoke(caller, place, ids.mcp_key).await);
            note(service.chats().get(caller, place, ids.chat).await.map(drop));
            let (hook, update) = (ids.webhook, WebhookUpdate::default());
            note(service.webhooks().get(caller, place, hook).await.map(drop));
            let updated = service
                .webhooks()
                .update(caller, place, hook, &update, None);
            note(updated.await.map(drop));
            note(service.webhooks().delete(caller, place, hook).await);
            let rotated = service.webhooks().rotate_secret(caller, place, hook);
            note(rotated.await.map(drop));
            let endpoint = Endpoint::Webhook(place, hook);
            let tried = self.try_deliveries(world, endpoint, ids.delivery).await;
            tried.into_iter().for_each(&mut note);
            let (hook, update) = (ids.inbound, InboundWebhookUpdate::default());
            note(
                service
                    .inbound_webhooks()
                    .get(caller, place, hook)
                    .await
                    .map(drop),
            );
            let updated = service
                .inbound_webhooks()
                .update(caller, place, hook, &update, None);
            note(updated.await.map(drop));
            note(service.inbound_webhooks().delete(caller, place, hook).await);
            let rotated = service
                .inbound_webhooks()
                .rotate_secret(caller, place, hook);
            note(rotated.await.map(drop));
            let listed = service
                .chats()
                .list_messages(caller, place, ids.chat, &page);
            note(listed.await.map(drop));
        }
        note(
            service
                .connectors()
                .list(caller, theirs, &page)
                .await
                .map(drop),
        );
        note(
            service
                .mcp_keys()
                .list(caller, theirs, &page)
                .await
                .map(drop),
        );
        note(service.chats().list(caller, theirs, &page).await.map(drop));
        note(
            service
                .webhooks()
                .list(caller, theirs, &page)
                .await
                .map(drop),
        );
        let listed = service.inbound_webhooks().list(caller, theirs, &page);
        note(listed.await.map(drop));
        note(service.workspaces().get(caller, theirs).await.map(drop));
        note(
            service
                .recalls()
                .list(caller, theirs, &page)
                .await
                .map(drop),
        );
        note(service.recalls().get(caller, recall).await.map(drop));
        note(service.audit_log().get(caller, ids.audit).await.map(drop));
        note(
            service
                .memories()
                .list(caller, theirs, &any, &page)
                .await
                .map(drop),
        );
        note(
            service
                .workspaces()
                .get_dashboard_summary(caller, theirs)
                .await
                .map(drop),
        );
        note(
            service
                .memories()
                .ingest(caller, theirs, self.source, &batch)
                .await
                .map(drop),
        );
        let new = create_memory("Note", self.source);
        note(
            service
                .memories()
                .create(caller, theirs, &new)
                .await
                .map(drop),
        );
        note(
            service
                .connectors()
                .create(caller, theirs, &new_connector(HOUR))
                .await
                .map(drop),
        );
        note(
            service
                .connectors()
                .update(
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
                .mcp_keys()
                .create(caller, theirs, &new_mcp_key("org:acme"))
                .await
                .map(drop),
        );
        note(
            service
                .chats()
                .create(caller, theirs, &new_chat("Hi"))
                .await
                .map(drop),
        );
        note(
            service
                .chats()
                .post_message(caller, theirs, ids.chat, "Hi")
                .await
                .map(drop),
        );
        note(
            service
                .recalls()
                .create(caller, theirs, &new_recall(&[ids.memory]))
                .await
                .map(drop),
        );
        let webhook = NewWebhook::builder()
            .event_type(EventType::ChunkCreated)
            .url("https://example.com/".parse().unwrap())
            .build();
        note(
            service
                .webhooks()
                .create(caller, theirs, &webhook)
                .await
                .map(drop),
        );
        let inbound = NewInboundWebhook::builder().name("Forms").build();
        note(
            service
                .inbound_webhooks()
                .create(caller, theirs, &inbound)
                .await
                .map(drop),
        );

        // Their resources in the own workspace.
        note(
            service
                .memories()
                .ingest(caller, own, ids.source, &batch)
                .await
                .map(drop),
        );
        let new = create_memory("Note", ids.source);
        note(service.memories().create(caller, own, &new).await.map(drop));
        note(
            service
                .connectors()
                .report_sync(caller, own, ids.connector, &SUCCESS)
                .await,
        );
        note(
            service
                .connectors()
                .update(caller, own, ids.connector, &ConnectorUpdate::paused(true))
                .await
                .map(drop),
        );
        note(
            service
                .chats()
                .post_message(caller, own, ids.chat, "Hi")
                .await
                .map(drop),
        );
        note(
            service
                .recalls()
                .create(caller, own, &new_recall(&[ids.memory]))
                .await
                .map(drop),
        );
        let subscription = NewCitationSubscription::builder()
            .recall_id(ids.recall)
            .webhook_url("https://example.com/".parse().unwrap())
            .build();
        let subscribed = service
            .citation_subscriptions()
            .create(caller, &subscription)
            .await;
        note(subscribed.map(drop));
        let change = MemoryChange::builder().source_id(ids.source).build();
        note(world.bulk(caller, &[ids.memory], change).await.map(drop));

        // Their organisation, and their roles and members in the own organisation.
        let (slug, update) = (&*ids.slug, CustomRoleUpdate::default());
        for org in [slug, EVIL] {
            let none = DeleteRole::default();
            note(service.roles().get(caller, org, ids.role).await.map(drop));
            let updated = service
                .roles()
                .update(caller, org, ids.role, &update, None)
                .await;
            note(updated.map(drop));
            note(service.roles().delete(caller, org, ids.role, &none).await);
            let role = MemberAssignment::Organization(MEMBER);
            note(
                service
                    .members()
                    .assign_role(caller, org, ids.member, role)
                    .await,
            );
            note(
                service
                    .members()
                    .get(caller, org, ids.member)
                    .await
                    .map(drop),
            );
            let none = MemberUpdate::default();
            let updated = service
                .members()
                .update(caller, org, ids.member, &none, None);
            note(updated.await.map(drop));
            for place in [theirs, own] {
                let ended = service
                    .members()
                    .end_workspace_role(caller, org, ids.member, place);
                note(ended.await);
            }
        }
        note(service.roles().list(caller, slug).await.map(drop));
        note(service.members().list(caller, slug, &page).await.map(drop));
        let spy = new_member("spy", VIEWER);
        note(service.members().add(caller, slug, &spy).await.map(drop));
        note(
            service
                .roles()
                .create(caller, slug, &new_role("spy"))
                .await
                .map(drop),
        );
        let local = with(new_role("spy"), |new| new.workspace_id = Some(theirs));
        note(service.roles().create(caller, EVIL, &local).await.map(drop));
        let to = DeleteRole::builder()
            .reassign_to(RoleRef::Custom(ids.role))
            .build();
        note(service.roles().delete(caller, EVIL, self.role, &to).await);
        for assignment in [
            MemberAssignment::Organization(RoleRef::Custom(ids.role)),
            MemberAssignment::Workspace(own, Some(RoleRef::Custom(ids.role))),
            MemberAssignment::Workspace(theirs, Some(MEMBER)),
        ] {
            note(
                service
                    .members()
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
