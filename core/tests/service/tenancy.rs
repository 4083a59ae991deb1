//! Test of tenancy.
//!
//! References to another organisation get the response for non-existent resources, and change
//! nothing.

use knowledge_core::Error;
use knowledge_core::access::{Credential, RoleRef};
use knowledge_core::model::{
    CitationFilter, CustomRoleUpdate, DeliveryId, InboundWebhookUpdate, MemberId, MemoryChange,
    MemoryFilter, MemoryUpdate, NewInboundWebhook, RoleId, SourceId, WebhookUpdate, WorkspaceId,
};
use knowledge_core::service::{
    Caller, ConnectorUpdate, DeleteRole, Endpoint, MemberAssignment, MemberUpdate, PageRequest,
    SignedMessage,
};
use knowledge_core::store::Key;

use crate::make::{
    HOUR, MEMBER, SUCCESS, VIEWER, create_memory, new_chat, new_connector, new_mcp_key, new_member,
    new_memory, new_recall, new_role, new_subscription, new_webhook, new_workspace,
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
        let (by, page) = (world.by(&self.caller), PageRequest::default());
        let listed = by.list_deliveries(endpoint, None, &page).await;
        [
            listed.map(drop),
            by.get_delivery(endpoint, delivery).await.map(drop),
            by.redeliver(endpoint, delivery).await.map(drop),
            by.redeliver_dead(endpoint).await.map(drop),
            by.ping_endpoint(endpoint).await.map(drop),
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
        let caller = &self.caller;
        let batch = [new_memory("Note")];
        let (theirs, own) = (ids.workspace, self.workspace);
        let by = world.by(caller);
        let (there, here) = (by.within(theirs), by.within(own));

        note(by.get_source(ids.source).await.map(drop));
        note(by.get_memory(ids.memory).await.map(drop));
        let update = MemoryUpdate::default();
        note(by.update_memory(ids.memory, &update, None).await.map(drop));
        note(by.delete_memory(ids.memory).await);
        let page = PageRequest::default();
        let subscription = ids.subscription;
        let (any, recall) = (MemoryFilter::default(), ids.recall);
        note(by.list_subscriptions(recall, &page).await.map(drop));
        note(by.get_subscription(subscription).await.map(drop));
        note(by.delete_subscription(subscription).await);
        note(by.rotate_subscription(subscription).await.map(drop));

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
        note(
            world
                .service
                .inbound_webhooks()
                .verify_message(*org, ids.inbound, &message)
                .await
                .map(drop),
        );

        // Their workspace, and their resources in the own workspace.
        for place in [theirs, own] {
            let at = by.within(place);
            let update = ConnectorUpdate::default();
            note(at.get_connector(ids.connector).await.map(drop));
            note(at.update_connector(ids.connector, &update).await.map(drop));
            note(at.delete_connector(ids.connector).await);
            note(at.report_sync(ids.connector, &SUCCESS).await);
            note(at.get_mcp_key(ids.mcp_key).await.map(drop));
            note(at.rotate_mcp_key(ids.mcp_key, None).await.map(drop));
            note(at.revoke_mcp_key(ids.mcp_key).await);
            note(at.get_chat(ids.chat).await.map(drop));
            let (hook, update) = (ids.webhook, WebhookUpdate::default());
            note(at.get_webhook(hook).await.map(drop));
            note(at.update_webhook(hook, &update, None).await.map(drop));
            note(at.delete_webhook(hook).await);
            note(at.rotate_webhook(hook).await.map(drop));
            let endpoint = Endpoint::Webhook(place, hook);
            let tried = self.try_deliveries(world, endpoint, ids.delivery).await;
            tried.into_iter().for_each(&mut note);
            let (hook, update) = (ids.inbound, InboundWebhookUpdate::default());
            note(at.get_inbound(hook).await.map(drop));
            note(at.update_inbound(hook, &update, None).await.map(drop));
            note(at.delete_inbound(hook).await);
            note(at.rotate_inbound(hook).await.map(drop));
            note(at.list_messages(ids.chat, &page).await.map(drop));
        }
        note(there.list_connectors(&page).await.map(drop));
        note(there.list_mcp_keys(&page).await.map(drop));
        note(there.list_chats(&page).await.map(drop));
        note(there.list_webhooks(&page).await.map(drop));
        note(there.list_inbound(&page).await.map(drop));
        note(there.get_workspace().await.map(drop));
        note(
            there
                .list_recalls(&CitationFilter::default(), &page)
                .await
                .map(drop),
        );
        note(by.get_recall(recall).await.map(drop));
        note(by.get_audit_entry(ids.audit).await.map(drop));
        note(there.list_memories(&any, &page).await.map(drop));
        note(there.get_dashboard().await.map(drop));
        note(there.ingest_memories(self.source, &batch).await.map(drop));
        let new = create_memory("Note", self.source);
        note(there.create_memory(&new).await.map(drop));
        note(there.create_connector(&new_connector(HOUR)).await.map(drop));
        note(
            there
                .update_connector(ids.connector, &ConnectorUpdate::paused(true))
                .await
                .map(drop),
        );
        note(
            there
                .create_mcp_key(&new_mcp_key("org:acme"))
                .await
                .map(drop),
        );
        note(there.create_chat(&new_chat("Hi")).await.map(drop));
        note(there.post_message(ids.chat, "Hi").await.map(drop));
        note(
            there
                .create_recall(&new_recall(&[ids.memory]))
                .await
                .map(drop),
        );
        let webhook = new_webhook("https://example.com/");
        note(there.create_webhook(&webhook).await.map(drop));
        let inbound = NewInboundWebhook::builder().name("Forms").build();
        note(there.create_inbound(&inbound).await.map(drop));

        // Their resources in the own workspace.
        note(here.ingest_memories(ids.source, &batch).await.map(drop));
        let new = create_memory("Note", ids.source);
        note(here.create_memory(&new).await.map(drop));
        note(here.report_sync(ids.connector, &SUCCESS).await);
        note(
            here.update_connector(ids.connector, &ConnectorUpdate::paused(true))
                .await
                .map(drop),
        );
        note(here.post_message(ids.chat, "Hi").await.map(drop));
        note(
            here.create_recall(&new_recall(&[ids.memory]))
                .await
                .map(drop),
        );
        let subscription = new_subscription(ids.recall, "https://example.com/");
        note(by.create_subscription(&subscription).await.map(drop));
        let change = MemoryChange::builder().source_id(ids.source).build();
        note(world.bulk(caller, &[ids.memory], change).await.map(drop));

        // Their organisation, and their roles and members in the own organisation.
        let (slug, update) = (&*ids.slug, CustomRoleUpdate::default());
        let (of_theirs, of_own) = (by.in_org(slug), by.in_org(EVIL));
        for of in [of_theirs, of_own] {
            let none = DeleteRole::default();
            note(of.get_role(ids.role).await.map(drop));
            note(of.update_role(ids.role, &update, None).await.map(drop));
            note(of.delete_role(ids.role, &none).await);
            let role = MemberAssignment::Organization(MEMBER);
            note(of.assign_role(ids.member, role).await);
            note(of.get_member(ids.member).await.map(drop));
            let none = MemberUpdate::default();
            note(of.update_member(ids.member, &none, None).await.map(drop));
            for place in [theirs, own] {
                note(of.end_workspace_role(ids.member, place).await);
            }
        }
        note(of_theirs.list_roles().await.map(drop));
        note(of_theirs.list_members(&page).await.map(drop));
        let spy = new_member("spy", VIEWER);
        note(of_theirs.add_member(&spy).await.map(drop));
        note(of_theirs.create_role(&new_role("spy")).await.map(drop));
        let local = with(new_role("spy"), |new| new.workspace_id = Some(theirs));
        note(of_own.create_role(&local).await.map(drop));
        let to = DeleteRole::builder()
            .reassign_to(RoleRef::Custom(ids.role))
            .build();
        note(of_own.delete_role(self.role, &to).await);
        for assignment in [
            MemberAssignment::Organization(RoleRef::Custom(ids.role)),
            MemberAssignment::Workspace(own, Some(RoleRef::Custom(ids.role))),
            MemberAssignment::Workspace(theirs, Some(MEMBER)),
        ] {
            note(of_own.assign_role(self.member, assignment).await);
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
