//! Tests of overload.

use std::net::SocketAddr;
use std::time::Duration;

use knowledge_server::metrics::Metrics;
use knowledge_server::net::{NetConfig, Server};
use tokio::sync::oneshot;

use crate::support::exposition::Exposition;
use crate::support::{Child, Client, Running, SHORT, Stub, config, get, guarded, start_chunked};

const ACCEPT_FAILURES: &str = "knowledge_http_accept_failures_total";

async fn server_with_two_permits() -> Running {
    Running::start(NetConfig {
        requests_in_work_max: 2,
        ..config()
    })
    .await
}

/// Starts a server whose permits are taken, and returns the clients that hold them.
async fn busy_server() -> (Running, [Client; 2]) {
    let server = server_with_two_permits().await;
    let mut clients = [server.connect().await, server.connect().await];
    for client in &mut clients {
        client.send(get("/wait")).await;
    }
    server.stub.entered(2).await;
    (server, clients)
}

#[tokio::test]
async fn requests_beyond_cap_are_rejected_and_earlier_ones_complete() {
    let (server, clients) = busy_server().await;
    let mut refused = server.connect().await;
    for _ in 0..3 {
        refused.send(get("/one-more")).await;
        let answer = refused.answer().await;
        assert_eq!(answer.status, 503);
        assert_eq!(answer.body, "GET /one-more Overloaded { retry_after: 1s }");
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.header("connection"), None);
    }
    server.stub.release(2);
    for mut client in clients {
        assert_eq!(client.answer().await.body, "GET /wait test= body=0");
    }
    refused.send(get("/one-more")).await;
    assert_eq!(refused.answer().await.status, 200);
}

#[tokio::test]
async fn health_check_succeeds_at_the_cap() {
    let (server, _clients) = busy_server().await;
    assert_eq!(server.ask(get("/one-more")).await.status, 503);
    assert_eq!(server.ask(get("/healthz")).await.status, 200);
    assert_eq!(server.ask(get("/readyz")).await.status, 200);
}

#[tokio::test]
async fn client_that_goes_releases_its_permit() {
    let (server, clients) = busy_server().await;
    drop(clients);
    guarded("a permit", async {
        while server.ask(get("/one-more")).await.status != 200 {}
    })
    .await;
    assert_eq!(server.stub.dropped(), 2);
}

#[tokio::test]
async fn panic_releases_its_permit() {
    let server = server_with_two_permits().await;
    for _ in 0..10 {
        assert_eq!(server.ask(get("/panic")).await.status, 500);
    }
    assert_eq!(server.ask(get("/")).await.status, 200);
}

#[tokio::test]
async fn stalled_bodies_hold_no_permits() {
    let server = server_with_two_permits().await;
    let mut stalled = Vec::new();
    for _ in 0..50 {
        let mut client = server.connect().await;
        client.send(start_chunked("/echo") + "4\r\nhalf\r\n").await;
        stalled.push(client);
    }
    assert_eq!(server.ask(get("/")).await.status, 200);
    for mut client in stalled {
        client.send("0\r\n\r\n").await;
        assert_eq!(client.answer().await.body, "half");
    }
}

#[tokio::test]
async fn connections_beyond_the_cap_wait_until_one_closes() {
    let mut server = Running::start(NetConfig {
        connections_max: 4,
        connections_per_client_ratio: 1.0,
        ..config()
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut client = server.connect().await;
        client.send(get("/")).await;
        assert_eq!(client.answer().await.status, 200);
        held.push(client);
    }
    let mut waiting = server.connect().await;
    waiting.send(get("/wait")).await;
    let served = tokio::time::timeout(SHORT, server.stub.entered(1)).await;
    assert!(served.is_err(), "a fifth connection was served");
    held.pop();
    server.stub.entered(1).await;
    server.stub.release(1);
    assert_eq!(waiting.answer().await.status, 200);
    server.stop();
    let report = server.stopped().await;
    assert_eq!(
        (report.connections_accepted, report.connections_at_shutdown),
        (5, 4)
    );
}

#[tokio::test]
async fn connection_limit_respects_open_files_limit() {
    const RESERVED: usize = 1_000;
    let server = Server::bind(
        NetConfig {
            connections_max: i32::MAX as usize,
            open_files_reserved: RESERVED,
            ..config()
        },
        Stub::default(),
    )
    .await
    .expect("bind");
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(files) = files {
        let files = usize::try_from(files).expect("a number of files");
        let reserved = RESERVED.min(files / 2);
        assert!(server.connections_max() + reserved <= files);
    }
}

#[test]
fn server_survives_running_out_of_files() {
    let mut child = Child::start("load::child_without_files");
    let address: SocketAddr = child.line_with("address ").parse().expect("an address");
    let client = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async move {
            let mut client = Client::connect(address).await;
            client.send(get("/healthz")).await;
            client.answer().await.status
        })
    });
    child.line_with("accepting connections failed");
    // Long enough for a busy loop to fail many thousands of times.
    std::thread::sleep(SHORT * 3);
    child.tell("give the files back");
    assert_eq!(client.join().expect("an answer"), 200);
    child.tell("stop");
    let failures: u64 = child
        .line_with("accept failures ")
        .parse()
        .expect("a number");
    assert!((1..1_000).contains(&failures), "{failures}");
    child.finish();
}

#[tokio::test]
#[ignore = "run by server_survives_running_out_of_files in a process of its own"]
async fn child_without_files() {
    if !Child::is_this() {
        return;
    }
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit {
        current: Some(64),
        maximum: Some(64),
    };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    tracing_subscriber::fmt()
        .with_writer(std::io::stdout)
        .with_ansi(false)
        .init();

    let metrics = Metrics::new();
    let server = Server::bind(config(), Stub::default()).await.expect("bind");
    let server = server.with_metrics(metrics.http().clone());
    assert_eq!(server.connections_max(), 32);
    let mut files = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    println!("\naddress {}", server.local_addr());
    let (stop, stopped) = oneshot::channel();
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lines();
        lines.next();
        drop(files);
        lines.next();
        let _ = stop.send(());
    });
    let report = server
        .run(async {
            let _ = tokio::time::timeout(Duration::from_secs(60), stopped).await;
        })
        .await;
    let counted = Exposition::parse(&metrics.render()).value(ACCEPT_FAILURES, &[]);
    assert_eq!(counted, report.accept_failures as f64);
    println!("\naccept failures {}", report.accept_failures);
}
