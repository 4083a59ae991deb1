//! Traces for OpenTelemetry: one span for each request and for each delivery, and beneath it one for each call of the
//! store.
//!
//! They are sent to a collector by OTLP over HTTP, in batches, by a thread of their own: what finds no room in the
//! queue is dropped, and no request ever waits. Where no collector is configured there is nothing of it.
//!
//! A span names methods, routes, paths, hosts, statuses and sizes; no query, header, body, credential or key of the store is
//! in it. A `traceparent` that a request brings makes its span a part of the caller's trace.
//!
//! Spans are made with the API of OpenTelemetry, not out of the log's: what is exported is then chosen attribute by
//! attribute, a line in the log can never leave the machine as an event of a span, and several servers in one process
//! have each their own.

mod collector;
mod delivery;
mod request;
mod store;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use knowledge_core::store::Store;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider,
};

use self::collector::Collector;
pub use self::delivery::DeliveryTracer;
pub(crate) use self::request::RequestSpan;
pub use self::request::RequestTracer;
use self::store::TracedStore;
use crate::config::BaseUrl;
use crate::http_client::CA_FILE_DEFAULT;
use crate::metrics::Metrics;
use crate::private_file::{self, PrivateFileError};

/// Where traces say that they come from, when nothing else is said.
pub const SERVICE_NAME_DEFAULT: &str = "knowledge";

/// Spans that wait for their export.
pub const QUEUE_SPANS_MAX_DEFAULT: usize = 4_096;

/// Time between two exports.
pub const EXPORT_INTERVAL_DEFAULT: Duration = Duration::from_secs(5);

/// Time for one export.
pub const EXPORT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Time for the last spans to be exported when the server stops.
pub const FLUSH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// The path of traces behind the address of a collector.
const TRACES_PATH: &str = "/v1/traces";

/// Spans of one export.
const BATCH_SPANS_MAX: usize = 512;

/// The name of what makes the spans.
const SCOPE: &str = "knowledge-server";

/// Which traces go where.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetryConfig {
    /// The collector's address for OTLP over HTTP, to which `/v1/traces` is added. Without one, the environment's
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`; without those there are no traces.
    pub otlp_endpoint: Option<BaseUrl>,
    /// A file with headers for the collector, `name: value` on each line, readable by its owner alone.
    pub otlp_headers_file: Option<PathBuf>,
    /// The certificates as PEM by which a collector is recognised whose address is https.
    pub otlp_ca_file: PathBuf,
    /// The share of traces that are kept, of those whose caller has not decided it.
    pub sample_ratio: f64,
    /// The service that traces name. Without one `OTEL_SERVICE_NAME`, or [`SERVICE_NAME_DEFAULT`].
    pub service_name: Option<String>,
    /// Spans that wait for their export; further ones are dropped.
    pub queue_spans_max: usize,
    /// Time between two exports; a full batch goes at once.
    pub export_interval: Duration,
    /// Time for one export, all attempts together.
    pub export_timeout: Duration,
    /// Time for the last spans to be exported when the server stops.
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
            queue_spans_max: QUEUE_SPANS_MAX_DEFAULT,
            export_interval: EXPORT_INTERVAL_DEFAULT,
            export_timeout: EXPORT_TIMEOUT_DEFAULT,
            flush_timeout: FLUSH_TIMEOUT_DEFAULT,
        }
    }
}

/// Why no traces can be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The file with headers cannot be read.
    #[error("the headers for the collector: {0}")]
    HeadersFile(#[from] PrivateFileError),
    /// The file with headers is not there, or a line of it is no header.
    #[error("the headers for the collector: {}: {problem}", path.display())]
    Headers {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The authorities of an https collector cannot be read.
    #[error("the certificates of the collector's authorities: {}: {problem}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A variable of OpenTelemetry has no address of a collector.
    #[error(
        "{variable} must be an http or https URL without credentials or a query: they go into \
         OTEL_EXPORTER_OTLP_HEADERS, or into the file of telemetry.otlp_headers_file"
    )]
    Endpoint {
        /// The variable. What it says may be a secret.
        variable: &'static str,
    },
    /// The address of the collector, or a variable of OpenTelemetry, is not as it should be.
    #[error("the collector: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// What makes spans and sends them.
#[derive(Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    flush_timeout: Duration,
}

impl Telemetry {
    /// Begins to send traces; `None` where no collector is configured. What becomes of the batches is counted. It
    /// needs a tokio runtime, in which the collector is talked to.
    ///
    /// # Errors
    /// [`TelemetryError`], one by one. That the collector does not answer is none: that is logged and counted.
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
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_endpoint(&endpoint)
            .with_timeout(config.export_timeout)
            .with_headers(headers(config.otlp_headers_file.as_deref())?)
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
        tracing::info!(endpoint, "sending traces");
        Ok(Some(Self {
            tracer: provider.tracer(SCOPE),
            provider,
            flush_timeout: config.flush_timeout,
        }))
    }

    /// What makes the spans of requests.
    #[must_use]
    pub fn requests(&self) -> RequestTracer {
        RequestTracer::new(self.tracer.clone())
    }

    /// What makes the spans of exchanges with endpoints.
    #[must_use]
    pub fn deliveries(&self) -> DeliveryTracer {
        DeliveryTracer::new(self.tracer.clone())
    }

    /// The store with a span for each call that is made for a request or a delivery.
    #[must_use]
    pub fn trace_store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(TracedStore {
            store,
            tracer: self.tracer.clone(),
        })
    }

    /// Sends what waits, for as long as the configuration lets it, and ends.
    pub async fn shut_down(self) {
        let flush = move || self.provider.shutdown_with_timeout(self.flush_timeout);
        match tokio::task::spawn_blocking(flush).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last spans could not be sent"),
            Err(error) => tracing::error!(%error, "sending the last spans panicked"),
        }
    }
}

/// `OTEL_SDK_DISABLED`, as OpenTelemetry specifies it.
fn is_disabled() -> bool {
    std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The collector that the environment names. It is held to what the setting is held to: it is logged.
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

/// What all spans say of where they come from. `OTEL_RESOURCE_ATTRIBUTES` is among it.
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

/// Reads `name: value` from each line. What is wrong is told by its line: the values are secrets.
fn headers(path: Option<&Path>) -> Result<HashMap<String, String>, TelemetryError> {
    let Some(path) = path else {
        return Ok(HashMap::new());
    };
    let refused = |problem: String| TelemetryError::Headers {
        path: path.to_owned(),
        problem,
    };
    let text =
        private_file::read(path)?.ok_or_else(|| refused("there is no such file".to_owned()))?;
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
            return Err(refused(format!("line {number} is not `name: value`")));
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
        headers(Some(&path))
    }

    #[test]
    fn headers_are_read_line_by_line() {
        let headers = headers_of("authorization: Bearer a:b\n\n x-tenant :  acme \n").unwrap();
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert_eq!(headers["x-tenant"], "acme");
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn a_line_that_is_no_header_is_told_without_what_it_says() {
        for text in ["a: b\nsecret", "a: b\nse cret: c", "a: b\nsecret: c\u{7}"] {
            let error = headers_of(text).unwrap_err().to_string();
            assert!(error.contains("line 2 is not"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let missing = headers(Some(Path::new("/nowhere/headers"))).unwrap_err();
        assert!(missing.to_string().contains("no such file"));
    }
}
