//! OpenTelemetry traces: one span per request and per delivery, with a child span per store call.
//!
//! A separate thread sends them in batches to a collector, by OTLP over HTTP. Spans are dropped if
//! the queue is full; no request ever waits. Without a configured collector, nothing is traced.
//!
//! A span contains methods, routes, paths, hosts, statuses, sizes and the address of the client;
//! never a query, body, credential or key of the store. The `traceparent` of a trusted proxy
//! makes the span of its request part of that trace; that of any other client is a link.
//!
//! Spans use OpenTelemetry's API and are not derived from the log: exported attributes are chosen
//! one by one, no log line can leave the machine as a span event, and several servers in one
//! process have separate tracers.

mod collector;
mod delivery;
mod error;
mod request;
mod store;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use knowledge_core::model::BaseUrl;
use knowledge_core::store::Store;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider,
};

use self::collector::Collector;
pub(crate) use self::delivery::DeliverySpan;
pub use self::delivery::DeliveryTracer;
pub use self::error::TelemetryError;
pub use self::request::RequestTracer;
pub(crate) use self::request::{RequestOrigin, RequestSpan};
use self::store::TracedStore;
use crate::http_client::CA_FILE_DEFAULT;
use crate::metrics::Metrics;
use crate::private_file;

/// Default service name of traces.
pub const SERVICE_NAME_DEFAULT: &str = "knowledge";

/// Default timeout of the last export at shutdown.
pub const FLUSH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Path of traces, appended to the address of a collector.
const TRACES_PATH: &str = "/v1/traces";

/// Maximum number of spans per export.
const BATCH_SPANS_MAX: usize = 512;

/// Instrumentation scope of the spans.
const SCOPE: &str = "knowledge-server";

/// Configuration of tracing.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetryConfig {
    /// Collector's address for OTLP over HTTP, to which `/v1/traces` is appended. Without one, the
    /// environment's `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT` applies;
    /// without those there are no traces.
    pub otlp_endpoint: Option<BaseUrl>,
    /// File with headers for the collector, one `name: value` per line, readable by its owner only.
    pub otlp_headers_file: Option<PathBuf>,
    /// CA certificates as PEM that authenticate a collector whose address is https.
    pub otlp_ca_file: PathBuf,
    /// Fraction of traces that are kept, among those that no trusted proxy has decided on.
    pub sample_ratio: f64,
    /// Service name of traces. Without one, `OTEL_SERVICE_NAME` or [`SERVICE_NAME_DEFAULT`].
    pub service_name: Option<String>,
    /// Maximum of spans that wait for their export; further ones are dropped.
    pub queue_spans_max: usize,
    /// Time between two exports; a full batch is sent immediately.
    pub export_interval: Duration,
    /// Timeout of one export, all attempts together.
    pub export_timeout: Duration,
    /// Timeout of the last export at shutdown.
    pub flush_timeout: Duration,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            otlp_headers_file: None,
            otlp_ca_file: PathBuf::from(CA_FILE_DEFAULT),
            sample_ratio: 1.0,
            service_name: None,
            queue_spans_max: 4_096,
            export_interval: Duration::from_secs(5),
            export_timeout: Duration::from_secs(10),
            flush_timeout: FLUSH_TIMEOUT_DEFAULT,
        }
    }
}

/// Tracer provider that exports spans to a collector.
#[derive(Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    flush_timeout: Duration,
}

impl Telemetry {
    /// Starts exporting traces; returns `None` if no collector is configured. The result of each
    /// batch is counted in `metrics`. Needs a tokio runtime, on which requests to the collector
    /// run.
    ///
    /// # Errors
    /// See [`TelemetryError`]. An unreachable collector is not an error: failed exports are logged
    /// and counted.
    pub fn start(
        config: &TelemetryConfig,
        metrics: &Metrics,
    ) -> Result<Option<Self>, TelemetryError> {
        if is_disabled() {
            return Ok(None);
        }
        let endpoint = match &config.otlp_endpoint {
            Some(base) => Some(format!("{base}{TRACES_PATH}")),
            None => variable_endpoint()?,
        };
        let Some(endpoint) = endpoint else {
            return Ok(None);
        };
        let authorities = endpoint
            .starts_with("https:")
            .then_some(config.otlp_ca_file.as_path());
        let collector = Collector::new(config.export_timeout, authorities, metrics)?;
        let headers = config.otlp_headers_file.as_deref().map(read_headers);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_endpoint(&endpoint)
            .with_timeout(config.export_timeout)
            .with_headers(headers.transpose()?.unwrap_or_default())
            .build()?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(config.queue_spans_max)
            .with_max_export_batch_size(BATCH_SPANS_MAX.min(config.queue_spans_max))
            .with_scheduled_delay(config.export_interval)
            .build();
        let processor = BatchSpanProcessor::builder(exporter)
            .with_batch_config(batches)
            .build();
        let mut builder = SdkTracerProvider::builder()
            .with_resource(resource(config))
            .with_span_processor(processor);
        if std::env::var_os("OTEL_TRACES_SAMPLER").is_none() {
            let ratio = Sampler::TraceIdRatioBased(config.sample_ratio);
            builder = builder.with_sampler(Sampler::ParentBased(Box::new(ratio)));
        }
        let provider = builder.build();
        tracing::info!(endpoint, "exporting traces");
        Ok(Some(Self {
            tracer: provider.tracer(SCOPE),
            provider,
            flush_timeout: config.flush_timeout,
        }))
    }

    /// Returns the tracer of requests.
    #[must_use]
    pub fn requests(&self) -> RequestTracer {
        RequestTracer::new(self.tracer.clone())
    }

    /// Returns the tracer of exchanges with endpoints.
    #[must_use]
    pub fn deliveries(&self) -> DeliveryTracer {
        DeliveryTracer::new(self.tracer.clone())
    }

    /// Wraps a store to record a span for each call made on behalf of a request or a delivery.
    #[must_use]
    pub fn trace_store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(TracedStore {
            store,
            tracer: self.tracer.clone(),
        })
    }

    /// Exports the pending spans within the configured timeout, and stops.
    pub async fn shut_down(self) {
        let flush = move || self.provider.shutdown_with_timeout(self.flush_timeout);
        match tokio::task::spawn_blocking(flush).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "exporting the last spans failed"),
            Err(error) => tracing::error!(%error, "exporting the last spans panicked"),
        }
    }
}

/// True if `OTEL_SDK_DISABLED` is set, as OpenTelemetry specifies it.
fn is_disabled() -> bool {
    std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns the collector from the environment. It must meet the setting's rules because it is
/// logged.
fn variable_endpoint() -> Result<Option<String>, TelemetryError> {
    let read = |variable: &'static str| {
        let text = std::env::var(variable).ok().filter(|text| !text.is_empty());
        let checked = text.map(|text| match BaseUrl::parse(&text) {
            Some(base) => Ok((text, base)),
            None => Err(TelemetryError::Endpoint { variable }),
        });
        checked.transpose()
    };
    if let Some((whole, _)) = read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")? {
        return Ok(Some(whole));
    }
    let base = read("OTEL_EXPORTER_OTLP_ENDPOINT")?;
    Ok(base.map(|(_, base)| format!("{base}{TRACES_PATH}")))
}

/// Returns the resource attributes of all spans, including `OTEL_RESOURCE_ATTRIBUTES`.
fn resource(config: &TelemetryConfig) -> Resource {
    let name = config
        .service_name
        .clone()
        .or_else(|| std::env::var("OTEL_SERVICE_NAME").ok())
        .unwrap_or_else(|| SERVICE_NAME_DEFAULT.to_owned());
    Resource::builder()
        .with_service_name(name)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Parses one `name: value` per line. Errors name only the line, because values are secrets.
pub(crate) fn read_headers(path: &Path) -> Result<HashMap<String, String>, TelemetryError> {
    let invalid = |problem: String| TelemetryError::Headers {
        path: path.to_owned(),
        problem,
    };
    let text = private_file::read(path)?.ok_or_else(|| invalid("no such file".to_owned()))?;
    let mut headers = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let header = line
            .split_once(':')
            .map(|(name, value)| (name.trim(), value.trim()));
        let is_valid = |(name, value): &(&str, &str)| {
            http::HeaderName::try_from(*name).is_ok() && http::HeaderValue::try_from(*value).is_ok()
        };
        let Some((name, value)) = header.filter(is_valid) else {
            return Err(invalid(format!("line {number} is not `name: value`")));
        };
        headers.insert(name.to_owned(), value.to_owned());
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers_of(text: &str) -> Result<HashMap<String, String>, TelemetryError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("headers");
        private_file::create(&path, text).unwrap();
        read_headers(&path)
    }

    #[test]
    fn otlp_headers_are_read_line_by_line() {
        let headers = headers_of("authorization: Bearer a:b\n\n x-tenant :  acme \n").unwrap();
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert_eq!(headers["x-tenant"], "acme");
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn otlp_header_problem_omits_line_content() {
        for text in ["a: b\nsecret", "a: b\nse cret: c", "a: b\nsecret: c\u{7}"] {
            let error = headers_of(text).unwrap_err().to_string();
            assert!(error.contains("line 2 is not"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let missing = read_headers(Path::new("/nowhere/headers")).unwrap_err();
        assert!(missing.to_string().contains("no such file"));
    }
}
