//! Outbound webhooks.

use knowledge_core::model::{
    EventType, NewWebhook, URL_CHARS_MAX, Webhook, WebhookUrl, WorkspaceId,
};
use uuid::Uuid;

use crate::make::{MEMBER, code, problem};
use crate::world::World;

fn new_webhook(url: &str) -> NewWebhook {
    NewWebhook {
        event_type: EventType::ChunkCreated,
        url: url.parse().unwrap(),
    }
}

async fn create(world: &World, url: &str) -> Result<Webhook, knowledge_core::Error> {
    world
        .service
        .create_webhook(&world.owner, world.workspace.id, &new_webhook(url))
        .await
}

#[tokio::test]
async fn a_webhook_is_registered_with_a_secret_of_its_own() {
    let world = World::new().await;
    let made = create(&world, "https://example.com/hook").await.unwrap();
    assert_eq!(
        (made.org_id, made.workspace_id),
        (world.org.id, world.workspace.id)
    );
    assert_eq!(
        (made.event_type, made.created_by),
        (EventType::ChunkCreated, world.owner_id)
    );
    assert_eq!(made.created_at, world.time.now());
    let second = create(&world, "https://example.com/hook").await.unwrap();
    assert_ne!(made.signing_secret.unwrap(), second.signing_secret.unwrap());
}

#[tokio::test]
async fn addresses_without_encryption_are_for_those_who_allow_them() {
    let world = World::new().await;
    assert_eq!(
        problem(create(&world, "http://example.com/").await),
        "url invalid_value"
    );
    let world = World::with(|options| options.webhook_addresses.allow_http = true).await;
    create(&world, "http://example.com/").await.unwrap();
}

#[tokio::test]
async fn a_workspace_has_fifty_webhooks_and_no_more() {
    let world = World::new().await;
    for _ in 0..50 {
        create(&world, "https://example.com/").await.unwrap();
    }
    assert_eq!(
        problem(create(&world, "https://example.com/").await),
        "body limit_reached"
    );
    let sales = world.workspace("sales").await;
    let new = new_webhook("https://example.com/");
    world
        .service
        .create_webhook(&world.owner, sales, &new)
        .await
        .unwrap();
}

#[tokio::test]
async fn registering_needs_its_action_and_a_workspace() {
    let world = World::new().await;
    let new = new_webhook("https://example.com/");
    let member = world.caller(MEMBER).await;
    let made = world
        .service
        .create_webhook(&member, world.workspace.id, &new)
        .await;
    assert_eq!(code(made), "forbidden");
    let nowhere = WorkspaceId(Uuid::nil());
    let made = world
        .service
        .create_webhook(&world.owner, nowhere, &new)
        .await;
    assert_eq!(code(made), "not_found");
}

/// What is written of an address can be read again, however much longer it is than what was sent.
#[tokio::test]
async fn an_address_that_grows_too_long_is_refused() {
    let sent = format!("https://example.com/{}", "ü".repeat(1_000));
    assert!(sent.chars().count() < URL_CHARS_MAX);
    assert!(sent.parse::<WebhookUrl>().is_err());
    let longest = format!("https://example.com/{}", "ü".repeat(300));
    let url = longest.parse::<WebhookUrl>().unwrap();
    assert_eq!(url.as_str().parse::<WebhookUrl>(), Ok(url));
}
