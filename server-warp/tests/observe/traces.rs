//! Tests of exported traces, and of collectors that do not respond.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use knowledge_core::env::Env;
use knowledge_core::model::{DeliveryStatus, EventType, NewWebhook};
use knowledge_core::service::{
    Attempt, DeliveryRequest, DeliveryResponse, DeliverySender, Endpoint, KnowledgeService,
    Options, SealingKey,
};
use knowledge_core::store::{MemoryStore, Store};
use knowledge_server::app::App;
use knowledge_server::deliveries::Deliveries;
use knowledge_server::metrics::Metrics;
use knowledge_server::net::{NetConfig, ProxyConfig};
use knowledge_server::private_file;
use knowledge_server::telemetry::{Telemetry, TelemetryConfig, TelemetryError};
use knowledge_store::faults::{FaultPlan, FaultRates, FaultStore};
use knowledge_testing::fixture;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::receiver::{Receiver, attribute};
use crate::support::{BULK, Call, Observed, until};

const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT_ID: &str = "b7ad6b7169203331";
const EXPORTS: &str = "knowledge_trace_exports_total";

/// A time beyond the end of any test.
const FOR_EVER: Duration = Duration::from_secs(3_600);

fn config(receiver: &Receiver) -> TelemetryConfig {
    TelemetryConfig {
        otlp_endpoint: receiver.url(),
        // Only the shutdown exports.
        export_interval: FOR_EVER,
        ..TelemetryConfig::default()
    }
}

struct Traced {
    server: Observed,
    telemetry: Telemetry,
}

impl Traced {
    async fn start(config: &TelemetryConfig, store: Arc<dyn Store>) -> Self {
        Self::behind(ProxyConfig::default(), config, store).await
    }

    /// Starts a server that takes this process for a trusted proxy.
    async fn trusting(config: &TelemetryConfig) -> Self {
        let proxy = ProxyConfig {
            trusted: vec![IpAddr::from([127, 0, 0, 1]).into()],
            ..ProxyConfig::default()
        };
        Self::behind(proxy, config, Arc::new(MemoryStore::new())).await
    }

    async fn behind(proxy: ProxyConfig, config: &TelemetryConfig, store: Arc<dyn Store>) -> Self {
        let metrics = Metrics::new();
        let telemetry = Telemetry::start(config, &metrics)
            .expect("a good configuration")
            .expect("there is a collector");
        let server = Observed::start_behind(proxy, store, &metrics, Some(&telemetry)).await;
        Self { server, telemetry }
    }

    async fn over_memory(config: &TelemetryConfig) -> Self {
        Self::start(config, Arc::new(MemoryStore::new())).await
    }

    async fn stop(self) {
        self.server.stop().await;
        self.telemetry.shut_down().await;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the spans of requests, whose kind is server.
fn requests(spans: &[Span]) -> Vec<&Span> {
    let is_request = |span: &&Span| span.kind == SpanKind::Server as i32;
    spans.iter().filter(is_request).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_and_its_store_calls_are_spans_of_the_trace_of_a_trusted_proxy() {
    let receiver = Receiver::start().await;
    let traced = Traced::trusting(&config(&receiver)).await;
    let base_url = traced.server.base_url.clone();
    let call = traced
        .server
        .bulk("the-key", "approved")
        .header("x-forwarded-for", "192.0.2.7")
        .header("traceparent", format!("00-{TRACE_ID}-{PARENT_ID}-01"));
    let answer = call.send_to(&base_url).await;
    assert_eq!(answer.status, 200);
    let token = traced.server.fixture.orgs[0].members.owner.token.clone();
    let memory = traced.server.fixture.orgs[0].main.memories.internal[0].to_string();
    traced.stop().await;

    let spans = receiver.spans();
    let requests = requests(&spans);
    assert_eq!(requests.len(), 1, "{spans:#?}");
    let request = requests[0];
    assert_eq!(request.name, format!("PATCH {BULK}"));
    assert_eq!(hex(&request.trace_id), TRACE_ID);
    assert_eq!(hex(&request.parent_span_id), PARENT_ID);
    let of = |name: &str| attribute(&request.attributes, name).unwrap_or_default();
    assert_eq!(of("http.request.method"), "PATCH");
    assert_eq!(of("http.route"), BULK);
    assert_eq!(of("http.response.status_code"), "200");
    assert_eq!(of("url.path"), BULK);
    assert_eq!(of("url.scheme"), "http");
    assert_eq!(of("client.address"), "192.0.2.7");
    assert!(request.links.is_empty());
    assert_eq!(of("knowledge.request.id"), answer.header("request-id"));
    assert_eq!(of("http.response.body.size"), answer.body.len().to_string());
    assert!(request.end_time_unix_nano > request.start_time_unix_nano);

    let store: Vec<&Span> = spans
        .iter()
        .filter(|span| span.name.starts_with("store."))
        .collect();
    for name in ["store.read", "store.commit"] {
        assert!(store.iter().any(|span| span.name == name), "{name}");
    }
    for span in &store {
        assert_eq!(span.trace_id, request.trace_id);
        assert_eq!(span.parent_span_id, request.span_id);
        assert_eq!(span.kind, SpanKind::Internal as i32);
    }
    let commit = store.iter().find(|span| span.name == "store.commit");
    let commit = &commit.expect("a commit").attributes;
    assert_eq!(
        attribute(commit, "store.outcome").as_deref(),
        Some("committed")
    );

    let export = &receiver.exports()[0];
    let resource = export.batch.resource_spans[0].resource.as_ref();
    let resource = &resource.expect("a resource").attributes;
    let version = attribute(resource, "service.version");
    assert_eq!(version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    let everything = format!("{:?}", receiver.exports());
    for secret in [&*token, "the-key", &memory] {
        assert!(!everything.contains(secret), "{secret} was exported");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_omit_queries_and_secrets_and_unknown_paths_have_no_route() {
    let receiver = Receiver::start().await;
    let traced = Traced::over_memory(&config(&receiver)).await;
    let base_url = traced.server.base_url.clone();
    for path in ["/login/wkl_1_ab?secret=1", "/healthz", "/readyz"] {
        Call::new(Method::GET, path).send_to(&base_url).await;
    }
    traced.stop().await;
    let spans = receiver.spans();
    let requests = requests(&spans);
    assert_eq!(requests.len(), 1, "probes have no spans: {spans:#?}");
    assert_eq!(requests[0].name, "GET");
    assert_eq!(attribute(&requests[0].attributes, "http.route"), None);
    let path = attribute(&requests[0].attributes, "url.path");
    assert_eq!(path.as_deref(), Some("/login/wkl_…"));
    let status = requests[0].status.as_ref().map_or(0, |status| status.code);
    assert_eq!(
        status,
        StatusCode::Unset as i32,
        "the client's error is not the server's"
    );
    assert!(!format!("{spans:?}").contains("secret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_spans_are_marked() {
    let rates = FaultRates {
        unavailable: 1.0,
        ..FaultRates::default()
    };
    let plan = FaultPlan::seeded(1, rates);
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new()), plan));
    store.disable_faults();
    let receiver = Receiver::start().await;
    let traced = Traced::start(&config(&receiver), store.clone()).await;
    store.enable_faults();
    let call = traced.server.bulk("key", "approved");
    assert_eq!(call.send_to(&traced.server.base_url).await.status, 503);
    traced.stop().await;
    let spans = receiver.spans();
    let is_marked = |name: &str, error: &str| {
        spans.iter().any(|span| {
            span.name == name
                && span
                    .status
                    .as_ref()
                    .is_some_and(|status| status.code == StatusCode::Error as i32)
                && attribute(&span.attributes, "error.type").as_deref() == Some(error)
        })
    };
    assert!(is_marked(&format!("PATCH {BULK}"), "503"), "{spans:#?}");
    assert!(is_marked("store.commit", "unavailable"), "{spans:#?}");
}

/// A sender that responds to each delivery with this status.
struct Answering(u16);

#[async_trait::async_trait]
impl DeliverySender for Answering {
    async fn send(&self, _: &DeliveryRequest) -> Attempt {
        Attempt {
            duration: Duration::from_millis(1),
            outcome: Ok(DeliveryResponse {
                status: self.0,
                retry_after: None,
            }),
        }
    }
}

/// Makes one delivery to an endpoint with this response, and returns its identifier.
async fn deliver(telemetry: &Telemetry, status: u16) -> String {
    let store = telemetry.trace_store(Arc::new(MemoryStore::new()));
    let options = Options::new(SealingKey::new([7; 32]));
    let service = KnowledgeService::open(store, Env::system(), options).await;
    let service = service.expect("open the service");
    let fixture = fixture::seed_orgs(&service, 1).await.expect("seed");
    let org = &fixture.orgs[0];
    let owner = org.trusted_owner();
    let new = NewWebhook::builder()
        .event_type(EventType::ChunkCreated)
        .url(
            "https://hooks.test:8443/secret-path?secret=query"
                .parse()
                .expect("a URL"),
        )
        .build();
    let webhook = service.webhooks().create(&owner, org.empty.id, &new).await;
    let webhook = webhook.expect("a webhook").id;
    let confirmed = knowledge_testing::seed::confirm(&service, webhook.into()).await;
    confirmed.expect("confirmed");
    let endpoint = Endpoint::Webhook(org.empty.id, webhook);
    let ping = service
        .deliveries()
        .ping(&owner, endpoint)
        .await
        .expect("a ping");

    let net = NetConfig {
        address: "127.0.0.1:0".parse().expect("an address"),
        ..NetConfig::default()
    };
    let deliveries = Deliveries::through(Arc::new(Answering(status)));
    let app = App::bind(service.clone(), net)
        .await
        .expect("bind")
        .deliver_with(deliveries.with_tracer(telemetry.deliveries()));
    app.run(until("the ping to be made", async || {
        let ping = service.deliveries().get(&owner, endpoint, ping.id).await;
        ping.expect("the ping").status != DeliveryStatus::Pending
    }))
    .await;
    ping.id.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivery_is_a_trace_without_the_path_of_its_endpoint() {
    for (status, error) in [(204, None), (302, Some("302"))] {
        let receiver = Receiver::start().await;
        let telemetry = Telemetry::start(&config(&receiver), &Metrics::new())
            .expect("a good configuration")
            .expect("there is a collector");
        let id = deliver(&telemetry, status).await;
        telemetry.shut_down().await;

        let spans = receiver.spans();
        let is_delivery = |span: &&Span| span.kind == SpanKind::Client as i32;
        let deliveries: Vec<&Span> = spans.iter().filter(is_delivery).collect();
        assert_eq!(deliveries.len(), 1, "{spans:#?}");
        let delivery = deliveries[0];
        assert_eq!(delivery.name, "POST");
        assert!(delivery.parent_span_id.is_empty());
        let of = |name: &str| attribute(&delivery.attributes, name);
        assert_eq!(of("http.request.method").as_deref(), Some("POST"));
        assert_eq!(of("server.address").as_deref(), Some("hooks.test"));
        assert_eq!(of("server.port").as_deref(), Some("8443"));
        assert_eq!(of("knowledge.event.type").as_deref(), Some("webhook.ping"));
        assert_eq!(of("knowledge.delivery.id"), Some(id));
        let answered = of("http.response.status_code");
        assert_eq!(answered, Some(status.to_string()));
        assert_eq!(of("error.type").as_deref(), error);
        let is_recorded = spans
            .iter()
            .any(|span| span.name == "store.commit" && span.parent_span_id == delivery.span_id);
        assert!(is_recorded, "{spans:#?}");
        let everything = format!("{:?}", receiver.exports());
        assert!(!everything.contains("secret"), "{everything}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsampled_spans_are_not_exported() {
    let receiver = Receiver::start().await;
    let none = TelemetryConfig {
        sample_ratio: 0.0,
        ..config(&receiver)
    };
    let traced = Traced::over_memory(&none).await;
    traced.server.ask_dashboard().await;
    traced.stop().await;
    assert_eq!(receiver.spans().len(), 0);

    // The decision of a trusted proxy overrides the sampling ratio.
    for (config, flag, expected) in [(&none, "01", 1), (&config(&receiver), "00", 1)] {
        let traced = Traced::trusting(config).await;
        let parent = format!("00-{TRACE_ID}-{PARENT_ID}-{flag}");
        let call = traced.server.dashboard().header("traceparent", parent);
        call.send_to(&traced.server.base_url).await;
        traced.stop().await;
        assert_eq!(requests(&receiver.spans()).len(), expected, "{flag}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stranger_decides_neither_on_sampling_nor_on_the_trace() {
    let receiver = Receiver::start().await;
    let none = TelemetryConfig {
        sample_ratio: 0.0,
        ..config(&receiver)
    };
    // Sampling by a ratio depends on the trace ID: the first of these would be kept, the last not.
    let ids = [
        "00000000000000000000000000000001",
        "ffffffffffffffffffffffffffffffff",
    ];
    for (config, expected) in [(&none, 0), (&config(&receiver), 4)] {
        let traced = Traced::over_memory(config).await;
        for parent in ids.map(|id| format!("00-{id}-{PARENT_ID}")) {
            for flag in ["00", "01"] {
                let parent = format!("{parent}-{flag}");
                let call = traced.server.dashboard().header("traceparent", parent);
                call.send_to(&traced.server.base_url).await;
            }
        }
        traced.stop().await;
        let spans = receiver.spans();
        let requests = requests(&spans);
        assert_eq!(requests.len(), expected);
        for request in requests {
            assert!(!ids.contains(&&*hex(&request.trace_id)), "{request:?}");
            assert!(request.parent_span_id.is_empty());
            assert_eq!(request.links.len(), 1, "{request:?}");
            assert!(ids.contains(&&*hex(&request.links[0].trace_id)));
            assert_eq!(hex(&request.links[0].span_id), PARENT_ID);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_collector_delays_neither_requests_nor_shutdown() {
    let receiver = Receiver::hanging().await;
    let traced = Traced::over_memory(&TelemetryConfig {
        queue_spans_max: 8,
        export_interval: Duration::from_millis(1),
        export_timeout: FOR_EVER,
        flush_timeout: Duration::from_millis(50),
        ..config(&receiver)
    })
    .await;
    // Far more than the queue holds.
    for _ in 0..50 {
        let answer = traced.server.ask_dashboard().await;
        assert_eq!(answer.status, 200);
    }
    traced.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exported_batches_are_counted_by_outcome() {
    let receiver = Receiver::start().await;
    let address = receiver.url();
    let often = TelemetryConfig {
        export_interval: Duration::from_millis(5),
        ..config(&receiver)
    };
    let traced = Traced::over_memory(&often).await;
    traced.server.ask_dashboard().await;
    let is_some = |count: f64| count >= 1.0;
    traced
        .server
        .number_becomes(EXPORTS, &[("outcome", "ok")], is_some)
        .await;
    assert_eq!(
        traced
            .server
            .number(EXPORTS, &[("outcome", "failed")])
            .await,
        0.0
    );
    drop(receiver);
    traced.server.ask_dashboard().await;
    traced
        .server
        .number_becomes(EXPORTS, &[("outcome", "failed")], is_some)
        .await;
    assert!(address.is_some());
    traced.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collector_is_reached_over_tls_with_headers_of_a_file() {
    let signed =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).expect("a key");
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocols")
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .expect("a certificate and its key");
    let receiver = Receiver::start_with(Some(TlsAcceptor::from(Arc::new(tls)))).await;
    let directory = tempfile::tempdir().expect("a directory");
    let authorities = directory.path().join("ca.pem");
    fs::write(&authorities, signed.cert.pem()).expect("write");
    let headers = directory.path().join("headers");
    private_file::create(&headers, "authorization: Bearer of-the-collector\n").expect("write");

    let traced = Traced::over_memory(&TelemetryConfig {
        otlp_ca_file: authorities,
        otlp_headers_file: Some(headers),
        service_name: Some("acme-knowledge".to_owned()),
        ..config(&receiver)
    })
    .await;
    traced.server.ask_dashboard().await;
    traced.stop().await;
    let exports = receiver.exports();
    assert_eq!(
        exports[0].headers["authorization"],
        "Bearer of-the-collector"
    );
    let resource = exports[0].batch.resource_spans[0].resource.as_ref();
    let name = attribute(&resource.expect("a resource").attributes, "service.name");
    assert_eq!(name.as_deref(), Some("acme-knowledge"));
}

#[tokio::test]
async fn unusable_telemetry_settings_are_errors() {
    let metrics = Metrics::new();
    let directory = tempfile::tempdir().expect("a directory");
    let empty = directory.path().join("empty.pem");
    fs::write(&empty, "").expect("write");
    let config = TelemetryConfig {
        otlp_endpoint: knowledge_server::config::BaseUrl::parse("https://127.0.0.1:1"),
        otlp_ca_file: empty,
        ..TelemetryConfig::default()
    };
    let error = Telemetry::start(&config, &metrics).expect_err("no authorities");
    assert!(
        matches!(error, TelemetryError::Authorities { .. }),
        "{error}"
    );
    let missing = TelemetryConfig {
        otlp_endpoint: knowledge_server::config::BaseUrl::parse("http://127.0.0.1:1"),
        otlp_headers_file: Some(directory.path().join("missing")),
        ..TelemetryConfig::default()
    };
    let error = Telemetry::start(&missing, &metrics).expect_err("no headers");
    assert!(matches!(error, TelemetryError::Headers { .. }), "{error}");
}
