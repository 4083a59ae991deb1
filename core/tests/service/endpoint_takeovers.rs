//! Tests of the claim that whoever takes over an endpoint receives nothing made for another.

use knowledge_core::access::TokenScope;
use knowledge_core::model::{EventType, SensitivityLabel, WebhookId, WebhookUpdate};
use knowledge_core::service::Caller;
use serde_json::{Value, json};

use crate::dispatching::{answer, endpoint};
use crate::event_receivers::{AUDIENCES, change, ingest, reviewer, webhook};
use crate::make::{MILLISECOND, MINUTE, sensitivity};
use crate::world::World;

/// Answers the ping to a new URL.
async fn answer_ping(world: &World) {
    let pings = world.claim().await.deliveries;
    assert_eq!(pings.len(), 1);
    assert_eq!(pings[0].event_type, EventType::WebhookPing);
    world.finish(&pings[0], &answer(204)).await;
    world.time.pass(MILLISECOND);
}

#[tokio::test]
async fn webhook_taken_over_drops_what_was_made_for_its_former_owner() {
    let world = World::new().await;
    let by = reviewer(&world).await;
    let webhook = world.webhook(EventType::MemoryUpdated).await;
    let to = endpoint(&webhook);
    let ids = ingest(&world, &AUDIENCES).await;
    let rotate = |by| world.by(by).rotate_webhook(webhook.id);
    let url = |path: &str| {
        let url = format!("https://example.com/{path}").parse().unwrap();
        WebhookUpdate::builder().url(url).build()
    };
    let update = async |by, to: &str| {
        let update = url(to);
        world.by(by).update_webhook(webhook.id, &update, None).await
    };
    for takes_url in [false, true] {
        change(&world, &ids, sensitivity(SensitivityLabel::Public)).await;
        world.fan_out().await;
        match takes_url {
            false => drop(rotate(&by).await.unwrap()),
            true => {
                update(&by, "other").await.unwrap();
                answer_ping(&world).await;
            }
        }
        let batch = world.claim().await;
        assert_eq!((batch.deliveries, batch.dead_lettered), (Vec::new(), 1));
        // Nor does a redelivery send it.
        let again = world.by(&by).redeliver_dead(to).await.unwrap();
        assert_eq!(again.redelivered, 1);
        let batch = world.claim().await;
        assert_eq!((batch.deliveries, batch.dead_lettered), (Vec::new(), 1));
        // What is made for the new owner names what exists for it.
        change(&world, &ids, sensitivity(SensitivityLabel::Internal)).await;
        world.fan_out().await;
        let sent = world.claim().await.deliveries;
        assert_eq!(sent.len(), 1);
        let body: Value = serde_json::from_slice(&sent[0].request.body).unwrap();
        assert_eq!(body["data"]["memory_ids"], json!([ids[0], ids[3]]));
        world.time.pass(MINUTE);
        world.finish(&sent[0], &answer(200)).await;
        // The owner knows all of it, so nothing is lost when it comes back.
        match takes_url {
            false => drop(rotate(&world.owner).await.unwrap()),
            true => {
                update(&world.owner, "hook").await.unwrap();
                answer_ping(&world).await;
            }
        }
        let again = world.redeliver_dead(to).await.unwrap();
        assert_eq!(again.redelivered, 1);
        let sent = world.claim().await.deliveries;
        assert_eq!(sent.len(), 1);
        let body: Value = serde_json::from_slice(&sent[0].request.body).unwrap();
        assert_eq!(body["data"]["memory_ids"], json!(ids));
        world.finish(&sent[0], &answer(200)).await;
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn webhook_taken_over_by_its_member_keeps_its_deliveries() {
    let world = World::new().await;
    let scope = TokenScope {
        audience: Some(vec!["org:acme".parse().unwrap()]),
        ..TokenScope::default()
    };
    let narrow = Caller::from(world.token(world.owner_id, scope).await.secret);
    let whole = world.token(world.owner_id, TokenScope::default()).await;
    let whole = Caller::from(whole.secret);
    let endpoint = webhook(&world, &whole, EventType::MemoryUpdated).await;
    world.confirm(endpoint).await;
    let id = WebhookId(endpoint.0);
    let rotate = async |by: &Caller| {
        world.by(by).rotate_webhook(id).await.unwrap();
    };
    let ids = ingest(&world, &AUDIENCES).await;
    for (label, by, sent) in [
        (SensitivityLabel::Public, &narrow, 0),
        (SensitivityLabel::Internal, &whole, 1),
    ] {
        change(&world, &ids, sensitivity(label)).await;
        world.fan_out().await;
        rotate(by).await;
        assert_eq!(world.claim().await.deliveries.len(), sent);
    }
}
