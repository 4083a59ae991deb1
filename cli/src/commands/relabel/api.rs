//! Client of a server's public API.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use knowledge_core::access::Secret;
use knowledge_core::env::Env;
use knowledge_server::http_client::HttpClient;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::args::{base_url, http_client};
use crate::commands::error_response::ErrorResponse;
use crate::commands::failure::Failure;
use crate::commands::operator::with_query;

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
    client: HttpClient,
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
        let base = base_url("--server", server)?;
        let client = http_client(&base, ca_file, EXCHANGE_TIMEOUT, RESPONSE_BYTES_MAX)?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.expose()))
            .map_err(|_| Failure::new("the token contains characters that headers do not allow"))?;
        authorization.set_sensitive(true);
        Ok(Self {
            client,
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

    /// Returns all items of a list.
    pub(super) async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, CallError> {
        let (mut items, mut cursor) = (Vec::new(), None);
        loop {
            let (page, next) = self.page(path, &[], cursor.as_deref()).await?;
            items.extend(page);
            cursor = next;
            if cursor.is_none() {
                return Ok(items);
            }
        }
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
            tokio::time::sleep(wait + Env::system().jitter(wait / 4)).await;
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
        let request = request.body(body).map_err(|error| error.to_string())?;
        self.client.send(request).await
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
