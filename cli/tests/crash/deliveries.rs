//! Deliveries of the real binary over its store on disk, killed at the worst moments.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use knowledge_core::model::MemoryId;
use knowledge_testing::fixture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

use self::receiver::{Received, Receiver};
use crate::knowledge::{Knowledge, open};
use knowledge_http_suite::client::{Call, GUARD};

#[path = "../../../server-warp/tests/deliveries/support/receiver.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod receiver;

/// Awaits a future that must complete.
async fn guarded<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(GUARD, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited too long for {what}"),
    }
}

/// Waits until a condition is true.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    guarded(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A directory with an organisation, and the clients' knowledge of it.
struct Site {
    _directory: TempDir,
    data_dir: PathBuf,
    token: String,
    workspace: String,
    memories: Vec<MemoryId>,
}

impl Site {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let data_dir = directory.path().join("data");
        let service = open(&data_dir).await;
        let seeded = fixture::seed_orgs(&service, 1).await;
        let org = seeded.expect("seed the store").orgs.remove(0);
        Self {
            _directory: directory,
            data_dir,
            token: org.members.owner.token,
            workspace: org.main.id.to_string(),
            memories: org.main.memories.internal,
        }
    }

    /// Starts a server that may deliver to this machine.
    fn serve(&self) -> Knowledge {
        self.serve_with(&[])
    }

    fn serve_with(&self, more: &[(&str, &str)]) -> Knowledge {
        let mut variables = vec![
            ("KNOWLEDGE_WEBHOOKS__ALLOW", "127.0.0.0/8"),
            ("KNOWLEDGE_WEBHOOKS__ALLOW_HTTP", "true"),
        ];
        variables.extend_from_slice(more);
        Knowledge::serve_with(&self.data_dir, &variables)
    }

    async fn ask(&self, server: &Knowledge, call: Call) -> Value {
        let answer = call.bearer(&self.token).send_to(&server.base_url).await;
        assert!(answer.status.is_success(), "{answer:?}");
        answer.json()
    }

    fn webhooks(&self) -> String {
        format!("/v1/workspaces/{}/webhooks", self.workspace)
    }

    /// Registers a webhook for changes of memories.
    async fn register(&self, server: &Knowledge, receiver: &Receiver) -> Webhook {
        let new = json!({ "event_type": "memory.updated", "url": receiver.url() });
        let call = Call::new(Method::POST, self.webhooks()).json(&new);
        let webhook = self.ask(server, call).await;
        let text = |field: &str| webhook[field].as_str().expect(field).to_owned();
        Webhook {
            id: text("id"),
            secret: text("signing_secret"),
        }
    }

    /// Changes one memory, and returns the operation.
    async fn change(&self, server: &Knowledge, memory: usize, key: &str) -> String {
        let update = json!({
            "memoryIds": [self.memories[memory]],
            "audienceTag": format!("team:{key}"),
        });
        let call = Call::new(Method::PATCH, "/v1/memories/bulk")
            .key(key)
            .json(&update);
        let result = self.ask(server, call).await;
        assert_eq!(result["summary"]["succeeded"], 1, "{result}");
        result["operationId"].as_str().expect("an id").to_owned()
    }

    /// Waits until each delivery to the webhook is completed, and returns those of events.
    async fn settled(&self, server: &Knowledge, webhook: &Webhook) -> Vec<Value> {
        let path = format!("{}/{}/deliveries", self.webhooks(), webhook.id);
        let mut found = Vec::new();
        until("the deliveries to settle", async || {
            let call = Call::new(Method::GET, path.clone());
            let page = self.ask(server, call).await;
            found = page["data"].as_array().expect("a list").clone();
            let is_settled = found.iter().all(|delivery| delivery["status"] != "pending");
            found.retain(|delivery| delivery["event_type"] != "webhook.ping");
            is_settled
        })
        .await;
        found
    }
}

/// A webhook as its owner knows it.
struct Webhook {
    id: String,
    secret: String,
}

fn operation(received: &Received) -> String {
    let body = received.json();
    let operation = body["data"]["operation_id"].as_str();
    operation.unwrap_or_else(|| panic!("{body}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committed_event_is_sent_after_kill_9() {
    let site = Site::new().await;
    let receiver = Receiver::taking().await;
    let server = site.serve_with(&[("KNOWLEDGE_WEBHOOKS__DELIVER", "false")]);
    let webhook = site.register(&server, &receiver).await;
    let changed = site.change(&server, 0, "first").await;
    server.kill();
    assert_eq!(receiver.received().len(), 0);

    let server = site.serve();
    let received = receiver.receives(1).await;
    received[0].verify(&webhook.secret);
    assert_eq!(operation(&received[0]), changed);
    let deliveries = site.settled(&server, &webhook).await;
    assert_eq!(deliveries.len(), 1, "{deliveries:?}");
    assert_eq!(deliveries[0]["status"], "delivered");
    assert_eq!(deliveries[0]["id"], received[0].id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unrecorded_delivery_is_sent_again_with_same_identifier() {
    let site = Site::new().await;
    let (receiver, gate) = Receiver::held().await;
    let server = site.serve();
    let webhook = site.register(&server, &receiver).await;
    let changed = site.change(&server, 0, "first").await;
    receiver.receives(1).await;
    // The kernel holds the response for a process that never reads it.
    server.pause();
    gate.add_permits(2);
    receiver.answers(1).await;
    server.kill();

    let server = site.serve();
    let received = receiver.receives(2).await;
    assert_eq!(received[0].id(), received[1].id());
    assert_eq!(received[0].body, received[1].body);
    for request in &received {
        request.verify(&webhook.secret);
        assert_eq!(operation(request), changed);
    }
    let deliveries = site.settled(&server, &webhook).await;
    assert_eq!(deliveries.len(), 1, "{deliveries:?}");
    assert_eq!(deliveries[0]["status"], "delivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_lets_the_exchange_in_flight_complete() {
    let site = Site::new().await;
    let (receiver, gate) = Receiver::held().await;
    let server = site.serve();
    let webhook = site.register(&server, &receiver).await;
    site.change(&server, 0, "first").await;
    receiver.receives(1).await;
    server.terminate();
    guarded("connections to be refused", async {
        while TcpStream::connect(server.address()).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
    gate.add_permits(1);
    let ended = tokio::task::spawn_blocking(|| server.ended()).await;
    assert_eq!(ended.expect("no panic").code(), Some(0));

    let server = site.serve_with(&[("KNOWLEDGE_WEBHOOKS__DELIVER", "false")]);
    let deliveries = site.settled(&server, &webhook).await;
    assert_eq!(deliveries.len(), 1, "{deliveries:?}");
    assert_eq!(deliveries[0]["status"], "delivered");
    assert_eq!(deliveries[0]["attempts"][0]["status"], 200);
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_changes_are_announced_despite_kills() {
    const KILLS: usize = 4;
    const CHANGES: usize = 12;
    let site = Site::new().await;
    let receiver = Receiver::taking().await;
    let mut server = site.serve();
    let webhook = site.register(&server, &receiver).await;
    let mut operations = BTreeSet::new();
    for round in 0..KILLS {
        for change in 0..CHANGES {
            let key = format!("change-{round}-{change}");
            operations.insert(site.change(&server, change, &key).await);
        }
        // At some moment between the first and the last of them.
        receiver.receives(round * CHANGES + 1).await;
        server.kill();
        server = site.serve();
    }
    let announced =
        |received: &[Received]| -> BTreeSet<String> { received.iter().map(operation).collect() };
    let received = receiver
        .receives_until("all operations", |received| {
            announced(received).len() >= operations.len()
        })
        .await;
    assert_eq!(announced(&received), operations);
    for request in &received {
        request.verify(&webhook.secret);
    }
    let ids: BTreeSet<&str> = received.iter().map(Received::id).collect();
    assert_eq!(
        ids.len(),
        operations.len(),
        "a delivery keeps its identifier"
    );
    let deliveries = site.settled(&server, &webhook).await;
    for delivery in &deliveries {
        assert_eq!(delivery["status"], "delivered", "{delivery}");
    }
}
