//! Connection to the collector: one HTTP exchange per batch.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use prometheus::IntCounterVec;
use tokio::runtime::Handle;
use tokio_rustls::rustls::RootCertStore;

use super::error::TelemetryError;
use crate::http_client::{self, read_roots};
use crate::metrics::Metrics;
use crate::partial_debug::partial_debug;

/// Maximum size of a collector's response. Only the status matters.
const RESPONSE_BYTES_MAX: usize = 64 * 1_024;

const OK: &str = "ok";
const FAILED: &str = "failed";

/// Client of the collector. The exporter runs on a thread without a runtime, so requests are sent
/// on the server's runtime.
pub(super) struct Collector {
    runtime: Handle,
    client: Arc<http_client::HttpClient>,
    exports: IntCounterVec,
    is_failing: AtomicBool,
}

partial_debug!(Collector);

impl Collector {
    /// Creates a client; `authorities` is the CA file if the collector is reached over TLS.
    pub(super) fn new(
        timeout: Duration,
        authorities: Option<&Path>,
        metrics: &Metrics,
    ) -> Result<Self, TelemetryError> {
        let roots = match authorities {
            Some(path) => read_roots(path)?,
            None => RootCertStore::empty(),
        };
        let setting = "telemetry.otlp_ca_file";
        // Exports are rare, so that a kept connection would usually be closed by the collector.
        let client = http_client::builder(roots)
            .map(|builder| builder.pool_max_idle_per_host(0))
            .and_then(|builder| {
                http_client::HttpClient::new(builder, setting, timeout, RESPONSE_BYTES_MAX)
            })
            .map_err(TelemetryError::Tls)?;
        let exports = metrics.trace_exports().clone();
        for outcome in [OK, FAILED] {
            exports.with_label_values(&[outcome]);
        }
        Ok(Self {
            runtime: Handle::current(),
            client: Arc::new(client),
            exports,
            is_failing: AtomicBool::new(false),
        })
    }

    /// Counts the result of a batch, and logs a change from success to failure or back.
    fn record(&self, outcome: &Result<Response<Bytes>, HttpError>) {
        let problem = match outcome {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(response.status().to_string()),
            Err(error) => Some(error.to_string()),
        };
        let label = if problem.is_none() { OK } else { FAILED };
        self.exports.with_label_values(&[label]).inc();
        let was_failing = self.is_failing.swap(problem.is_some(), Ordering::Relaxed);
        match problem {
            Some(problem) if !was_failing => {
                tracing::warn!(
                    problem,
                    "exporting traces failed; dropping them until the collector accepts them"
                );
            }
            None if was_failing => tracing::info!("exporting traces works again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = Arc::clone(&self.client);
        let exchange = self
            .runtime
            .spawn(async move { client.send(request).await });
        let outcome = match exchange.await {
            Ok(outcome) => outcome.map_err(HttpError::from),
            Err(error) => Err(error.into()),
        };
        self.record(&outcome);
        outcome
    }
}
