//! Tests of the service's metrics: routes, store and maintenance.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use knowledge_core::env::Env;
use knowledge_core::service::{KnowledgeService, Options, SealingKey};
use knowledge_core::store::MemoryStore;
use knowledge_http_suite::rows;
use knowledge_server::app::App;
use knowledge_server::metrics::Metrics;
use knowledge_server::net::NetConfig;
use knowledge_store::faults::{FaultPlan, FaultRates, FaultStore};
use tokio::sync::oneshot;

use crate::support::{BULK, Call, Observed};

const ANSWERED: &str = "knowledge_http_requests_total";
const REPLAYS: &str = "knowledge_http_idempotent_replays_total";
const CONFLICTS: &str = "knowledge_store_conflicts_total";
const RETRIES: &str = "knowledge_store_transaction_retries_total";
const ERRORS: &str = "knowledge_store_errors_total";
const STORE_CALLS: &str = "knowledge_store_operation_duration_seconds_count";
const MEMORIES: &str = "knowledge_memories";
const BACKLOG: &str = "knowledge_review_backlog_memories";
const DASHBOARD: &str = "/v1/workspaces/{id}/dashboard-summary";

async fn observed() -> Observed {
    Observed::start(Arc::new(MemoryStore::new())).await
}

/// Starts a server whose store fails at these rates, once told to.
async fn failing(rates: FaultRates) -> (Observed, Arc<FaultStore>) {
    let plan = FaultPlan::seeded(1, rates);
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new()), plan));
    store.disable_faults();
    let server = Observed::start(store.clone()).await;
    // Maintenance would cause faults too, more than the test expects.
    (server, store)
}

#[tokio::test]
async fn requests_are_counted_by_path_of_their_operation() {
    let server = observed().await;
    let slug = &server.fixture.orgs[0].slug;
    let calls = rows! {
        (server.bulk("a", "approved"), BULK, "PATCH", "200"),
        (server.dashboard(), DASHBOARD, "GET", "200"),
        (server.dashboard().method(Method::HEAD), DASHBOARD, "HEAD", "200"),
        (server.dashboard().method(Method::DELETE), DASHBOARD, "DELETE", "405"),
        (
            Call::new(Method::GET, format!("/v1/orgs/{slug}/custom-roles")),
            "/v1/orgs/{orgSlug}/custom-roles",
            "GET",
            "401",
        ),
        (Call::new(Method::GET, "/v1/nothing"), "unmatched", "GET", "404"),
    };
    for (call, route, method, status) in calls {
        let labels = [("route", route), ("method", method), ("status", status)];
        assert_eq!(server.number(ANSWERED, &labels).await, 0.0, "{labels:?}");
        call.send_to(&server.base_url).await;
        assert_eq!(server.number(ANSWERED, &labels).await, 1.0, "{labels:?}");
    }
}

#[tokio::test]
async fn identifiers_in_paths_create_no_series() {
    let server = observed().await;
    server.ask_dashboard().await;
    let before = server.scrape().await.series(ANSWERED);
    for number in 0..10 {
        let path = format!("/v1/workspaces/{number}/dashboard-summary");
        let unknown =
            Call::new(Method::GET, path).bearer(&server.fixture.orgs[0].members.owner.token);
        assert_eq!(unknown.send_to(&server.base_url).await.status, 404);
    }
    assert_eq!(server.scrape().await.series(ANSWERED), before + 1);
}

#[tokio::test]
async fn idempotent_replays_are_counted() {
    let server = observed().await;
    for (sent, replays) in [(1, 0.0), (2, 1.0), (3, 2.0)] {
        let answer = server.approve().await;
        assert_eq!(answer.status, 200, "{sent}");
        assert_eq!(server.number(REPLAYS, &[]).await, replays);
    }
}

#[tokio::test]
async fn store_calls_are_counted_by_method() {
    let server = observed().await;
    let before = server.scrape().await;
    server.approve().await;
    server.ask_dashboard().await;
    let after = server.scrape().await;
    for method in ["read", "commit"] {
        let labels = [("method", method)];
        let (before, after) = (
            before.value(STORE_CALLS, &labels),
            after.value(STORE_CALLS, &labels),
        );
        assert!(after > before, "{method}: {before} then {after}");
    }
}

#[tokio::test]
async fn conflicts_and_retries_are_counted() {
    let rates = FaultRates {
        conflict: 1.0,
        ..FaultRates::default()
    };
    let (server, store) = failing(rates).await;
    let before = server.scrape().await;
    assert_eq!(before.value(RETRIES, &[]), 0.0);
    store.enable_faults();
    let answer = server.approve().await;
    assert_eq!(answer.status, 409);
    store.disable_faults();
    let after = server.scrape().await;
    // Each attempt except the last is followed by a retry.
    let attempts = f64::from(knowledge_core::store::RETRIES_MAX);
    assert!(after.value(CONFLICTS, &[]) >= attempts);
    assert!(after.value(RETRIES, &[]) >= attempts - 1.0);
}

#[tokio::test]
async fn store_failures_are_counted_by_kind() {
    for (kind, rates) in rows! {
        ("full", FaultRates { full: 1.0, ..FaultRates::default() }),
        ("unavailable", FaultRates { unavailable: 1.0, ..FaultRates::default() }),
    } {
        let (server, store) = failing(rates).await;
        let labels = [("method", "commit"), ("kind", kind)];
        assert_eq!(server.number(ERRORS, &labels).await, 0.0);
        store.enable_faults();
        let answer = server.approve().await;
        assert_eq!(answer.status, 503);
        assert!(server.number(ERRORS, &labels).await >= 1.0, "{kind}");
    }
}

#[tokio::test]
async fn maintenance_runs_are_counted() {
    let store = Arc::new(FaultStore::new(
        Arc::new(MemoryStore::new()),
        FaultPlan::none(),
    ));
    let server = Observed::start(store.clone()).await;
    let runs = "knowledge_maintenance_runs_total";
    let [ok, failed] = ["ok", "failed"].map(|outcome| [("outcome", outcome)]);
    server.number_becomes(runs, &ok, |runs| runs >= 2.0).await;
    assert_eq!(server.number(runs, &failed).await, 0.0);
    let last = "knowledge_maintenance_last_success_timestamp_seconds";
    assert!(
        server.number(last, &[]).await > 1.6e9,
        "a time of this century"
    );
    // Records of the fixture have expired.
    server
        .number_becomes("knowledge_maintenance_swept_total", &[], |swept| {
            swept >= 1.0
        })
        .await;
    store.fail_reads(true);
    server
        .number_becomes(runs, &failed, |runs| runs >= 1.0)
        .await;
}

#[tokio::test]
async fn memories_and_those_that_await_review_are_counted() {
    let server = observed().await;
    let counts = async || {
        let scraped = server.scrape().await;
        [MEMORIES, BACKLOG].map(|name| scraped.value(name, &[]))
    };
    let review = async |status: &str| {
        let call = server.bulk(&format!("counted-{status}"), status);
        assert_eq!(call.send_to(&server.base_url).await.status, 200, "{status}");
    };
    review("approved").await;
    let [memories, backlog] = counts().await;
    let org = &server.fixture.orgs[0];
    let in_main = &org.main.memories;
    assert!(memories >= (in_main.internal.len() + in_main.private.len()) as f64);
    let summary = server.ask_dashboard().await.json();
    let in_main = summary["review_backlog_count"].as_f64().expect("a number");
    assert!(backlog >= in_main && backlog < memories, "{backlog}");

    review("rejected").await;
    assert_eq!(counts().await, [memories, backlog]);
    review("pending").await;
    assert_eq!(counts().await, [memories, backlog + 1.0]);
    let path = format!("/v1/memories/{}", org.main.memories.internal[0]);
    let deletion = Call::new(Method::DELETE, path).bearer(&org.members.owner.token);
    assert_eq!(deletion.send_to(&server.base_url).await.status, 204);
    assert_eq!(counts().await, [memories - 1.0, backlog]);
}

/// Everything else is still exported.
#[tokio::test]
async fn counts_are_omitted_while_the_store_fails() {
    let store = FaultStore::new(Arc::new(MemoryStore::new()), FaultPlan::none());
    let store = Arc::new(store);
    let server = Observed::start(store.clone()).await;
    assert_eq!(server.scrape().await.series(MEMORIES), 1);
    store.fail_reads(true);
    let scraped = server.scrape().await;
    assert_eq!([MEMORIES, BACKLOG].map(|name| scraped.series(name)), [0, 0]);
    assert_eq!(scraped.series(RETRIES), 1);
}

#[tokio::test]
async fn servers_in_one_process_count_separately() {
    let (one, other) = (observed().await, observed().await);
    one.ask_dashboard().await;
    let labels = [("route", DASHBOARD), ("method", "GET"), ("status", "200")];
    assert_eq!(one.number(ANSWERED, &labels).await, 1.0);
    assert_eq!(other.number(ANSWERED, &labels).await, 0.0);
    drop(Metrics::new());
}

#[tokio::test]
async fn maintenance_runs_with_the_shortest_interval() {
    let (store, options) = (
        Arc::new(MemoryStore::new()),
        Options::new(SealingKey::new([7; 32])),
    );
    let service = KnowledgeService::open(store, Env::system(), options).await;
    let net = NetConfig {
        address: "127.0.0.1:0".parse().unwrap(),
        ..NetConfig::default()
    };
    let metrics = Metrics::new();
    let bound = App::bind_with_metrics(service.unwrap(), net, Arc::clone(&metrics)).await;
    let app = bound.unwrap().maintain_every(Duration::ZERO);
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(app.run(async { drop(stopped.await) }));
    let is_run = |line: &str| {
        line.starts_with("knowledge_maintenance_runs_total{")
            && line.contains(r#"outcome="ok""#)
            && !line.ends_with(" 0")
    };
    let has_run = || metrics.render().lines().any(is_run);
    let first_run = async {
        while !has_run() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let begun = tokio::time::timeout(Duration::from_secs(60), first_run).await;
    begun.expect("maintenance runs");
    stop.send(()).unwrap();
    running.await.unwrap();
}
