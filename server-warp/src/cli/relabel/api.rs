//! The public interface of a server, as a client with a token sees it.

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

use crate::cli::failure::Failure;
use crate::cli::operator::with_query;
use crate::cli::refusal::Refusal;
use crate::http_client::{roots_of_the_system, tls_config};
use crate::system::system_env;

/// Time for one exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest answer that is read, in bytes: that to a call for 1,000 memories has some 400 KB.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How often a change is sent before it is given up: for some minutes.
const CHANGE_ATTEMPTS_MAX: u32 = 10;
/// How often a question is: whoever waits for the answer hears soon that there is no server.
const QUESTION_ATTEMPTS_MAX: u32 = 4;
/// The first wait before a request is sent again; each further one is twice as long.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(250);
/// The longest wait, whatever the server asks for.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);
/// How many items a page of a list is asked for.
const PAGE_ITEMS: &str = "200";

/// A server, and the token that it is asked with.
pub(super) struct Api {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: HeaderValue,
}

/// Why a request has no answer that can be used.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server refuses the request for what is in it: it will not take the same one another time.
    Refused(Failure),
    /// Anything else.
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
            CallError::Refused(failure) | CallError::Failed(failure) => failure,
        }
    }
}

/// A page of a list.
#[derive(Deserialize)]
struct Page<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

impl Api {
    /// A server by its base URL. Whom to trust is said by `ca_file`, certificates as PEM, or else by the system.
    pub(super) fn new(
        server: &str,
        token: &Secret,
        ca_file: Option<&Path>,
    ) -> Result<Self, Failure> {
        let base = base_of(server)?;
        let tls = match ca_file {
            Some(file) => trusting(file)?,
            None => trusting_the_system()?,
        };
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.expose()))
            .map_err(|_| Failure::new("the token cannot stand in a header"))?;
        authorization.set_sensitive(true);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(https),
            base,
            authorization,
        })
    }

    /// Where the server is.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// One page of a list, and the cursor of the next one.
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

    /// The answer to a request, which is sent again as long as that may help. One with an idempotency key does not do
    /// anything twice.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<(&Value, &str)>,
    ) -> Result<T, CallError> {
        let attempts_max = match body {
            Some(_) => CHANGE_ATTEMPTS_MAX,
            None => QUESTION_ATTEMPTS_MAX,
        };
        let mut delay = RETRY_DELAY_MIN;
        for attempt in 1.. {
            let sent = self.send(&method, path, body).await;
            let (problem, wait) = match sent {
                Ok(answer) if answer.status().is_success() => {
                    let read = serde_json::from_slice(answer.body());
                    return read.map_err(|error| {
                        let message = format!("the answer to {path} cannot be read: {error}");
                        Failure::new(message).into()
                    });
                }
                Ok(answer) if is_passing(answer.status()) => {
                    (Refusal::read(&answer).message, asked_wait(&answer))
                }
                Ok(answer) => {
                    let failure = Refusal::read(&answer).into_failure(&[]);
                    return Err(if is_final(answer.status()) {
                        CallError::Refused(failure)
                    } else {
                        CallError::Failed(failure)
                    });
                }
                Err(problem) => (problem, None),
            };
            if attempt == attempts_max {
                return Err(Failure::new(format!(
                    "{} gives no other answer, {attempts_max} times in a row: {problem}",
                    self.base
                ))
                .into());
            }
            let wait = wait.unwrap_or(delay).clamp(delay, RETRY_DELAY_MAX);
            // Those who were refused together do not come again together.
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
            let answer = self.client.request(request).await;
            let (head, body) = answer.map_err(|error| chain(&error))?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let answered = tokio::time::timeout(EXCHANGE_TIMEOUT, exchange).await;
        answered.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }
}

/// Whether the same request may be answered otherwise soon.
fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::CONFLICT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Whether it is the request that is refused: neither its token, nor the moment at which it comes.
fn is_final(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY
    )
}

/// How long the server asks its client to wait, in seconds; a date is not what this server writes.
fn asked_wait(answer: &Response<Bytes>) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// An error with what caused it: what hyper says first is that it could not send.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The URL without a slash at its end.
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
fn trusting(file: &Path) -> Result<ClientConfig, Failure> {
    let failed =
        |error: &dyn Display| Failure::new(format!("--ca-file {}: {error}", file.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    if roots.is_empty() {
        return Err(failed(&"there is no certificate in it"));
    }
    client_config(roots)
}

/// Trusts whom the system trusts. One that trusts nobody hinders those alone who ask for https.
fn trusting_the_system() -> Result<ClientConfig, Failure> {
    client_config(roots_of_the_system())
}

fn client_config(roots: RootCertStore) -> Result<ClientConfig, Failure> {
    tls_config(roots).map_err(|error| Failure::new(format!("TLS: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_plain_url() {
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
