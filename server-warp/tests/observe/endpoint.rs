//! Tests of the metrics endpoint.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use knowledge_core::store::MemoryStore;
use knowledge_server::metrics::CATALOGUE;
use knowledge_store::faults::{FaultPlan, FaultStore};

use crate::support::{Call, Observed};

async fn observed() -> Observed {
    Observed::start(Arc::new(MemoryStore::new())).await
}

#[tokio::test]
async fn metrics_endpoint_responds_as_scrapers_expect() {
    let server = observed().await;
    let url = server.metrics_url();
    let got = Call::new(Method::GET, "/metrics").send_to(&url).await;
    assert_eq!(got.status, 200);
    assert_eq!(got.header("content-type"), "text/plain; version=0.0.4");
    assert_eq!(got.header("cache-control"), "no-store");
    assert!(!got.body.is_empty());

    let head = Call::new(Method::HEAD, "/metrics").send_to(&url).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    assert_eq!(head.header("content-type"), "text/plain; version=0.0.4");
    assert_ne!(head.header("content-length"), "0");

    let posted = Call::new(Method::POST, "/metrics").send_to(&url).await;
    assert_eq!(posted.status, 405);
    assert_eq!(posted.header("allow"), "GET, HEAD");
    let with_query = Call::new(Method::GET, "/metrics?name=x")
        .send_to(&url)
        .await;
    assert_eq!(with_query.status, 200);
    for path in ["/", "/metrics/", "/metrics/x"] {
        let answer = Call::new(Method::GET, path).send_to(&url).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    let health = Call::new(Method::GET, "/healthz").send_to(&url).await;
    assert_eq!(health.status, 200);
}

#[tokio::test]
async fn metrics_endpoint_reports_readiness_of_the_service() {
    let store = FaultStore::new(Arc::new(MemoryStore::new()), FaultPlan::none());
    let store = Arc::new(store);
    let server = Observed::start(store.clone()).await;
    let url = server.metrics_url();
    let ready = Call::new(Method::GET, "/readyz");
    assert_eq!(ready.clone().send_to(&url).await.status, 200);
    store.close();
    assert_eq!(ready.send_to(&url).await.status, 503);
}

#[tokio::test]
async fn public_api_does_not_serve_metrics() {
    let server = observed().await;
    let answer = Call::new(Method::GET, "/metrics")
        .send_to(&server.base_url)
        .await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn scrapes_are_not_counted_as_requests() {
    let server = observed().await;
    let before = server.scrape().await;
    let after = server.scrape().await;
    let requests = "knowledge_http_requests_total";
    assert_eq!(before.series(requests), 0);
    assert_eq!(after.series(requests), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_of_the_catalogue_are_all_exposed() {
    let (server, _directory) = Observed::start_with_everything().await;

    let found: BTreeSet<String> = server.scrape().await.families.into_keys().collect();
    let mut listed = BTreeSet::new();
    for metric in CATALOGUE {
        // Other systems have no source for these.
        if cfg!(target_os = "linux") || !metric.name.starts_with("process_") {
            listed.insert(metric.name.to_owned());
        }
    }
    assert_eq!(found, listed);
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn process_metrics_are_exposed() {
    let server = observed().await;
    let numbers = server.scrape().await;
    let value = |name: &str| numbers.value(name, &[]);
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(numbers.value("knowledge_build_info", &version), 1.0);
    assert!(value("process_resident_memory_bytes") > 1_048_576.0);
    assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
    assert!(value("process_open_fds") >= 3.0);
    assert!(value("process_max_fds") >= value("process_open_fds"));
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs_f64();
    let started = value("process_start_time_seconds");
    assert!(
        started > 1.6e9 && started < now + 60.0,
        "{started} and {now}"
    );

    let before = value("process_cpu_seconds_total");
    crate::support::until("the processor time to move", async || {
        std::hint::black_box((0..1_000_000_u64).fold(0, |sum, number| sum ^ (number * 31)));
        server.number("process_cpu_seconds_total", &[]).await > before
    })
    .await;
}
