//! Client of a server's public API.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use knowledge_core::access::Secret;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Url;

use crate::cli::error_response::ErrorResponse;
use crate::cli::failure::Failure;
use crate::cli::operator::with_query;
use crate::http_client::{system_roots, tls_config};
use crate::system::system_env;

/// Timeout of one exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a response in bytes; that for 1,000 memories has some 400 kB.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum attempts of a change, for several minutes.
const CHANGE_ATTEMPTS_MAX: u32 = 10;
/// Maximum attempts of a read, fewer so that an absent server is reported soon.
const READ_ATTEMPTS_MAX: u32 = 4;
/// Initial retry delay, doubled after each attempt.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(250);
/// Maximum retry delay, whatever the server requests.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);
/// Items per page of a list.
const PAGE_ITEMS: &str = "200";

/// A server and the token for it.
pub(super) struct Api {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: HeaderValue,
}

/// Reason for a missing result.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server rejected the content of the request, and would again.
    Rejected(Failure),
    /// Any other failure.
    Failed(Failure),
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Rejected(failure) | CallError::Failed(failure) => failure,
        }
    }
}

/// Page of a list.
#[derive(Deserialize)]
struct Page<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

impl Api {
    /// Creates a client for a base URL.
    ///
    /// Trusts the certificates in `ca_file` (PEM), or the system's.
    pub(super) fn new(
        server: &str,
        token: &Secret,
        ca_file: Option<&Path>,
    ) -> Result<Self, Failure> {
        let base = base_of(server)?;
        let tls = match ca_file {
            Some(file) => tls_connector(file)?,
            None => trusting_the_system()?,
        };
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.expose()))
            .map_err(|_| Failure::new("the token contains characters that headers do not allow"))?;
        authorization.set_sensitive(true);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(https),
            base,
            authorization,
        })
    }

    /// Returns the base URL.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Returns a page of a list, and the cursor of the next one.
    pub(super) async fn page<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &[(&str, String)],
        cursor: Option<&str>,
    ) -> Result<(Vec<T>, Option<String>), CallError> {
        let filter = filter.iter().map(|(name, value)| (*name, value.as_str()));
        let mut query: Vec<(&str, &str)> = filter.collect();
        query.push(("limit", PAGE_ITEMS));
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let page: Page<T> = self
            .call(Method::GET, &with_query(path, &query), None)
            .await?;
        Ok((page.data, page.next_cursor))
    }

    /// Sends a request, with retries, and parses the response.
    ///
    /// Retries are safe: changes carry an idempotency key.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<(&Value, &str)>,
    ) -> Result<T, CallError> {
        let attempts_max = match body {
            Some(_) => CHANGE_ATTEMPTS_MAX,
            None => READ_ATTEMPTS_MAX,
        };
        let mut delay = RETRY_DELAY_MIN;
        for attempt in 1.. {
            let sent = self.send(&method, path, body).await;
            let (problem, wait) = match sent {
                Ok(response) if response.status().is_success() => {
                    let read = serde_json::from_slice(response.body());
                    return read.map_err(|error| {
                        let message = format!("invalid response to {path}: {error}");
                        Failure::new(message).into()
                    });
                }
                Ok(response) if is_transient(response.status()) => (
                    ErrorResponse::read(&response).message,
                    retry_after(&response),
                ),
                Ok(response) => {
                    let failure = ErrorResponse::read(&response).into_failure(&[]);
                    return Err(if is_final(response.status()) {
                        CallError::Rejected(failure)
                    } else {
                        CallError::Failed(failure)
                    });
                }
                Err(problem) => (problem, None),
            };
            if attempt == attempts_max {
                return Err(Failure::new(format!(
                    "{} failed {attempts_max} times in a row: {problem}",
                    self.base
                ))
                .into());
            }
            let wait = wait.unwrap_or(delay).clamp(delay, RETRY_DELAY_MAX);
            // Jitter spreads the retries of clients that were rejected together.
            tokio::time::sleep(wait + system_env().jitter(wait / 4)).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
        unreachable!("the last attempt returns")
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Option<(&Value, &str)>,
    ) -> Result<Response<Bytes>, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(AUTHORIZATION, self.authorization.clone());
        if let Some((_, key)) = body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .header("idempotency-key", key);
        }
        let body = body.map_or_else(Bytes::new, |(body, _)| Bytes::from(body.to_string()));
        let request = request
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let exchange = async {
            let response = self.client.request(request).await;
            let (head, body) = response.map_err(|error| with_causes(&error))?.into_parts();
            let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let timed = tokio::time::timeout(EXCHANGE_TIMEOUT, exchange).await;
        timed.unwrap_or_else(|_| Err("the request timed out".to_owned()))
    }
}

/// True if a retry may succeed.
fn is_transient(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::CONFLICT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// True if the content of the request was rejected, not its token or its time.
fn is_final(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY
    )
}

/// Returns the delay that the server requests, in seconds; this server never sends a date.
fn retry_after(response: &Response<Bytes>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// Formats an error with its causes, which hyper's own message omits.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns the URL without a trailing slash.
fn base_of(server: &str) -> Result<String, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "--server {server:?} must be an http or https URL, such as https://knowledge.example.com"
        ))
    };
    let url = Url::parse(server).map_err(|_| wrong())?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_plain {
        return Err(wrong());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Trusts the certificates of a file.
fn tls_connector(file: &Path) -> Result<ClientConfig, Failure> {
    let failed =
        |error: &dyn Display| Failure::new(format!("--ca-file {}: {error}", file.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    if roots.is_empty() {
        return Err(failed(&"it contains no certificate"));
    }
    client_config(roots)
}

/// Trusts the system's certificates. If there are none, only https requests fail.
fn trusting_the_system() -> Result<ClientConfig, Failure> {
    client_config(system_roots())
}

fn client_config(roots: RootCertStore) -> Result<ClientConfig, Failure> {
    tls_config(roots).map_err(|error| Failure::new(format!("TLS: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_address_must_be_plain_url() {
        assert_eq!(
            base_of("http://127.0.0.1:8080/").unwrap(),
            "http://127.0.0.1:8080"
        );
        assert_eq!(
            base_of("https://a.example/base/").unwrap(),
            "https://a.example/base"
        );
        for wrong in [
            "",
            "a.example",
            "ftp://a.example",
            "https://me@a.example",
            "https://a.example/?q=1",
        ] {
            assert!(base_of(wrong).is_err(), "{wrong}");
        }
    }
}
