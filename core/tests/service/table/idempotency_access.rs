//! Tests of what a replay shows, and of the permissions that it requires.

use knowledge_core::access::{Action, ActionSet, BaseRole, RoleRef};
use knowledge_core::api::Operation;
use knowledge_core::model::{AuditReads, MemoryChange, ReviewStatus, SensitivityLabel};
use knowledge_core::service::{AuditAction, SealingKey};
use serde_json::json;

use super::callers::Caller;
use super::idempotency::{creating, repeat, send, stage};
use super::requests::Call;
use crate::audit::entries;
use crate::make::{ADMIN, actions};
use crate::world::World;

/// Gives a member exactly these permissions.
async fn limit(world: &World, caller: &Caller, allowed: ActionSet) {
    let role = world.role(BaseRole::Viewer, allowed, ActionSet::ALL - allowed);
    let role = RoleRef::Custom(role.await.id);
    world.assign(caller.member, role).await.unwrap();
}

/// Returns the actions that the request of an operation requires.
fn required(operation: Operation) -> ActionSet {
    // A token of a service account is requested, and a memory is added without labels: these are the
    // conditions of their permissions.
    let meets_condition = matches!(operation, Operation::CreateToken | Operation::CreateMemory);
    let required = operation.spec().permissions.iter();
    let required = required.filter(|row| row.when.is_empty() || meets_condition);
    required.map(|row| row.action).collect()
}

/// A caller that may create and not read is not told to create again.
#[tokio::test]
async fn replay_requires_no_permission_of_the_operation_that_reads() {
    for operation in creating() {
        let (world, caller, call) = stage(operation).await;
        let required = required(operation);
        limit(&world, &caller, required).await;
        let mut first = send(&world, &call, &caller).await;
        if first.status == 403 {
            // Some requests also require what they grant or change, which a replay does not.
            world.assign(caller.member, ADMIN).await.unwrap();
            first = send(&world, &call, &caller).await;
            limit(&world, &caller, required).await;
        }
        let expected = first.succeeded(call.spec).replayed();
        let again = repeat(&world, &call, &caller).await;
        assert_eq!(again, expected, "{operation:?}");
    }
}

/// A caller that covers a service account no more is still shown the token that it created.
#[tokio::test]
async fn replay_of_a_token_requires_no_coverage_of_its_member() {
    let (world, caller, call) = stage(Operation::CreateToken).await;
    let first = send(&world, &call, &caller).await.succeeded(call.spec);
    limit(&world, &caller, actions(&[Action::TokenManage])).await;
    let expected = first.replayed();
    assert_eq!(repeat(&world, &call, &caller).await, expected);
    let other = call.with_key("other");
    let refused = refused(&world, &other, &caller).await;
    assert_eq!(refused, (403, Some("forbidden".to_owned())));
}

/// The text of a memory needs `memory:read`, also of one that was approved since.
#[tokio::test]
async fn replay_shows_the_labels_to_whoever_may_only_add_memories() {
    let (world, caller, call) = stage(Operation::CreateMemory).await;
    limit(&world, &caller, actions(&[Action::MemoryCreate])).await;
    let first = send(&world, &call, &caller).await.succeeded(call.spec);
    let approved = MemoryChange::builder().review_status(ReviewStatus::Approved);
    let memories = [first.id().parse().unwrap()];
    world.change(&memories, approved.build()).await.unwrap();
    let again = repeat(&world, &call, &caller).await.succeeded(call.spec);
    let shown = (
        &again.body["reviewStatus"],
        &again.body["title"],
        &again.body["content"],
    );
    assert_eq!(shown, (&json!("approved"), &json!(null), &json!(null)));
}

/// The first response says nothing that its caller did not send, and a later one would.
#[tokio::test]
async fn replay_shows_a_memory_for_others_as_in_the_first_response() {
    let (world, caller, call) = stage(Operation::CreateMemory).await;
    limit(
        &world,
        &caller,
        actions(&[Action::MemoryCreate, Action::MemoryRead]),
    )
    .await;
    let mut body = call.json();
    body["audienceTag"] = json!("team:others");
    let call = call.with_body(body.to_string());
    let first = send(&world, &call, &caller).await.succeeded(call.spec);
    assert_eq!(first.body["title"], json!(null));
    let id = first.id().parse().unwrap();
    let first = first.replayed();
    assert_eq!(repeat(&world, &call, &caller).await, first);
    // Without the key, it does not exist for the caller.
    let read = world.by(&caller.trusted).get_memory(id).await;
    assert_eq!(read.unwrap_err().code(), "not_found");
    let restricted = MemoryChange::builder().sensitivity_label(SensitivityLabel::Restricted);
    let memories = [id];
    world.change(&memories, restricted.build()).await.unwrap();
    assert_eq!(repeat(&world, &call, &caller).await, first);
}

/// A permission with a condition is required before the key is looked up.
#[tokio::test]
async fn replay_of_a_ping_requires_the_permission_for_the_subscription_of_another() {
    let (world, caller, mut call) = stage(Operation::PingCitationSubscription).await;
    let other = Caller::admin(&world).await;
    send(&world, &call, &other).await.succeeded(call.spec);
    limit(
        &world,
        &other,
        ActionSet::ALL - actions(&[Action::WebhookManage]),
    )
    .await;
    let again = refused(&world, &call, &other).await;
    assert_eq!(again, (403, Some("forbidden".to_owned())));
    let recall = world.recall_of(&world.memories(1).await).await;
    let second = world.subscribe(&caller.trusted, recall).await.id;
    call.uri = format!("/v1/citation-subscriptions/{second}/ping");
    let elsewhere = refused(&world, &call, &other).await;
    assert_eq!(elsewhere, (403, Some("forbidden".to_owned())));
}

/// Sends a request that is not replayed, and returns the status and the code.
async fn refused(world: &World, call: &Call, caller: &Caller) -> (u16, Option<String>) {
    let answer = send(world, call, caller).await;
    assert!(!answer.is_replay);
    (answer.status.as_u16(), answer.code)
}

/// A replay with the text of a confidential memory is a read of it.
#[tokio::test]
async fn replay_of_a_confidential_memory_is_audited_as_a_read() {
    let world = World::with(|options| options.audit_reads = AuditReads::Confidential).await;
    let caller = Caller::admin(&world).await;
    let call = Call::new(&world, Operation::CreateMemory, &caller).await;
    let mut body = call.json();
    body["sensitivityLabel"] = json!("confidential");
    let call = call.with_body(body.to_string()).with_key("key");
    let first = send(&world, &call, &caller).await.succeeded(call.spec);
    let reads = async || {
        let mut found = entries(&world).await;
        found.retain(|entry| entry.action == AuditAction::MemoryRead);
        let ids = found.iter().map(|entry| entry.resource.id.to_string());
        ids.collect::<Vec<String>>()
    };
    assert_eq!(reads().await, [""; 0]);
    let id = first.id().to_owned();
    assert_eq!(send(&world, &call, &caller).await, first.replayed());
    assert_eq!(reads().await, [id]);
}

/// A dump without the sealing key confirms no guess of erased content, or of an erased key.
#[tokio::test]
async fn record_has_no_digest_without_the_sealing_key() {
    for (operation, name) in [
        (Operation::CreateMemory, "createMemory"),
        (Operation::CreateErasure, "create_erasure"),
    ] {
        let mut found = Vec::new();
        for sealing_key in [[42; 32], [42; 32], [43; 32]] {
            let key = SealingKey::new(sealing_key);
            let world = World::with(|options| options.sealing_key = key).await;
            let caller = Caller::admin(&world).await;
            let call = Call::new(&world, operation, &caller).await;
            let call = call.with_key("key");
            send(&world, &call, &caller).await.succeeded(call.spec);
            let place = format!("/{}/{name}/", caller.member.0.simple());
            let mut digests = Vec::new();
            for (key, record) in world.family("idempotency").await {
                if key.to_string().contains(&place) {
                    digests.push(record["fingerprint"].clone());
                }
            }
            assert_eq!(digests.len(), 1, "{operation:?}");
            found.push((call.json(), digests));
        }
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0].0, found[2].0);
        assert_ne!(found[0].1, found[2].1);
    }
}
