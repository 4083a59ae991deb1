//! SIGTERM to the real server.
//!
//! Requests in flight complete, and requests without a response have no effect.

use std::time::Duration;

use http::Method;
use knowledge_core::internals::keys;
use knowledge_core::model::{MemoryId, MemoryLabels};
use knowledge_core::service::KnowledgeService;
use knowledge_core::store::StoreExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::knowledge::{Knowledge, open};
use crate::lane::Lane;
use crate::ledger::Ledger;
use crate::load::Load;
use crate::{CLIENTS, MEMORIES, World, seeded};
use knowledge_http_suite::client::{Call, GUARD};

const ROUNDS: usize = 3;
const ACKNOWLEDGED: usize = 50;

async fn guarded<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(GUARD, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited too long for {what}"),
    }
}

/// A bulk update whose body the test delays.
struct Slow {
    stream: TcpStream,
    body: String,
}

impl Slow {
    /// Sends the header and half of the body, and waits until the server asks for the rest.
    async fn begin(server: &Knowledge, world: &World, body: &Value) -> Self {
        let body = body.to_string();
        let mut stream = TcpStream::connect(server.address()).await.expect("connect");
        let head = format!(
            "PATCH /v1/memories/bulk HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\
             Idempotency-Key: slow\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Expect: 100-continue\r\n\r\n",
            world.token,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("send");
        let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
        let mut asked = vec![0; expected.len()];
        guarded("the server to ask", stream.read_exact(&mut asked))
            .await
            .expect("the server asks for the body");
        assert_eq!(asked, expected);
        let half = &body.as_bytes()[..body.len() / 2];
        stream.write_all(half).await.expect("send");
        Self { stream, body }
    }

    /// Sends the rest, and returns the header and the body of the response.
    async fn finish(mut self) -> (String, Value) {
        let rest = &self.body.as_bytes()[self.body.len() / 2..];
        self.stream.write_all(rest).await.expect("send");
        let mut answer = Vec::new();
        guarded("the answer", self.stream.read_to_end(&mut answer))
            .await
            .expect("an answer and an end");
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
        let body = serde_json::from_str(body).expect("a whole body");
        (head.to_ascii_lowercase(), body)
    }
}

async fn refuses_connections(server: &Knowledge) {
    guarded("connections to be refused", async {
        while TcpStream::connect(server.address()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_update_in_flight_completes_on_sigterm() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let (world, memories) = seeded(&data_dir).await;
    let memories = &memories[..1_000];
    let update = json!({ "memoryIds": memories, "audienceTag": "team:slow" });

    let server = Knowledge::serve(&data_dir);
    let slow = Slow::begin(&server, &world, &update).await;
    server.terminate();
    refuses_connections(&server).await;
    let (head, answer) = slow.finish().await;
    assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
    assert!(head.contains("\r\nconnection: close"), "{head}");
    assert_eq!(answer["summary"]["succeeded"], memories.len());
    assert_eq!(
        answer["results"].as_array().map(Vec::len),
        Some(memories.len())
    );
    assert_eq!(server.ended().code(), Some(0));

    let stored = stored_audiences(&open(&data_dir).await, &world, memories).await;
    assert!(stored.iter().all(|audience| audience == "team:slow"));
    let server = Knowledge::serve(&data_dir);
    let replay = Call::new(Method::PATCH, "/v1/memories/bulk")
        .bearer(&world.token)
        .key("slow")
        .json(&update)
        .try_send_to(&server.base_url)
        .await
        .expect("an answer")
        .json();
    assert_eq!(replay["replayed"], true);
    assert_eq!(replay["operationId"], answer["operationId"]);
    assert_eq!(replay["results"], answer["results"]);
}

async fn stored_audiences(
    service: &KnowledgeService,
    world: &World,
    memories: &[MemoryId],
) -> Vec<String> {
    let keys: Vec<_> = memories
        .iter()
        .map(|id| keys::memory(world.org, *id))
        .collect();
    let found = service.store().get_many_as::<MemoryLabels>(&keys).await;
    let labels = found.expect("read the store").into_iter();
    labels
        .map(|labels| labels.expect("a memory").value.audience.to_string())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unacknowledged_request_has_no_effect_after_sigterm() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let (world, memories) = seeded(&data_dir).await;
    let mut lanes: Vec<_> = memories
        .chunks(MEMORIES / CLIENTS)
        .map(|memories| Lane::new(memories, &mut rng))
        .collect();
    let mut ledger = Ledger::begin(&open(&data_dir).await, &world).await;
    for _ in 0..ROUNDS {
        let server = Knowledge::serve(&data_dir);
        let load = Load::start(&server.base_url, &world.token, lanes);
        load.acknowledged(ACKNOWLEDGED).await;
        server.terminate();
        let outcomes = load.ended().await;
        assert_eq!(server.ended().code(), Some(0));
        lanes = Vec::new();
        let mut unanswered = Vec::new();
        for outcome in outcomes {
            ledger.note_acknowledged(outcome.acknowledged);
            unanswered.push(outcome.unanswered);
            lanes.push(outcome.lane);
        }
        let service = open(&data_dir).await;
        let done = ledger
            .compare(&service, &world, &mut lanes, &unanswered)
            .await;
        assert_eq!(done, 0, "done and not answered");
    }
}
