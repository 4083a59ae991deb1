//! Tests of what scoped tokens create: it depends on the token, as that is now.
//!
//! `ownership` tests what belongs to members.

use knowledge_core::access::{Action, TokenScope};
use knowledge_core::model::{MemberId, ReviewStatus};
use knowledge_core::service::{AuditAction, Caller, Issued, MemberUpdate};

use crate::audit::entry_of;
use crate::inbound_sender::Sender;
use crate::make::{ADMIN, HOUR, actions, code, new_mcp_key, new_memory, new_webhook, review};
use crate::world::World;

/// Issues a token of a member for these actions, for an hour.
pub(crate) async fn token(world: &World, member: MemberId, allowed: &[Action]) -> Issued {
    let scope = TokenScope {
        actions: Some(actions(allowed)),
        ..TokenScope::default()
    };
    world.token(member, scope).await
}

async fn revoke(world: &World, issued: &Issued) {
    let operator = world.service.provisioning();
    let revoked = operator.revoke(world.org.id, issued.record.id);
    revoked.await.unwrap();
}

fn secret(issued: &Issued) -> Caller {
    issued.secret.clone().into()
}

async fn post(world: &World, sender: &Sender, id: &str) -> Result<(), knowledge_core::Error> {
    sender.post(world, id, &[new_memory(id)]).await
}

#[tokio::test]
async fn inbound_webhook_stays_in_scope_of_its_credential() {
    let world = World::new().await;
    let managing = [Action::InboundWebhookManage];
    let narrow = token(&world, world.owner_id, &managing).await;
    let sender = Sender::registered_by(&world, &secret(&narrow)).await;
    assert_eq!(code(post(&world, &sender, "m1").await), "forbidden");

    let both = [Action::InboundWebhookManage, Action::MemoryCreate];
    let wide = token(&world, world.owner_id, &both).await;
    let mut sender = Sender::registered_by(&world, &secret(&wide)).await;
    post(&world, &sender, "m2").await.unwrap();
    let entry = entry_of(&world, AuditAction::MemoryIngest).await;
    assert_eq!(entry.credential_id, Some(wide.record.id));

    revoke(&world, &wide).await;
    assert_eq!(code(post(&world, &sender, "m3").await), "forbidden");
    sender.rotate(&world, &world.owner).await;
    post(&world, &sender, "m4").await.unwrap();
    world.assert_whole().await;
}

#[tokio::test]
async fn inbound_webhook_ends_when_its_credential_expires() {
    let world = World::new().await;
    let both = [Action::InboundWebhookManage, Action::MemoryCreate];
    let issued = token(&world, world.owner_id, &both).await;
    let sender = Sender::registered_by(&world, &secret(&issued)).await;
    post(&world, &sender, "m1").await.unwrap();
    world.time.pass(HOUR);
    assert_eq!(code(post(&world, &sender, "m2").await), "forbidden");
    world.maintain().await;
    assert_eq!(code(post(&world, &sender, "m3").await), "forbidden");
    world.assert_whole().await;
}

#[tokio::test]
async fn mcp_key_ends_with_its_credential_unless_rotated() {
    let world = World::new().await;
    let memory = world.approved_memories(1).await[0];
    let needed = [Action::McpKeyManage, Action::MemoryRead];
    let issued = token(&world, world.owner_id, &needed).await;
    let (by, new) = (secret(&issued), new_mcp_key("workspace:research"));
    let created = world.by(&by).create_mcp_key(&new).await.unwrap();
    let expiry = Some(issued.record.expires_at);
    assert_eq!(created.summary.rotates_at, expiry);
    let key = Caller::from(created.secret.unwrap());
    world.by(&key).get_memory(memory).await.unwrap();
    revoke(&world, &issued).await;
    let found = world.by(&key).get_memory(memory).await;
    assert_eq!(code(found), "unauthenticated");

    let id = created.summary.id;
    let rotated = world.rotate_mcp_key(id, None);
    let key = Caller::from(rotated.await.unwrap().secret.unwrap());
    world.time.pass(HOUR);
    world.by(&key).get_memory(memory).await.unwrap();
    world.assert_whole().await;
}

#[tokio::test]
async fn mcp_key_loses_team_that_its_member_left() {
    let world = World::new().await;
    let admin = world.member(ADMIN).await;
    let teams = async |teams: &[&str]| {
        let mut update = MemberUpdate::default();
        update.teams = Some(teams.iter().map(ToString::to_string).collect());
        world.update_member(admin, &update, None).await.unwrap();
    };
    teams(&["legal"]).await;
    let mut new = new_memory("Secret");
    new.audience_tag = Some("team:legal".parse().unwrap());
    let workspace = world.workspace.id;
    let memory = world.ingest(workspace, world.source, &[new]).await.unwrap()[0];
    let (caller, new) = (world.trusted(admin), new_mcp_key("team:legal"));
    let approved = review(ReviewStatus::Approved);
    let approved = world.bulk(&caller, &[memory], approved).await.unwrap();
    assert_eq!(approved.summary.succeeded, 1);
    let key = world.by(&caller).create_mcp_key(&new);
    let key = Caller::from(key.await.unwrap().secret.unwrap());
    world.by(&key).get_memory(memory).await.unwrap();
    teams(&[]).await;
    assert_eq!(code(world.by(&key).get_memory(memory).await), "not_found");
}

/// Returns the number of deliveries that a new memory causes.
async fn delivered(world: &World) -> usize {
    world.memories(1).await;
    world
        .service
        .dispatcher()
        .fan_out(world.time.now())
        .await
        .unwrap();
    world.claim().await.deliveries.len()
}

pub(crate) async fn webhook(world: &World, by: &Caller) -> knowledge_core::model::WebhookId {
    let new = new_webhook("https://example.com/hook");
    let id = world.by(by).create_webhook(&new).await.unwrap().id;
    world.confirm(id.into()).await;
    id
}

#[tokio::test]
async fn webhook_ends_with_its_credential_unless_rotated() {
    let world = World::new().await;
    let issued = token(&world, world.owner_id, &[Action::WebhookManage]).await;
    let id = webhook(&world, &secret(&issued)).await;
    assert_eq!(delivered(&world).await, 1);
    // A delivery that is already queued is not sent either.
    world.memories(1).await;
    world
        .service
        .dispatcher()
        .fan_out(world.time.now())
        .await
        .unwrap();
    revoke(&world, &issued).await;
    assert_eq!(world.claim().await.deliveries.len(), 0);
    assert_eq!(delivered(&world).await, 0);
    world.rotate_webhook(id).await.unwrap();
    assert_eq!(delivered(&world).await, 1);
    world.assert_whole().await;
}

#[tokio::test]
async fn webhook_of_removed_admin_receives_nothing() {
    let world = World::new().await;
    let admin = world.member(ADMIN).await;
    webhook(&world, &world.trusted(admin)).await;
    assert_eq!(delivered(&world).await, 1);
    world.remove_member(admin).await.unwrap();
    assert_eq!(delivered(&world).await, 0);
    world.assert_whole().await;
}
