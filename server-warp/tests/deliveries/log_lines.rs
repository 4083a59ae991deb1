//! Tests of the log of deliveries, each on the one thread that its log captures.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use knowledge_core::model::DeliveryFailureCode;
use knowledge_server::deliveries::Deliveries;
use serde_json::Value;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{FakeSender, Serving, World, answered, failed};

const URL: &str = "https://hooks.test/secret-path?secret=query";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The captured log, one JSON object per line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Captures this thread's log at `info` and above until the guard is dropped.
    fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_max_level(tracing::Level::INFO)
            .with_writer(log.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        (log, guard)
    }

    fn text(&self) -> String {
        let bytes = self.0.lock().expect("no panic").clone();
        String::from_utf8(bytes).expect("UTF-8")
    }

    /// Returns the fields of the lines about deliveries whose message contains this text.
    fn lines(&self, message: &str) -> Vec<Value> {
        let lines = self.text();
        let parsed = lines.lines().map(|line| -> Value {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        });
        parsed
            .filter(|line| {
                let target = line["target"].as_str().unwrap_or_default();
                target.starts_with("knowledge_server::deliveries")
            })
            .map(|line| line["fields"].clone())
            .filter(|fields| {
                fields["message"]
                    .as_str()
                    .is_some_and(|m| m.contains(message))
            })
            .collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

fn often(sender: &Arc<FakeSender>) -> Deliveries {
    Deliveries::through(sender.clone()).poll_every(Duration::from_secs(60))
}

#[tokio::test(start_paused = true)]
async fn dead_letter_is_logged_once_without_endpoint_path() {
    let (log, _guard) = Log::begin();
    let (_, _, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let sender = FakeSender::new(async |_, _| failed(DeliveryFailureCode::DnsFailed));
    let _server = Serving::start(&world.service, often(&sender)).await;
    world.ingest().await;
    sender.sends_within(10 * DAY, 10).await;
    world.is_idle().await;
    let delivery = world.deliveries(webhook.id).await.remove(0);
    let lines = log.lines("dead-lettered");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["event"], delivery.event_id.to_string());
    assert_eq!(lines[0]["endpoint"], webhook.id.to_string());
    assert_eq!(lines[0]["host"], "hooks.test");
    assert_eq!(log.lines("disabled").len(), 0);
    assert!(!log.text().contains("secret"), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn disabled_endpoint_is_logged_once() {
    let (log, _guard) = Log::begin();
    let (_, _, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let sender = FakeSender::new(async |_, _| answered(410));
    let _server = Serving::start(&world.service, often(&sender)).await;
    world.ingest().await;
    sender.sends(1).await;
    world.is_idle().await;
    let lines = log.lines("endpoint disabled");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["endpoint"], webhook.id.to_string());
    assert_eq!(lines[0]["reason"], "responded with 410");
    assert!(!log.text().contains("secret"), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn successful_delivery_is_not_logged() {
    let (log, _guard) = Log::begin();
    let (_, _, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let sender = FakeSender::new(async |number, _| answered(if number == 0 { 500 } else { 200 }));
    let _server = Serving::start(&world.service, often(&sender)).await;
    world.ingest().await;
    sender.sends(2).await;
    world.is_idle().await;
    assert_eq!(log.lines("").len(), 0, "{}", log.text());
}
