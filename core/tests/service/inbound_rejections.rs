//! Tests of messages to inbound webhooks that are rejected for their content or their sender.

use bytes::Bytes;
use http::{Request, StatusCode};
use knowledge_core::api::Api;
use knowledge_core::model::EventType;
use standardwebhooks::Webhook as Signer;

use crate::inbound_sender::{Sender, keyed, titles};
use crate::make::{ADMIN, DAY, VIEWER, new_memory, problem};
use crate::world::{World, data};

#[tokio::test]
async fn invalid_batch_is_stored_nowhere() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    let before = world.contents().await;
    let broken = [
        new_memory("One"),
        new_memory(""),
        keyed("Two"),
        keyed("Three"),
    ];
    assert_eq!(
        problem(sender.post(&world, "msg_1", &broken).await),
        "memories[1].title too_small, memories[3].source_key duplicate"
    );
    assert_eq!(
        problem(sender.post(&world, "msg_1", &[]).await),
        "memories too_small"
    );
    let many: Vec<_> = (0..101).map(|_| new_memory("Many")).collect();
    assert_eq!(
        problem(sender.post(&world, "msg_1", &many).await),
        "memories too_large"
    );
    assert_eq!(world.contents().await, before);
    sender.post_one(&world, "msg_1", "One").await.unwrap();
    assert_eq!(titles(&world, &sender).await, ["One"]);
}

#[tokio::test]
async fn rejected_message_is_announced_once_and_stored_nowhere() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::IngestFailed).await;
    let sender = Sender::new(&world).await;
    let broken = |title: &str| [new_memory(title), new_memory("")];
    for title in ["Quokka", "Quokka once more"] {
        let refused = sender.post(&world, "msg_1", &broken(title)).await;
        assert_eq!(problem(refused), "memories[1].title too_small");
    }
    let failed = world.events_of(EventType::IngestFailed).await;
    let told = serde_json::json!({
        "workspace_id": world.workspace.id,
        "source_id": sender.source,
        "inbound_webhook_id": sender.webhook,
        "message_id": "msg_1",
        "error": "invalid_request",
    });
    assert_eq!(failed.len(), 1);
    assert_eq!(data(&failed[0]), told);
    world.fan_out().await;
    assert_eq!(world.queued_events(webhook.id).await, failed);
    for (key, value) in world.contents().await {
        let text = format!("{key} {}", String::from_utf8_lossy(&value)).to_lowercase();
        assert!(!text.contains("quokka"), "{text}");
    }
    world.assert_whole().await;

    // A later valid version of the message is accepted, and completes it.
    sender.post_one(&world, "msg_1", "One").await.unwrap();
    let refused = sender.post(&world, "msg_1", &broken("Quokka")).await;
    refused.unwrap_err();
    assert_eq!(titles(&world, &sender).await, ["One"]);
    assert_eq!(world.events_of(EventType::IngestFailed).await, []);
    world.time.pass(7 * DAY);
    world.maintain().await;
    world.assert_whole().await;
    let refused = sender.post(&world, "msg_1", &broken("Quokka")).await;
    refused.unwrap_err();
    assert_eq!(world.events_of(EventType::IngestFailed).await.len(), 1);
}

/// Posts a body over HTTP, signed or not.
async fn post_bytes(
    world: &World,
    sender: &Sender,
    id: &str,
    body: &str,
    is_signed: bool,
) -> StatusCode {
    let seconds = world.time.now().as_millis() / 1_000;
    let signed = if is_signed { body } else { "something else" };
    let signer = Signer::new(&sender.secret).unwrap();
    let signature = signer.sign(id, seconds, signed.as_bytes()).unwrap();
    let request = Request::post(format!("/v1/inbound/{}/{}", sender.org, sender.webhook))
        .header("content-type", "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", seconds)
        .header("webhook-signature", signature)
        .body(Bytes::copy_from_slice(body.as_bytes()));
    let api = Api::new(world.service.clone());
    api.handle(request.unwrap()).await.status()
}

#[tokio::test]
async fn signature_precedes_the_length_of_a_message() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    let body = " ".repeat(world.service.limits().body_bytes_max + 1);
    let posted = async |is_signed| post_bytes(&world, &sender, "msg", &body, is_signed).await;
    assert_eq!(posted(false).await, StatusCode::UNAUTHORIZED);
    assert_eq!(posted(true).await, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn unreadable_payload_is_announced_only_if_signed() {
    let world = World::new().await;
    world.webhook(EventType::IngestFailed).await;
    let sender = Sender::new(&world).await;
    let broken = [
        r#"{"memories": [{"title": "Quokka", "#,
        r#"{"memories": [{"title": "Quokka", "content": 7}]}"#,
        r#"{"quokka": []}"#,
        "",
    ];
    for (number, body) in broken.into_iter().enumerate() {
        let id = format!("msg_{number}");
        let posted = async |is_signed| post_bytes(&world, &sender, &id, body, is_signed).await;
        assert_eq!(posted(false).await, StatusCode::UNAUTHORIZED);
        assert_eq!(world.events().await.len(), number);
        for _ in 0..2 {
            assert_eq!(posted(true).await, StatusCode::BAD_REQUEST);
            assert_eq!(world.events().await.len(), number + 1);
        }
    }
    world.fan_out().await;
    for (key, value) in world.contents().await {
        let text = format!("{key} {}", String::from_utf8_lossy(&value)).to_lowercase();
        assert!(!text.contains("quokka"), "{text}");
    }
}

#[tokio::test]
async fn message_of_unauthorized_sender_is_not_announced() {
    let world = World::new().await;
    world.webhook(EventType::IngestFailed).await;
    let admin = world.member(ADMIN).await;
    let sender = Sender::registered_by(&world, &world.trusted(admin)).await;
    world.assign(admin, VIEWER).await.unwrap();
    let refused = sender.post_one(&world, "msg_1", "One").await;
    assert_eq!(refused.unwrap_err().code(), "forbidden");
    assert_eq!(world.events().await, []);
}
