//! What a flood of one organisation costs another: `cargo bench -p knowledge-server --bench fairness`.
//!
//! Both use one server over TCP, with fjall as its store. The flood relabels 1,000 memories per
//! call over many connections; recalls with subscribers cite them. The other organisation makes
//! one bulk update after the other, first alone, then beside the flood, and receives a webhook for
//! each. The times are printed, not asserted. Without `--bench` it makes one short round.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use knowledge_core::access::CredentialKind;
use knowledge_core::env::Env;
use knowledge_core::model::{EventType, MemoryChange, MemoryId, ReviewStatus, WorkspaceId};
use knowledge_core::service::{
    Attempt, DeliveryRequest, DeliveryResponse, DeliverySender, KnowledgeService, NewRecall,
    Options, SealingKey,
};
use knowledge_server::app::App;
use knowledge_server::deliveries::Deliveries;
use knowledge_server::net::NetConfig;
use knowledge_storage_fjall::{FjallOptions, FjallStore};
use knowledge_testing::requests::{new_memory, new_organization, new_token, new_workspace};
use knowledge_testing::seed::{Seed, confirm};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Memories of an organisation, which each of its bulk updates changes.
const MEMORIES: usize = 1_000;
/// Memories that a recall cites.
const CITED: usize = 500;
/// Connections of the flood.
const CONNECTIONS: usize = 16;
/// Host of the endpoint of the measured organisation.
const MEASURED_HOST: &str = "measured.example";

/// Size of a round.
struct Scale {
    recalls: usize,
    subscriptions: usize,
    calls: usize,
}

const SHORT: Scale = Scale {
    recalls: 2,
    subscriptions: 1,
    calls: 3,
};
const FULL: Scale = Scale {
    recalls: 1_000,
    subscriptions: 20,
    calls: 100,
};

fn main() {
    let is_full = std::env::args().any(|argument| argument == "--bench");
    let scale = if is_full { FULL } else { SHORT };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(run(&scale));
}

async fn run(scale: &Scale) {
    let directory = tempfile::tempdir().expect("a directory can be created");
    let store = FjallStore::open(directory.path(), FjallOptions::default()).expect("a store opens");
    let env = Env::system();
    let options = Options::new(SealingKey::generate(&env));
    let service = KnowledgeService::open(Arc::new(store), env, options).await;
    let service = service.expect("the service opens");
    let flooding = Organization::create(&service, "flooding").await;
    for number in 0..scale.recalls {
        flooding.cite(number < scale.subscriptions).await;
    }
    let measured = Organization::create(&service, "measured").await;
    let url = format!("https://{MEASURED_HOST}/");
    let webhook = measured
        .seed
        .webhook(measured.workspace, EventType::MemoryUpdated, &url);
    let webhook = webhook.await.expect("a webhook").id.into();
    confirm(&service, webhook).await.expect("confirmed");

    let receiver = Arc::new(Receiver::default());
    let config = NetConfig {
        address: "127.0.0.1:0".parse().expect("an address"),
        ..NetConfig::default()
    };
    let app = App::bind(service, config).await.expect("it binds");
    let address = app.local_addr();
    let app = app.deliver_with(Deliveries::through(receiver.clone()));
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(app.run(async {
        let _ = stopped.await;
    }));
    let alone = measured.measure(address, &receiver, scale.calls).await;
    alone.print("alone");

    let ends = Arc::new(AtomicBool::new(false));
    let connections: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (flooding, ends) = (flooding.clone(), Arc::clone(&ends));
            tokio::spawn(async move {
                let mut client = connect(address).await;
                while !ends.load(Ordering::Relaxed) {
                    flooding.relabel(&mut client).await;
                }
            })
        })
        .collect();
    let flood = || flooding.updates.load(Ordering::Relaxed);
    while flood() < 2 * CONNECTIONS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (began, before) = (Instant::now(), flood());
    let beside = measured.measure(address, &receiver, scale.calls).await;
    let rate = (flood() - before) as f64 / began.elapsed().as_secs_f64();
    ends.store(true, Ordering::Relaxed);
    for connection in connections {
        connection.await.expect("the flood ends");
    }
    beside.print(&format!(
        "beside {rate:.0} updates of another organisation a second"
    ));
    drop(stop);
    server.await.expect("the server stops");
}

/// An organisation with memories in one workspace.
#[derive(Clone)]
struct Organization {
    seed: Seed,
    workspace: WorkspaceId,
    memories: Arc<Vec<MemoryId>>,
    token: String,
    updates: Arc<AtomicUsize>,
}

impl Organization {
    async fn create(service: &KnowledgeService, slug: &str) -> Self {
        let seed = Seed::new(service, &new_organization(slug, "owner")).await;
        let seed = seed.expect("the organisation is created");
        let workspace = seed.workspace(&new_workspace("w")).await;
        let workspace = workspace.expect("the workspace is created").id;
        let source = seed.source("Wiki", "wiki").await.expect("a source");
        let memories: Vec<_> = (0..MEMORIES)
            .map(|number| new_memory(&format!("Memory {number}")))
            .collect();
        let memories = seed.ingest(workspace, source, &memories).await;
        let memories = memories.expect("the memories are ingested");
        let approve = MemoryChange::builder().review_status(ReviewStatus::Approved);
        let approved = seed.bulk_update("approve", &memories, approve.build());
        approved.await.expect("the memories are approved");
        let token = new_token(seed.founder.id, CredentialKind::Bearer);
        let token = seed.issue(&token).await.expect("a token").secret;
        Self {
            seed,
            workspace,
            memories: Arc::new(memories),
            token: token.expose().to_owned(),
            updates: Arc::default(),
        }
    }

    /// Creates a recall of some memories, with or without a subscriber.
    async fn cite(&self, is_subscribed: bool) {
        let recall = NewRecall::builder()
            .query("What was decided?")
            .memory_ids(self.memories[..CITED].to_vec())
            .build();
        let recall = self.seed.recall(self.workspace, &recall).await;
        let recall = recall.expect("a recall");
        if is_subscribed {
            let url = format!("https://{recall}.flooding.example/");
            let subscribed = self.seed.subscription(recall, &url).await;
            let subscription = subscribed.expect("a subscription").into();
            let confirmed = confirm(&self.seed.service, subscription).await;
            confirmed.expect("confirmed");
        }
    }

    /// Relabels all memories in one call.
    async fn relabel(&self, client: &mut SendRequest<Full<Bytes>>) {
        let number = self.updates.fetch_add(1, Ordering::Relaxed);
        let body = serde_json::json!({
            "memoryIds": *self.memories,
            "sensitivityLabel": if number.is_multiple_of(2) { "public" } else { "internal" },
        });
        let request = Request::patch("/v1/memories/bulk")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token))
            .header("idempotency-key", format!("update-{number}"))
            .header("content-type", "application/json")
            .body(Full::from(body.to_string()))
            .expect("a request");
        client.ready().await.expect("the connection is open");
        let response = client.send_request(request).await.expect("a response");
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body");
        // An update that conflicts with too many others gives up.
        let is_expected = matches!(status, StatusCode::OK | StatusCode::CONFLICT);
        assert!(is_expected, "{status} {:?}", body.to_bytes());
    }

    /// Makes bulk updates one after the other, and waits for the webhook of each.
    async fn measure(&self, address: SocketAddr, receiver: &Receiver, calls: usize) -> Times {
        let mut client = connect(address).await;
        let mut times = Times::default();
        for _ in 0..calls {
            let before = receiver.events();
            let began = Instant::now();
            self.relabel(&mut client).await;
            let answered = Instant::now();
            times.calls.push(answered - began);
            // An event of 1,000 memories is delivered in three parts.
            while receiver.events() < before + 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            times.webhooks.push(answered.elapsed());
        }
        times
    }
}

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.expect("it connects");
    let (client, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    client
}

/// A sender that delivers to nobody and counts the events of the measured organisation.
#[derive(Default)]
struct Receiver {
    events: AtomicUsize,
}

impl Receiver {
    fn events(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl DeliverySender for Receiver {
    async fn send(&self, request: &DeliveryRequest) -> Attempt {
        let body = String::from_utf8_lossy(&request.body);
        let is_measured = request.url.to_string().contains(MEASURED_HOST);
        if is_measured && body.contains("memory.updated") {
            self.events.fetch_add(1, Ordering::Relaxed);
        }
        Attempt {
            duration: Duration::from_millis(1),
            outcome: Ok(DeliveryResponse {
                status: 204,
                retry_after: None,
            }),
        }
    }
}

/// Times of the measured organisation.
#[derive(Default)]
struct Times {
    calls: Vec<Duration>,
    webhooks: Vec<Duration>,
}

impl Times {
    fn print(mut self, beside: &str) {
        for (what, times) in [
            ("bulk update", &mut self.calls),
            ("last webhook", &mut self.webhooks),
        ] {
            times.sort_unstable();
            let at = |percent: usize| times[(times.len() - 1) * percent / 100];
            let (median, slow) = (at(50), at(95));
            println!("{what}, {beside}: median {median:.1?}, 95 % {slow:.1?}");
        }
    }
}
