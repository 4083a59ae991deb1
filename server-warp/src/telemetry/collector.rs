//! The way to the collector: one HTTP exchange for each batch.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::HOST;
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use prometheus::IntCounterVec;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::TelemetryError;
use crate::metrics::Metrics;

/// What a collector may answer, in bytes. Only the status matters.
const ANSWER_BYTES_MAX: usize = 64 * 1_024;

const OK: &str = "ok";
const FAILED: &str = "failed";

/// Talks to the collector. The exporter lives on a thread without a runtime: the talking is done in that of the server.
pub(super) struct Collector {
    runtime: Handle,
    timeout: Duration,
    tls: Option<TlsConnector>,
    exports: IntCounterVec,
    is_failing: AtomicBool,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

impl Collector {
    /// `authorities` is the file of those who vouch for it, where it is talked to over TLS.
    pub(super) fn new(
        timeout: Duration,
        authorities: Option<&Path>,
        metrics: &Metrics,
    ) -> Result<Self, TelemetryError> {
        let exports = metrics.trace_exports().clone();
        for outcome in [OK, FAILED] {
            exports.with_label_values(&[outcome]);
        }
        Ok(Self {
            runtime: Handle::current(),
            timeout,
            tls: authorities.map(connector).transpose()?,
            exports,
            is_failing: AtomicBool::new(false),
        })
    }

    /// Counts what became of a batch, and says so where it is another than that of the last one.
    fn note(&self, outcome: &Result<Response<Bytes>, HttpError>) {
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
                    "the collector does not take traces; they are dropped until it does"
                );
            }
            None if was_failing => tracing::info!("the collector takes traces again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (timeout, tls) = (self.timeout, self.tls.clone());
        let exchange = self
            .runtime
            .spawn(async move { tokio::time::timeout(timeout, exchange(request, tls)).await });
        let outcome = match exchange.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("no answer in time".into()),
            Err(error) => Err(error.into()),
        };
        self.note(&outcome);
        outcome
    }
}

async fn exchange(
    request: Request<Bytes>,
    tls: Option<TlsConnector>,
) -> Result<Response<Bytes>, HttpError> {
    let uri = request.uri();
    let authority = uri.authority().ok_or("an address without a host")?.clone();
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
    let port = authority
        .port_u16()
        .unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    match tls.filter(|_| is_tls) {
        None => send(stream, request, authority.as_str()).await,
        Some(tls) => {
            let stream = tls.connect(ServerName::try_from(host)?, stream).await?;
            send(stream, request, authority.as_str()).await
        }
    }
}

async fn send<IO>(
    stream: IO,
    mut request: Request<Bytes>,
    host: &str,
) -> Result<Response<Bytes>, HttpError>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    request
        .headers_mut()
        .insert(HOST, HeaderValue::try_from(host)?);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with this function, whatever the collector does.
    let mut background = JoinSet::new();
    background.spawn(connection);
    let response = sender.send_request(request.map(Full::new)).await?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

fn connector(authorities: &Path) -> Result<TlsConnector, TelemetryError> {
    let refused = |problem: String| TelemetryError::Authorities {
        path: authorities.to_owned(),
        problem,
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(authorities)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refused(error.to_string()))?;
    // One that cannot be used does not make the others unusable.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(refused(
            "no certificate of an authority is in it".to_owned(),
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
