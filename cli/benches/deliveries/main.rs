//! Throughput and cost of deliveries: `cargo bench -p knowledge-cli --bench deliveries`.
//!
//! The real binary delivers to a receiver on the loopback interface: first events that have waited
//! while a server did not deliver, then events as they happen. Beside it, a process that does
//! nothing but send the same requests with the same HTTP library shows what the machine permits.
//! Every event has to arrive at every endpoint exactly once, signed, and nothing may be left; the
//! figures are printed, not asserted. `KNOWLEDGE_TEST_ENGINE` chooses the engine. Without `--bench`
//! it makes one short round. Options of a measurement:
//!
//! - `--out DIRECTORY` makes five rounds and writes their medians to `deliveries.json` there.
//! - `--postgres PROCESS@DIRECTORY` makes rounds over PostgreSQL too, with databases of the server
//!   that belongs to this process and has its socket in this directory.
//! - `--wait SECONDS` limits the wait for an idle machine before the rounds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use knowledge_core::access::CredentialKind;
use knowledge_core::model::{MemoryId, WorkspaceId};
use knowledge_testing::requests::{new_memory, new_organization, new_token, new_workspace};
use knowledge_testing::seed::Seed;
use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::knowledge::{Knowledge, database_at, open};
use self::receiver::Receiver;
use self::report::{Row, Sample, Target};

mod bare;
#[path = "../support/database.rs"]
mod database;
#[path = "../../tests/support/knowledge.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod knowledge;
#[path = "../support/machine.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod machine;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod process;
mod receiver;
#[path = "../support/report.rs"]
mod report;

/// Memories that the updates change in turn.
const MEMORIES: usize = 100;
/// Concurrent requests of the clients that update memories, and of the bare loop.
const CONCURRENT: usize = 32;
/// Time limit of a round.
const ROUND_MAX: Duration = Duration::from_secs(600);
/// Rounds whose medians are written.
const ROUNDS: usize = 5;
/// Default limit of the wait for an idle machine.
const IDLE_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// Size of a round: endpoints, and updates that each of them receives.
struct Scale {
    endpoints: usize,
    waiting: usize,
    live: usize,
}

const SHORT: [Scale; 1] = [Scale {
    endpoints: 3,
    waiting: 20,
    live: 20,
}];
const FULL: [Scale; 2] = [
    Scale {
        endpoints: 1,
        waiting: 10_000,
        live: 5_000,
    },
    Scale {
        endpoints: 50,
        waiting: 2_000,
        live: 500,
    },
];

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, url, count] = arguments.as_slice()
        && role == bare::ROLE
    {
        return runtime.block_on(bare::run(url, count.parse().expect("a number")));
    }
    let is_full = arguments.iter().any(|argument| argument == "--bench");
    let scales = if is_full { &FULL[..] } else { &SHORT[..] };
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        Some(arguments.get(at + 1).expect("the option has a value"))
    };
    let out = option("--out");
    let postgres = option("--postgres").map(|option| Postgres::read(option));
    let wait = option("--wait").map_or(IDLE_WAIT_DEFAULT, |seconds| {
        Duration::from_secs(seconds.parse().expect("a number of seconds"))
    });
    runtime.block_on(async {
        let mut rows = Vec::new();
        for place in [None].into_iter().chain(postgres.as_ref().map(Some)) {
            for scale in scales {
                match out {
                    Some(_) => rows.extend(measure(scale, place, wait).await),
                    None => {
                        run(scale, place).await;
                    }
                }
            }
        }
        if let Some(directory) = out {
            report::write(&Path::new(directory).join("deliveries.json"), &rows);
        }
    });
}

/// A PostgreSQL server.
struct Postgres {
    /// Process to which it belongs.
    id: u32,
    /// Directory of its socket.
    socket: PathBuf,
}

impl Postgres {
    /// Returns the server that `PROCESS@DIRECTORY` denotes.
    fn read(option: &str) -> Self {
        let (id, socket) = option.split_once('@').expect("PROCESS@DIRECTORY");
        Self {
            id: id.parse().expect("the identifier of a process"),
            socket: socket.into(),
        }
    }
}

/// Makes rounds on a machine that is idle before them, and returns their medians.
async fn measure(scale: &Scale, postgres: Option<&Postgres>, wait: Duration) -> Vec<Row> {
    let is_idle = machine::wait_until_idle(wait).await;
    let (mut waiting, mut live) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let round = run(scale, postgres).await;
        waiting.push(round.waiting);
        live.push(round.live);
    }
    let row = |name: &str, target, samples: &[Sample]| {
        let name = match scale.endpoints {
            1 => format!("{name}, 1 endpoint"),
            endpoints => format!("{name}, {endpoints} endpoints"),
        };
        let name = match postgres {
            Some(_) => format!("{name}, {}", database::NAME),
            None => name,
        };
        let row = Row::new("deliveries", name, "/s", target, samples);
        Row {
            idle: is_idle,
            ..row.against("requests of the same HTTP client in a bare loop")
        }
    };
    // Half of the bare loop is what an embedded engine has to reach.
    let target = match postgres {
        Some(_) => Target::None,
        None => Target::RatioAtLeast(0.5),
    };
    vec![
        row("webhook deliveries that have waited", target, &waiting),
        row(
            "webhook deliveries as they happen, updates included",
            Target::None,
            &live,
        ),
    ]
}

/// Figures of a round.
struct Round {
    waiting: Sample,
    live: Sample,
}

async fn run(scale: &Scale, postgres: Option<&Postgres>) -> Round {
    let receiver = Receiver::start().await;
    let site = Site::create(postgres).await;
    let endpoints = scale.endpoints;
    match postgres {
        Some(_) => println!("{endpoints} endpoints, {}", database::NAME),
        None => println!("{endpoints} endpoints"),
    }

    let server = site.serve(true);
    let secrets = site.register(&server, &receiver, endpoints).await;
    stop(server);
    let server = site.serve(false);
    let mut operations = site.update(&server, scale.waiting).await;
    let cpu_ms = process::cpu_ms(server.id()) / scale.waiting as f64;
    println!("  update: {cpu_ms:.3} ms of CPU");
    stop(server);

    let server = site.serve(true);
    let waiting = Measured::begin(&server, postgres);
    let expected = scale.waiting * endpoints;
    receiver.wait(expected, ROUND_MAX).await;
    let waiting = waiting.print("waiting", expected);
    let bare = print_bare(&receiver, expected.min(20_000), waiting.per_second);
    site.assert_settled(server).await;

    let server = site.serve(true);
    let live = Measured::begin(&server, postgres);
    operations.extend(site.update(&server, scale.live).await);
    let expected = (scale.waiting + scale.live) * endpoints;
    receiver.wait(expected, ROUND_MAX).await;
    let live = live.print("live, updates included", scale.live * endpoints);
    site.assert_settled(server).await;
    assert_eq!(operations.len(), scale.waiting + scale.live);
    receiver.assert_received(&secrets, &operations);
    Round {
        waiting: waiting.beside(&bare),
        live: live.beside(&bare),
    }
}

/// Ends a server in order, so that the next one does not check its store.
fn stop(server: Knowledge) {
    server.terminate();
    assert!(server.ended().success());
}

/// Sends as many bare requests, and prints and returns their figures beside the rate of deliveries.
fn print_bare(receiver: &Receiver, count: usize, rate: f64) -> Figures {
    let program = std::env::current_exe().expect("the path of this program");
    let url = receiver.bare_url();
    let output = Command::new(program)
        .args([bare::ROLE, &url, &count.to_string()])
        .output()
        .expect("the bare loop runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let mut numbers = printed
        .split_whitespace()
        .filter_map(|word| word.parse::<f64>().ok());
    let mut next = || numbers.next().expect("a rate and a time");
    let (per_second, cpu_ms) = (next(), next());
    println!(
        "  bare loop: {} ({:.0} % reached)",
        printed.trim(),
        100.0 * rate / per_second
    );
    Figures { per_second, cpu_ms }
}

/// Rate of requests, and processor time of each.
struct Figures {
    per_second: f64,
    cpu_ms: f64,
}

impl Figures {
    /// Returns a sample with the figures of the bare loop as its reference.
    fn beside(&self, bare: &Self) -> Sample {
        Sample {
            value: self.per_second,
            reference: bare.per_second,
            per_second: self.per_second,
            cpu_us: 1e3 * self.cpu_ms,
            reference_cpu_us: 1e3 * bare.cpu_ms,
        }
    }
}

/// Measurement of a server, and of its database.
struct Measured {
    began: Instant,
    server: u32,
    processes: Vec<u32>,
    cpu_ms: f64,
}

impl Measured {
    fn begin(server: &Knowledge, postgres: Option<&Postgres>) -> Self {
        let server = server.id();
        let database = postgres.map(|postgres| postgres.id);
        let processes: Vec<_> = [server].into_iter().chain(database).collect();
        Self {
            began: Instant::now(),
            server,
            cpu_ms: process::cpu_ms_of(&processes),
            processes,
        }
    }

    /// Prints and returns what the deliveries took.
    fn print(&self, what: &str, deliveries: usize) -> Figures {
        let (count, elapsed) = (deliveries as f64, self.began.elapsed().as_secs_f64());
        let cpu_ms = (process::cpu_ms_of(&self.processes) - self.cpu_ms) / count;
        let (per_second, peak) = (count / elapsed, process::peak_mib(self.server));
        println!(
            "  {what}: {per_second:.0} deliveries/s, {cpu_ms:.3} ms of CPU each, {peak:.0} MiB"
        );
        Figures { per_second, cpu_ms }
    }
}

/// A data directory, or a database that stands for one, with an organisation.
struct Site {
    _directory: TempDir,
    data_dir: PathBuf,
    token: String,
    workspace: WorkspaceId,
    memories: Vec<MemoryId>,
    client: Client,
}

impl Site {
    async fn create(postgres: Option<&Postgres>) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be created");
        let data_dir = directory.path().join("data");
        if let Some(postgres) = postgres {
            database_at(&data_dir, &database::create(&postgres.socket).await);
        }
        let service = open(&data_dir).await;
        let seed = Seed::new(&service, &new_organization("acme", "owner")).await;
        let seed = seed.expect("the organisation is created");
        let workspace = seed.workspace(&new_workspace("w")).await;
        let workspace = workspace.expect("the workspace is created").id;
        let source = seed.source("Wiki", "wiki").await.expect("a source");
        let memories: Vec<_> = (0..MEMORIES)
            .map(|number| new_memory(&format!("Memory {number}")))
            .collect();
        let memories = seed.ingest(workspace, source, &memories).await;
        let token = new_token(seed.founder.id, CredentialKind::Bearer);
        let token = seed.issue(&token).await.expect("a token").secret;
        Self {
            _directory: directory,
            data_dir,
            token: token.expose().to_owned(),
            workspace,
            memories: memories.expect("the memories are ingested"),
            client: bare::client(),
        }
    }

    fn serve(&self, delivers: bool) -> Knowledge {
        let delivers = delivers.to_string();
        let variables = [
            ("KNOWLEDGE_WEBHOOKS__ALLOW", "127.0.0.0/8"),
            ("KNOWLEDGE_WEBHOOKS__ALLOW_HTTP", "true"),
            ("KNOWLEDGE_WEBHOOKS__DELIVER", &delivers),
            ("KNOWLEDGE_RATE_LIMIT__REQUESTS", "0"),
            ("KNOWLEDGE_LIMITS__PINGS_PER_HOST_MAX", "900"),
        ];
        Knowledge::serve_with(&self.data_dir, &variables)
    }

    /// Registers webhooks, waits for their confirmation, and returns their secrets.
    async fn register(
        &self,
        server: &Knowledge,
        receiver: &Receiver,
        endpoints: usize,
    ) -> Vec<String> {
        let path = format!("/v1/workspaces/{}/webhooks", self.workspace);
        let url = format!("{}{path}", server.base_url);
        let create = |number: usize| {
            let new = json!({ "event_type": "memory.updated", "url": receiver.url(number) });
            self.send(self.client.post(&url).body(new.to_string()))
        };
        let created = stream::iter(0..endpoints).then(create);
        let created = created.try_collect::<Vec<_>>().await;
        let created = created.expect("the webhooks are created");
        let text = |webhook: &Value, field: &str| webhook[field].as_str().expect(field).to_owned();
        for webhook in &created {
            let url = format!("{url}/{}", text(webhook, "id"));
            let is_confirmed = async || {
                let webhook = self.send(self.client.get(&url)).await;
                webhook.expect("a webhook")["is_confirmed"] == true
            };
            while !is_confirmed().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let secrets = created
            .iter()
            .map(|webhook| text(webhook, "signing_secret"));
        secrets.collect()
    }

    /// Updates one memory per request, and returns the operations.
    async fn update(&self, server: &Knowledge, updates: usize) -> BTreeSet<String> {
        let url = &format!("{}/v1/memories/bulk", server.base_url);
        let update = async |number: usize| {
            let audience = format!("team:{}", fastrand::u64(..));
            let memory = self.memories[number % MEMORIES];
            let body = json!({ "memoryIds": [memory], "audienceTag": audience });
            let request = self.client.patch(url).header("idempotency-key", audience);
            let result = self.send(request.body(body.to_string())).await;
            let result = result.expect("the update succeeds");
            assert_eq!(result["summary"]["succeeded"], 1, "{result}");
            result["operationId"].as_str().expect("an id").to_owned()
        };
        let updates = stream::iter(0..updates).map(update);
        updates.buffer_unordered(CONCURRENT).collect().await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> reqwest::Result<Value> {
        let request = request
            .bearer_auth(&self.token)
            .header("content-type", "application/json");
        let body = request.send().await?.error_for_status()?.bytes().await?;
        Ok(serde_json::from_slice(&body).expect("JSON"))
    }

    /// Ends the server, and checks that all deliveries are recorded as delivered.
    async fn assert_settled(&self, server: Knowledge) {
        stop(server);
        let service = open(&self.data_dir).await;
        let status = service
            .dispatcher()
            .outbox_status()
            .await
            .expect("the status");
        assert_eq!((status.pending_events, status.undelivered), (0, 0));
    }
}
