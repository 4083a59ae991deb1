//! Citation subscriptions.

use knowledge_core::access::Credential;
use knowledge_core::model::{CitationSubscription, NewCitationSubscription, RecallId};
use uuid::Uuid;

use crate::make::{OWNER, VIEWER, code, new_member, new_recall, problem};
use crate::world::World;

async fn recall(world: &World) -> RecallId {
    let ids = world.memories(1).await;
    let new = new_recall(&ids);
    let recall = world
        .service
        .create_recall(&world.owner, world.workspace.id, &new)
        .await;
    recall.unwrap().id
}

async fn subscribe(
    world: &World,
    caller: &Credential,
    recall_id: RecallId,
    url: &str,
) -> Result<CitationSubscription, knowledge_core::Error> {
    let request = NewCitationSubscription {
        recall_id,
        webhook_url: url.parse().unwrap(),
    };
    world
        .service
        .create_citation_subscription(caller, &request)
        .await
}

const URL: &str = "https://example.com/citations";

#[tokio::test]
async fn a_subscription_has_a_secret_of_its_own() {
    let world = World::new().await;
    let recall = recall(&world).await;
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
async fn addresses_without_encryption_are_for_those_who_allow_them() {
    let world = World::new().await;
    let recall_id = recall(&world).await;
    let plain = "http://example.com/";
    let refused = subscribe(&world, &world.owner, recall_id, plain).await;
    assert_eq!(problem(refused), "webhook_url invalid_value");
    let world = World::with(|options| options.allow_http_webhooks = true).await;
    let recall_id = recall(&world).await;
    subscribe(&world, &world.owner, recall_id, plain)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_recall_has_to_exist_and_the_caller_to_be_allowed() {
    let world = World::new().await;
    let unknown = RecallId(Uuid::nil());
    assert_eq!(
        code(subscribe(&world, &world.owner, unknown, URL).await),
        "not_found"
    );
    let recall = recall(&world).await;
    let viewer = world.caller(VIEWER).await;
    assert_eq!(
        code(subscribe(&world, &viewer, recall, URL).await),
        "forbidden"
    );
    let provisioning = world.service.provisioning();
    let (org, eve) = provisioning
        .create_organization("Evil", "evil", &new_member("eve", OWNER))
        .await
        .unwrap();
    let eve = Credential::Trusted {
        org: org.id,
        member: eve.id,
    };
    assert_eq!(
        code(subscribe(&world, &eve, recall, URL).await),
        "not_found"
    );
}

#[tokio::test]
async fn a_recall_has_so_many_subscriptions_and_no_more() {
    let world = World::with(|options| options.limits.subscriptions_per_recall_max = 1).await;
    let recall = recall(&world).await;
    subscribe(&world, &world.owner, recall, URL).await.unwrap();
    let second = subscribe(&world, &world.owner, recall, URL).await;
    assert_eq!(problem(second), "recall_id limit_reached");
}
