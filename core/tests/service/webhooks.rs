//! Tests of outbound webhooks.

use knowledge_core::model::{EventType, URL_CHARS_MAX, Webhook, WebhookUrl, WorkspaceId};
use uuid::Uuid;

use crate::make::{MEMBER, code, new_webhook, problem};
use crate::world::World;

async fn create(world: &World, url: &str) -> Result<Webhook, knowledge_core::Error> {
    world.create_webhook(&new_webhook(url)).await
}

#[tokio::test]
async fn webhook_is_created_with_its_own_secret() {
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
async fn webhook_to_http_url_requires_operator_permission() {
    let world = World::new().await;
    assert_eq!(
        problem(create(&world, "http://example.com/").await),
        "url invalid_value"
    );
    let world = World::with(|options| options.webhook_addresses.allow_http = true).await;
    create(&world, "http://example.com/").await.unwrap();
}

#[tokio::test]
async fn webhooks_per_workspace_are_limited() {
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
    world.within(sales).create_webhook(&new).await.unwrap();
}

#[tokio::test]
async fn webhook_requires_its_action_and_a_workspace() {
    let world = World::new().await;
    let new = new_webhook("https://example.com/");
    let member = world.caller(MEMBER).await;
    let made = world.by(&member).create_webhook(&new).await;
    assert_eq!(code(made), "forbidden");
    let nowhere = WorkspaceId(Uuid::nil());
    let made = world.within(nowhere).create_webhook(&new).await;
    assert_eq!(code(made), "not_found");
}

/// A stored URL is parsed again, although escaping makes it longer than the one sent.
#[tokio::test]
async fn url_too_long_once_escaped_is_rejected() {
    let sent = format!("https://example.com/{}", "ü".repeat(1_000));
    assert!(sent.chars().count() < URL_CHARS_MAX);
    assert!(sent.parse::<WebhookUrl>().is_err());
    let longest = format!("https://example.com/{}", "ü".repeat(300));
    let url = longest.parse::<WebhookUrl>().unwrap();
    assert_eq!(url.as_str().parse::<WebhookUrl>(), Ok(url));
}
