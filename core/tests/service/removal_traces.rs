//! Tests of what the removal of a workspace leaves, and of how many run at a time.

use knowledge_core::access::TokenScope;
use knowledge_core::limits::REMOVALS_RUNNING_MAX;
use knowledge_core::service::DifferenceCode;
use knowledge_core::store::{Commit, Key};

use crate::make::{HOUR, code};
use crate::world::World;

/// Returns the keys of the recorded uses of credentials.
async fn uses(world: &World) -> Vec<Key> {
    let uses = world.family("credential_use").await;
    uses.into_iter().map(|(key, _)| key).collect()
}

#[tokio::test]
async fn use_of_an_mcp_key_ends_with_its_workspace() {
    let world = World::new().await;
    let key = world.mcp_key_for("org:acme").await;
    world.service.note_use(&key.secret.unwrap().into()).await;
    let recorded = uses(&world).await;
    assert_eq!(recorded.len(), 1);
    let value = world.contents().await[&recorded[0]].clone();
    let removed = world.service.provisioning();
    let removed = removed.delete_workspace(world.org.id, world.workspace.id);
    removed.await.unwrap();
    world.maintain().await;
    assert_eq!(uses(&world).await, []);
    world.assert_whole().await;

    // Verification names one that is left.
    let commit = Commit::builder().put(recorded[0].clone(), value);
    let store = world.faults.inner();
    store.commit(commit.build().unwrap()).await.unwrap();
    let found = world.service.verify().await.unwrap().differences;
    let found: Vec<_> = found
        .iter()
        .map(|found| (found.code, &found.because))
        .collect();
    assert_eq!(
        found,
        [(DifferenceCode::Missing, &Some(recorded[0].clone()))]
    );
}

#[tokio::test]
async fn use_of_a_token_expires_with_it() {
    let world = World::new().await;
    let token = world.token(world.owner_id, TokenScope::default()).await;
    world.service.note_use(&token.secret.into()).await;
    assert_eq!(uses(&world).await.len(), 1);
    world.time.pass(HOUR);
    world.maintain().await;
    assert_eq!(uses(&world).await, []);
    world.assert_whole().await;
}

/// Removed workspaces that wait for maintenance are bounded, as every operation reads their names.
#[tokio::test]
async fn number_of_removals_in_progress_is_limited() {
    let world = World::new().await;
    let (org, provisioning) = (world.org.id, world.service.provisioning());
    for number in 0..REMOVALS_RUNNING_MAX {
        let workspace = world.workspace(&format!("place-{number}")).await;
        provisioning.delete_workspace(org, workspace).await.unwrap();
    }
    let further = provisioning.delete_workspace(org, world.workspace.id);
    assert_eq!(code(further.await), "conflict");
    world.assert_whole().await;
    world.maintain().await;
    let further = provisioning.delete_workspace(org, world.workspace.id);
    further.await.unwrap();
    world.maintain().await;
    world.assert_whole().await;
}
