//! Tests of citation subscriptions.

use knowledge_core::internals::keys;
use knowledge_core::limits::{RECALL_MEMORIES_MAX, SUBSCRIPTIONS_PER_RECALL_CEILING};
use knowledge_core::model::{
    CitationSubscription, Confirmation, ConfirmationState, NewErasure, RecallId,
};
use knowledge_core::service::{Caller, PageRequest};
use knowledge_core::store::{Commit, Key};
use knowledge_store::faults::FaultPlan;
use serde_json::json;
use uuid::Uuid;

use crate::make::{DAY, MEMBER, VIEWER, code, new_recall, new_subscription, problem, with};
use crate::world::World;

async fn subscribe(
    world: &World,
    caller: &Caller,
    recall_id: RecallId,
    url: &str,
) -> Result<CitationSubscription, knowledge_core::Error> {
    let request = new_subscription(recall_id, url);
    world.by(caller).create_subscription(&request).await
}

const URL: &str = "https://example.com/citations";

#[tokio::test]
async fn subscription_has_its_own_secret() {
    let world = World::new().await;
    let recall = world.recall().await;
    let first = subscribe(&world, &world.owner, recall, URL).await.unwrap();
    assert_eq!(
        (first.org_id, first.workspace_id),
        (world.org.id, world.workspace.id)
    );
    assert_eq!(
        (first.recall_id, first.subscriber_user_id),
        (recall, world.owner_id)
    );
    assert_eq!(
        (first.webhook_url.as_str(), first.created_at),
        (URL, world.time.now())
    );
    let secret = first.signing_secret.unwrap();
    assert!(secret.starts_with("whsec_"));
    let second = subscribe(&world, &world.owner, recall, URL).await.unwrap();
    assert_ne!(second.signing_secret.unwrap(), secret);
}

#[tokio::test]
async fn subscription_to_http_url_requires_operator_permission() {
    let world = World::new().await;
    let recall_id = world.recall().await;
    let plain = "http://example.com/";
    let refused = subscribe(&world, &world.owner, recall_id, plain).await;
    assert_eq!(problem(refused), "webhook_url invalid_value");
    let world = World::with(|options| options.webhook_addresses.allow_http = true).await;
    let recall_id = world.recall().await;
    subscribe(&world, &world.owner, recall_id, plain)
        .await
        .unwrap();
}

#[tokio::test]
async fn subscription_requires_existing_recall_and_permission() {
    let world = World::new().await;
    let unknown = RecallId(Uuid::nil());
    assert_eq!(
        code(subscribe(&world, &world.owner, unknown, URL).await),
        "not_found"
    );
    let recall = world.recall().await;
    let viewer = world.caller(VIEWER).await;
    assert_eq!(
        code(subscribe(&world, &viewer, recall, URL).await),
        "forbidden"
    );
    let eve = world.stranger("evil").await.owner;
    assert_eq!(
        code(subscribe(&world, &eve, recall, URL).await),
        "not_found"
    );
}

#[tokio::test]
async fn subscriptions_per_recall_are_limited() {
    let world = World::with(|options| options.limits.subscriptions_per_recall_max = 1).await;
    let recall = world.recall().await;
    subscribe(&world, &world.owner, recall, URL).await.unwrap();
    let second = subscribe(&world, &world.owner, recall, URL).await;
    assert_eq!(problem(second), "recall_id limit_reached");
}

/// The largest recall that the limits permit is deleted, erased and removed with its workspace.
#[tokio::test]
async fn recall_at_the_limits_is_removed_in_one_commit() {
    let max = SUBSCRIPTIONS_PER_RECALL_CEILING;
    let original = World::with(|options| options.limits.subscriptions_per_recall_max = max).await;
    let member = original.member(MEMBER).await;
    let memories = original.approved_memories(RECALL_MEMORIES_MAX).await;
    let (by, place) = (original.trusted(member), original.workspace.id);
    let recall = new_recall(&memories);
    let recall = original.by(&by).create_recall(&recall).await;
    let recall = recall.unwrap().id;
    for _ in 0..max {
        subscribe(&original, &original.owner, recall, URL)
            .await
            .unwrap();
    }
    let subscriptions = async |world: &World| {
        let count = world.counter(keys::subscription_count(world.org.id, recall));
        (count.await, world.family("subscription").await.len())
    };
    let world = original.copy(FaultPlan::none()).await;
    world.delete_recall(recall).await.unwrap();
    assert_eq!(subscriptions(&world).await, (0, 0));
    let world = original.copy(FaultPlan::none()).await;
    let erased = NewErasure::builder().member_id(member).build();
    let key = "erasure".parse().unwrap();
    let erased = world.create_erasure(&key, &erased).await.unwrap().erasure;
    assert_eq!(erased.counts.citation_subscriptions, max);
    assert_eq!(subscriptions(&world).await, (0, 0));
    let world = original.copy(FaultPlan::none()).await;
    let removed = world.service.provisioning();
    removed.delete_workspace(world.org.id, place).await.unwrap();
    world.maintain().await;
    assert_eq!(subscriptions(&world).await, (0, 0));
    world.assert_whole().await;
}

/// A recall of a store with a higher limit is not reported as deleted while it is there.
#[tokio::test]
async fn deletion_fails_for_a_recall_beyond_the_limits() {
    let world = World::new().await;
    let recall = world.recall().await;
    subscribe(&world, &world.owner, recall, URL).await.unwrap();
    let (key, value) = world.family("subscription").await.remove(0);
    let copies = (1..=600).fold(Commit::builder(), |commit, number| {
        let id = Uuid::from_u128(number);
        let copy = with(value.clone(), |value| value["record"]["id"] = json!(id));
        let place = key.to_string();
        let place = place.rsplit_once('/').unwrap().0;
        let place = Key::new(format!("{place}/{}", id.simple())).unwrap();
        commit.put(place, copy.to_string())
    });
    let store = world.faults.inner();
    store.commit(copies.build().unwrap()).await.unwrap();
    assert_eq!(code(world.delete_recall(recall).await), "internal");
    let found = world.get_recall(recall).await;
    assert!(found.is_ok());
}

#[tokio::test]
async fn subscriptions_are_listed_read_and_ended_without_secrets() {
    let world = World::new().await;
    let (recall, other) = (world.recall().await, world.recall().await);
    let mut made = Vec::new();
    for _ in 0..3 {
        let subscription = subscribe(&world, &world.owner, recall, URL).await.unwrap();
        made.push(CitationSubscription {
            signing_secret: None,
            confirmation: Some(Confirmation {
                state: ConfirmationState::Pending,
                next_attempt_at: None,
                reason: None,
            }),
            ..subscription
        });
    }
    subscribe(&world, &world.owner, other, URL).await.unwrap();
    made.sort_by_key(|subscription| subscription.id);
    let page = PageRequest::default();
    let list = async || world.list_subscriptions(recall, &page).await.unwrap().data;
    assert_eq!(list().await, made);
    let id = made[1].id;
    assert_eq!(world.get_subscription(id).await.unwrap(), made[1]);

    let before = world
        .counter(keys::subscription_count(world.org.id, recall))
        .await;
    world.delete_subscription(id).await.unwrap();
    let after = world
        .counter(keys::subscription_count(world.org.id, recall))
        .await;
    assert_eq!((before, after), (3, 2));
    assert_eq!(list().await, [made[0].clone(), made[2].clone()]);
    assert_eq!(code(world.delete_subscription(id).await), "not_found");
    assert_eq!(code(world.get_subscription(id).await), "not_found");
    let unknown = RecallId(Uuid::nil());
    let listed = world.list_subscriptions(unknown, &page);
    assert_eq!(code(listed.await), "not_found");
    world.assert_whole().await;
}

#[tokio::test]
async fn subscription_of_another_member_requires_webhook_manage() {
    let world = World::new().await;
    let recall = world.recall().await;
    let (subscriber, other) = (world.caller(MEMBER).await, world.caller(MEMBER).await);
    let made = subscribe(&world, &subscriber, recall, URL).await.unwrap();
    let rotate = async |caller: &Caller| {
        let rotated = world.by(caller).rotate_subscription(made.id);
        rotated.await.map(drop)
    };
    let end = async |caller: &Caller| world.by(caller).delete_subscription(made.id).await;
    let lacks = "missing permission webhook:manage";
    let before = world.contents().await;
    assert_eq!(rotate(&other).await.unwrap_err().to_string(), lacks);
    assert_eq!(end(&other).await.unwrap_err().to_string(), lacks);
    assert_eq!(world.contents().await, before);
    let read = world.by(&other).get_subscription(made.id).await;
    assert_eq!(read.unwrap().subscriber_user_id, made.subscriber_user_id);
    rotate(&subscriber).await.unwrap();
    rotate(&world.owner).await.unwrap();
    end(&subscriber).await.unwrap();
    let again = subscribe(&world, &subscriber, recall, URL).await.unwrap();
    world.delete_subscription(again.id).await.unwrap();
}

#[tokio::test]
async fn rotated_subscription_secret_is_shown_once_and_old_one_kept() {
    let world = World::new().await;
    let recall = world.recall().await;
    let made = subscribe(&world, &world.owner, recall, URL).await.unwrap();
    let rotated = world.rotate_subscription(made.id).await.unwrap();
    assert!(rotated.signing_secret.starts_with("whsec_"));
    assert_ne!(Some(&rotated.signing_secret), made.signing_secret.as_ref());
    let until = world.time.now().plus(DAY);
    assert_eq!(rotated.previous_secret_expires_at, until);
    let found = world.get_subscription(made.id);
    assert_eq!(found.await.unwrap().signing_secret, None);
    // The store contains neither secret in plain text.
    let secrets = [made.signing_secret.unwrap(), rotated.signing_secret];
    for (key, value) in world.contents().await {
        let text = String::from_utf8_lossy(&value).into_owned();
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "{key}");
    }
    world.assert_whole().await;
}
