//! The HTTP suite against the real binary, on a directory that is seeded for it.
//!
//! The cases are those of [`knowledge_http_suite`]. `KNOWLEDGE_TEST_ENGINE` chooses the engine of
//! the store. The cases about deliveries run against the server's library in this process, because
//! the binary makes deliveries by itself or not at all.

#[path = "../support/in_process.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod in_process;
#[path = "../support/knowledge.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod knowledge;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use knowledge_core::env::Env;
use knowledge_core::model::{DeliveryFailure, DeliveryFailureCode};
use knowledge_core::service::{Attempt, AttemptOutcome, DeliveryResponse, InFlight};
use knowledge_core::store::MemoryStore;
use knowledge_http_suite::{Deliveries, Service, Settings, Target};
use knowledge_testing::fixture::{self, Fixture};

use self::in_process::InProcess;
use self::knowledge::{Knowledge, open};

/// First argument of a process that keeps a server, followed by the number of organisations.
const KEEPER: &str = "--keep-server";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(KEEPER) {
        let orgs = arguments.next().and_then(|orgs| orgs.parse().ok());
        keep_server(orgs.expect("the number of organisations"));
        return ExitCode::SUCCESS;
    }
    knowledge_http_suite::run(Server)
}

/// The server of this workspace.
struct Server;

#[async_trait(?Send)]
impl Target for Server {
    async fn start(&self, settings: &Settings) -> Service {
        if settings.delivers_on_demand {
            let server = InProcess::over(Arc::new(MemoryStore::new())).await;
            let mut fixture = server.fixture.clone();
            fixture.base_url = Some(server.base_url.clone());
            return Service {
                fixture,
                deliveries: Some(Box::new(OnDemand(server))),
                has_its_connections: true,
            };
        }
        Service {
            fixture: start_keeper(settings.orgs),
            deliveries: None,
            has_its_connections: true,
        }
    }
}

/// The server's library, which makes no deliveries by itself.
struct OnDemand(InProcess);

#[async_trait(?Send)]
impl Deliveries for OnDemand {
    async fn fan_out(&self) {
        let fan_out = || self.0.service.dispatcher().fan_out(Env::system().now());
        while fan_out().await.expect("fanned out").has_more {}
    }

    async fn attempt(&self, url: &str, status: Option<u16>) -> Option<AttemptOutcome> {
        let (service, now) = (&self.0.service, Env::system().now());
        let in_flight = InFlight::default();
        let claimed = service.dispatcher().claim(now, 10, &in_flight).await;
        let claimed = claimed.expect("claimed");
        let [delivery] = claimed.deliveries.as_slice() else {
            panic!("one is due: {claimed:?}");
        };
        assert_eq!(delivery.request.url.as_str(), url);
        let attempt = Attempt {
            duration: Duration::from_millis(35),
            outcome: match status {
                Some(status) => Ok(DeliveryResponse {
                    status,
                    retry_after: None,
                }),
                None => Err(DeliveryFailure {
                    code: DeliveryFailureCode::ConnectionFailed,
                    message: "nobody listens".to_owned(),
                }),
            },
        };
        let finished = service.dispatcher().finish(now, &delivery.lease, &attempt);
        Some(finished.await.expect("finished"))
    }
}

/// Starts a process that seeds a directory and runs the binary on it; returns its fixture.
///
/// It ends both when this process ends in any way, since nothing is dropped then.
fn start_keeper(orgs: usize) -> Fixture {
    let mut keeper = Command::new(std::env::current_exe().expect("this program"))
        .args([KEEPER, &orgs.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the keeper");
    let mut output = BufReader::new(keeper.stdout.take().expect("a pipe"));
    let mut path = String::new();
    output.read_line(&mut path).expect("a line of the keeper");
    assert!(!path.is_empty(), "the keeper seeds a directory");
    // Its standard input stays open until this process ends.
    std::mem::forget(keeper);
    let fixture = fs::read(path.trim_end()).expect("the file of the fixture");
    serde_json::from_slice(&fixture).expect("a fixture")
}

/// Seeds a directory, serves it, prints the path of the fixture, and waits for the parent's end.
#[tokio::main]
async fn keep_server(orgs: usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let service = open(&data_dir).await;
    let seeded = fixture::seed_orgs(&service, orgs).await;
    let mut fixture = seeded.expect("seed the store");
    drop(service);
    let server = Knowledge::serve(&data_dir);
    fixture.base_url = Some(server.base_url.clone());
    let path = directory.path().join("fixture.json");
    fs::write(&path, serde_json::to_vec(&fixture).expect("JSON")).expect("write the fixture");
    println!("{}", path.display());
    // Nothing is sent: the pipe ends with the process at its other end.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    server.kill();
}
