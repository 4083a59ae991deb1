//! Tests of the confirmation of endpoints, over TCP.

use std::sync::{Arc, Mutex};

use knowledge_core::env::Env;
use knowledge_core::model::{EventType, NewWebhook, Webhook};
use knowledge_core::store::MemoryStore;
use knowledge_server::deliveries::Deliveries;
use serde_json::Value;
use tokio::io::AsyncWriteExt;

use crate::support::peer::{Peer, read_request};
use crate::support::{Serving, VirtualClock, World, delivery_client, open, until};

/// Creates a webhook that is not confirmed.
async fn register(world: &World, url: &str) -> Webhook {
    let new = NewWebhook::builder()
        .event_type(EventType::ChunkCreated)
        .url(url.parse().expect("a URL"))
        .build();
    let created = world
        .service
        .webhooks()
        .create(&world.owner, world.workspace, &new);
    created.await.expect("a webhook")
}

/// Starts a peer that answers with the status that is set, and records the types of the events.
async fn peer() -> (Peer, Arc<Mutex<u16>>, Arc<Mutex<Vec<String>>>) {
    let (status, types) = (Arc::new(Mutex::new(500)), Arc::default());
    let (answered, seen) = (Arc::clone(&status), Arc::clone(&types));
    let peer = Peer::start(move |mut stream| {
        let (answered, seen) = (Arc::clone(&answered), Arc::clone(&seen));
        async move {
            let request = read_request(&mut stream).await;
            let body = request.split("\r\n\r\n").nth(1).expect("a body");
            let event: Value = serde_json::from_str(body).expect("JSON");
            let event = event["type"].as_str().expect("a type").to_owned();
            let types: &Mutex<Vec<String>> = &seen;
            types.lock().expect("no panic").push(event);
            let status = *answered.lock().expect("no panic");
            let answer =
                format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (peer.await, status, types)
}

#[tokio::test]
async fn receiver_gets_only_pings_until_it_answers_one() {
    let clock = VirtualClock::new();
    let store = Arc::new(MemoryStore::new());
    let env = Env::new(clock.clone(), knowledge_core::env::OsRandomness);
    let world = World::seeded(open(store, env).await).await;
    let (peer, status, types) = peer().await;
    let webhook = register(&world, &peer.url()).await;
    let deliveries = Deliveries::through(delivery_client());
    let often = deliveries.poll_every(std::time::Duration::from_millis(20));
    let server = Serving::start(&world.service, often).await;
    let seen = || types.lock().expect("no panic").clone();
    for count in 1..=3 {
        world.ingest().await;
        until("a ping", async || seen().len() >= count).await;
        let recorded = count as f64;
        until("its result", async || {
            server.attempts("retry").await >= recorded
        })
        .await;
        assert!(
            seen().iter().all(|seen| seen == "webhook.ping"),
            "{:?}",
            seen()
        );
        // Each retry is due within 40 minutes.
        clock.set_forward(std::time::Duration::from_secs(40 * 60));
    }
    *status.lock().expect("no panic") = 204;
    until("the events", async || {
        seen()
            .iter()
            .filter(|seen| *seen == "chunk.created")
            .count()
            == 3
    })
    .await;
    world.is_idle().await;
    let found = world
        .service
        .webhooks()
        .get(&world.owner, world.workspace, webhook.id);
    assert!(found.await.expect("the webhook").value.is_confirmed);
    let events = world.deliveries(webhook.id).await;
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| event.attempts.len() == 1));
    let first_event = seen().iter().position(|seen| seen == "chunk.created");
    assert!(
        seen()[first_event.expect("an event")..]
            .iter()
            .all(|seen| seen == "chunk.created")
    );
}

#[tokio::test]
async fn one_ping_confirms_all_endpoints_with_its_url() {
    const WEBHOOKS: usize = 40;
    let (_, _, world) = World::by_clock(VirtualClock::new()).await;
    let (peer, status, types) = peer().await;
    *status.lock().expect("no panic") = 204;
    for _ in 0..WEBHOOKS {
        register(&world, &peer.url()).await;
    }
    world.ingest().await;
    let deliveries = Deliveries::through(delivery_client());
    let often = deliveries.poll_every(std::time::Duration::from_millis(20));
    let _server = Serving::start(&world.service, often).await;
    let count = |of: &str| {
        let types = types.lock().expect("no panic");
        types.iter().filter(|seen| *seen == of).count()
    };
    until("the events", async || count("chunk.created") == WEBHOOKS).await;
    world.is_idle().await;
    assert_eq!(count("webhook.ping"), 1);
}
