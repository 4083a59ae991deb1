//! Tests of MCP keys: list, rotation and revocation.

use knowledge_core::Error;
use knowledge_core::access::{ActionSet, BaseRole, CredentialKind, Secret};
use knowledge_core::internals::keys;
use knowledge_core::model::{CredentialId, McpKeySummary};
use knowledge_core::service::{AuditAction, Caller, IssuedMcpKey, PageRequest};

use crate::audit::entry_of;
use crate::make::{ADMIN, DAY, HOUR, MEMBER, code, custom, new_chat, problem};
use crate::world::World;

async fn rotate(world: &World, caller: &Caller, key: CredentialId) -> Result<IssuedMcpKey, Error> {
    world.by(caller).rotate_mcp_key(key, None).await
}

async fn list(world: &World) -> Vec<McpKeySummary> {
    let page = PageRequest::default();
    world.list_mcp_keys(&page).await.unwrap().data
}

/// Returns true if the key is accepted.
async fn is_taken(world: &World, secret: &Secret) -> bool {
    let key = Caller::from(secret.clone());
    let seen = world.service.authenticate(&key, CredentialKind::Bearer);
    seen.await.is_ok()
}

async fn assert_whole(world: &World) {
    let differences = world.service.verify().await.unwrap().differences;
    assert!(differences.is_empty(), "{differences:?}");
}

#[tokio::test]
async fn mcp_key_list_shows_keys_and_uses_until_expiry() {
    let world = World::new().await;
    let (first, second) = (
        world.mcp_key_for("org:acme").await,
        world.mcp_key_for("org:acme").await,
    );
    world.time.pass(HOUR);
    let caller = first.secret.clone().unwrap().into();
    world.service.note_use(&caller).await;
    let shown = list(&world).await;
    assert_eq!(shown.len(), 2);
    for key in shown {
        let used = (key.id == first.summary.id).then(|| world.time.now());
        assert_eq!(key.last_used_at, used);
        assert_eq!(world.get_mcp_key(key.id).await.unwrap(), key);
    }
    world.time.pass(97 * DAY);
    assert_eq!(list(&world).await, []);
    let read = world.get_mcp_key(second.summary.id).await;
    assert_eq!(code(read), "not_found");
}

#[tokio::test]
async fn rotated_mcp_key_keeps_name_and_replaces_secret_at_once() {
    let world = World::new().await;
    let old = world.mcp_key_for("org:acme").await;
    world.time.pass(DAY);
    let new = rotate(&world, &world.owner, old.summary.id).await.unwrap();
    assert_eq!(new.summary.id, old.summary.id);
    assert_ne!(new.secret, old.secret);
    assert_eq!(
        new.summary.rotates_at,
        Some(world.time.now().plus(90 * DAY))
    );
    assert!(!is_taken(&world, old.secret.as_ref().unwrap()).await);
    assert!(is_taken(&world, new.secret.as_ref().unwrap()).await);
    assert_eq!(list(&world).await, std::slice::from_ref(&new.summary));
    let counter = keys::mcp_key_count(world.org.id, world.workspace.id);
    assert_eq!(world.counter(counter.clone()).await, 1);
    assert_whole(&world).await;
    let entry = entry_of(&world, AuditAction::McpKeyRotate).await;
    assert_eq!(entry.resource.id, new.summary.id.0);

    // The scheduled expiry of the old secret does not affect the new one.
    world.time.pass(96 * DAY + HOUR);
    world.maintain().await;
    assert!(is_taken(&world, new.secret.as_ref().unwrap()).await);
    assert_eq!(world.counter(counter.clone()).await, 1);
    assert_whole(&world).await;
    world.time.pass(DAY);
    world.maintain().await;
    assert!(!is_taken(&world, new.secret.as_ref().unwrap()).await);
    assert_eq!(world.counter(counter).await, 0);
    assert_whole(&world).await;
}

#[tokio::test]
async fn mcp_key_rotation_may_change_interval() {
    let world = World::new().await;
    let key = world.mcp_key_for("org:acme").await.summary.id;
    let rotate = async |rotation| world.rotate_mcp_key(key, rotation).await;
    let weekly = rotate(Some(7 * DAY)).await.unwrap().summary;
    assert_eq!(weekly.rotates_at, Some(world.time.now().plus(7 * DAY)));
    let again = rotate(None).await.unwrap().summary;
    assert_eq!(again.rotates_at, weekly.rotates_at);
    assert_eq!(
        problem(rotate(Some(400 * DAY)).await),
        "rotationSeconds invalid_value"
    );
}

/// A rotation would otherwise reveal the secret of another member's key.
#[tokio::test]
async fn mcp_key_rotation_transfers_responsibility() {
    let world = World::new().await;
    let key = world.mcp_key_for("org:acme").await;
    let id = world.member(ADMIN).await;
    let admin = world.trusted(id);
    let rotated = rotate(&world, &admin, key.summary.id).await;
    let caller = Caller::from(rotated.unwrap().secret.unwrap());
    let principal = world.service.authenticate(&caller, CredentialKind::Bearer);
    assert_eq!(principal.await.unwrap().member_id(), id);

    let private = world.mcp_key_for("user:ada").await.summary.id;
    let refused = rotate(&world, &admin, private).await;
    assert_eq!(
        code(refused),
        "forbidden",
        "the audience is not the administrator's"
    );
    // Revoking only takes access away, so it requires no audience, but the actions of the key.
    world.by(&admin).revoke_mcp_key(private).await.unwrap();

    let keeper = world
        .caller_who_may(ActionSet::of(&[
            knowledge_core::access::Action::McpKeyManage,
        ]))
        .await;
    let refused = rotate(&world, &keeper, key.summary.id).await;
    assert_eq!(code(refused), "forbidden", "the key may do more");
    let revoked = world.by(&keeper).revoke_mcp_key(key.summary.id).await;
    assert_eq!(code(revoked), "forbidden", "the key may do more");
    // Once the administrator may do nothing, neither may the key.
    let idle = world.role(BaseRole::Viewer, ActionSet::EMPTY, ActionSet::ALL);
    world.assign(id, custom(idle.await.id)).await.unwrap();
    let mut scoped = rotate(&world, &keeper, key.summary.id).await.unwrap();
    scoped.summary.name.clear();
    let caller = Caller::from(scoped.secret.unwrap());
    let chat = world.by(&caller).create_chat(&new_chat("Hi")).await;
    assert_eq!(
        code(chat),
        "forbidden",
        "the key may do what its keeper may"
    );
}

#[tokio::test]
async fn revoked_mcp_key_is_rejected_and_releases_its_quota() {
    let world = World::with(|options| options.limits.mcp_keys_per_workspace_max = 1).await;
    let key = world.mcp_key_for("org:acme").await;
    let revoke = async |caller: &Caller| world.by(caller).revoke_mcp_key(key.summary.id).await;
    let member = world.caller(MEMBER).await;
    assert_eq!(code(revoke(&member).await), "forbidden");
    revoke(&world.owner).await.unwrap();
    assert!(!is_taken(&world, key.secret.as_ref().unwrap()).await);
    assert_eq!(code(revoke(&world.owner).await), "not_found");
    let rotated = rotate(&world, &world.owner, key.summary.id).await;
    assert_eq!(code(rotated), "not_found");
    let entry = entry_of(&world, AuditAction::McpKeyRevoke).await;
    assert_eq!(entry.after, None);
    assert_whole(&world).await;
    world.mcp_key_for("org:acme").await;
    world.time.pass(98 * DAY);
    world.maintain().await;
    assert_whole(&world).await;
}
