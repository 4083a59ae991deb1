//! Tests of inbound webhooks.

use knowledge_core::model::{InboundWebhook, NewInboundWebhook, WorkspaceId};
use uuid::Uuid;

use crate::make::{MEMBER, code, problem};
use crate::world::World;

async fn create(world: &World, name: &str) -> Result<InboundWebhook, knowledge_core::Error> {
    let new = NewInboundWebhook::builder().name(name.to_owned()).build();
    world.create_inbound(&new).await
}

#[tokio::test]
async fn inbound_webhook_has_its_own_url_and_secret() {
    let world = World::new().await;
    let made = create(&world, "Forms").await.unwrap();
    assert_eq!(
        (made.org_id, made.workspace_id),
        (world.org.id, world.workspace.id)
    );
    assert_eq!((&*made.name, made.created_by), ("Forms", world.owner_id));
    assert_eq!(
        made.url,
        format!("/v1/inbound/{}/{}", world.org.id, made.id)
    );
    let second = create(&world, "Forms").await.unwrap();
    assert_ne!(made.url, second.url);
    let secret = made.signing_secret.unwrap();
    assert!(secret.starts_with("whsec_"));
    assert_ne!(Some(secret), second.signing_secret);
}

#[tokio::test]
async fn inbound_url_is_absolute_if_public_address_is_configured() {
    let public = "https://knowledge.example".to_owned();
    let world = World::with(|options| options.public_url = Some(public)).await;
    let made = create(&world, "Forms").await.unwrap();
    let expected = format!(
        "https://knowledge.example/v1/inbound/{}/{}",
        world.org.id, made.id
    );
    assert_eq!(made.url, expected);
}

#[tokio::test]
async fn inbound_webhook_requires_valid_name() {
    let world = World::new().await;
    assert_eq!(problem(create(&world, "").await), "name too_small");
    assert_eq!(
        problem(create(&world, &"x".repeat(129)).await),
        "name too_large"
    );
    assert_eq!(
        problem(create(&world, "a\u{0}b").await),
        "name invalid_value"
    );
}

#[tokio::test]
async fn inbound_webhooks_per_workspace_are_limited() {
    let world = World::new().await;
    for _ in 0..50 {
        create(&world, "Forms").await.unwrap();
    }
    assert_eq!(problem(create(&world, "Forms").await), "body limit_reached");
}

#[tokio::test]
async fn inbound_webhook_requires_its_action_and_a_workspace() {
    let world = World::new().await;
    let new = NewInboundWebhook::builder().name("Forms").build();
    let member = world.caller(MEMBER).await;
    let made = world.by(&member).create_inbound(&new).await;
    assert_eq!(code(made), "forbidden");
    let nowhere = WorkspaceId(Uuid::nil());
    let made = world.within(nowhere).create_inbound(&new).await;
    assert_eq!(code(made), "not_found");
}
