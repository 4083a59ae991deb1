//! HTTP client for the requests that the server and its commands send.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use reqwest::{Client, ClientBuilder, redirect, retry};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};

/// Path of the CA certificates on Debian, Alpine and most container images.
pub const CA_FILE_DEFAULT: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Reason for a missing response, which never contains the URL.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The response is longer than the client accepts.
    #[error("the response exceeds {0} bytes")]
    TooLarge(usize),
    /// There is no response, or only a part.
    #[error("{0}")]
    NoResponse(String),
}

/// HTTP client with limits, whose errors say what to do about a certificate.
#[derive(Debug)]
pub struct HttpClient {
    client: Client,
    timeout: Duration,
    response_bytes_max: usize,
    ca_setting: &'static str,
}

impl HttpClient {
    /// Creates a client whose CA certificates `ca_setting` configures.
    ///
    /// # Errors
    /// The error of reqwest.
    pub fn new(
        builder: ClientBuilder,
        ca_setting: &'static str,
        timeout: Duration,
        response_bytes_max: usize,
    ) -> Result<Self, String> {
        Ok(Self {
            client: builder.build().map_err(|error| error.to_string())?,
            timeout,
            response_bytes_max,
            ca_setting,
        })
    }

    /// Sends a request for an absolute URL and returns the whole response.
    ///
    /// # Errors
    /// The failure in words: of the connection, its certificate or the exchange.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let sent = self.try_send(request).await;
        sent.map_err(|error| error.to_string())
    }

    /// Sends a request, as [`send`](Self::send).
    ///
    /// # Errors
    /// See [`SendError`].
    pub(crate) async fn try_send(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, SendError> {
        let timed = tokio::time::timeout(self.timeout, self.exchange(request)).await;
        let late = |_| Err(SendError::NoResponse("the request timed out".to_owned()));
        timed.unwrap_or_else(late)
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, SendError> {
        let describe = |error: reqwest::Error| SendError::NoResponse(self.describe(&error));
        let request = request.try_into().map_err(describe)?;
        let response = self.client.execute(request).await.map_err(describe)?;
        let (head, body) = Response::<reqwest::Body>::from(response).into_parts();
        let body = Limited::new(body, self.response_bytes_max).collect().await;
        let body = body.map_err(|error| match error.downcast::<reqwest::Error>() {
            Ok(error) => describe(*error),
            Err(error) if error.is::<LengthLimitError>() => {
                SendError::TooLarge(self.response_bytes_max)
            }
            Err(error) => SendError::NoResponse(error.to_string()),
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    fn describe(&self, error: &reqwest::Error) -> String {
        if error.is_builder() {
            return "the URL must be an absolute http or https URL".to_owned();
        }
        match cause::<rustls::Error>(error) {
            Some(tls) if is_untrusted(tls) => format!(
                "{}; name the certificate of its authority with {}",
                tls_problem(tls),
                self.ca_setting
            ),
            Some(tls @ rustls::Error::InvalidMessage(_)) => format!(
                "{}: {tls}; if the server does not use TLS, use an http URL",
                tls_problem(tls)
            ),
            Some(tls) => format!("{}: {tls}", tls_problem(tls)),
            None if error.is_dns() => "the name could not be resolved".to_owned(),
            None => causes(error)
                .last()
                .map_or_else(|| error.to_string(), ToString::to_string),
        }
    }
}

/// Returns a builder of clients that trust these CA certificates, follow no redirects, use no proxy
/// from the environment and repeat no request.
///
/// # Errors
/// The error of the TLS library.
pub fn builder(roots: RootCertStore) -> Result<ClientBuilder, String> {
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Client::builder()
        .tls_backend_preconfigured(tls)
        .http1_only()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        .retry(retry::never()))
}

/// Error of reading CA certificates from a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct RootsError {
    /// Path of the file.
    pub path: PathBuf,
    /// The error in the file.
    pub problem: String,
}

/// Reads the CA certificates in a PEM file.
///
/// # Errors
/// [`RootsError`].
pub fn read_roots(path: &Path) -> Result<RootCertStore, RootsError> {
    let failed = |problem: String| RootsError {
        path: path.to_owned(),
        problem,
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    // An unusable certificate does not invalidate the others.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        let problem = "it contains no certificate that can be used";
        return Err(failed(problem.to_owned()));
    }
    Ok(roots)
}

/// Reads the CA certificates that the operating system trusts; may be empty.
#[must_use]
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Describes a TLS error without anything that the peer sent.
pub(crate) fn tls_problem(error: &rustls::Error) -> &'static str {
    if is_untrusted(error) {
        return "the certificate is not issued by a trusted authority";
    }
    let rustls::Error::InvalidCertificate(certificate) = error else {
        return "the TLS handshake failed";
    };
    match certificate {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for another host"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet"
        }
        CertificateError::Revoked => "the certificate is revoked",
        _ => "the certificate cannot be used",
    }
}

fn is_untrusted(error: &rustls::Error) -> bool {
    use CertificateError::{BadSignature, UnknownIssuer};
    matches!(
        error,
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature)
    )
}

/// Returns the first error of this type among the causes.
pub(crate) fn cause<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    causes(error).find_map(<dyn Error>::downcast_ref)
}

/// Returns the causes of an error, the innermost last.
pub(crate) fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |error| cause_of(*error))
}

fn cause_of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    // `source()` skips the error that an `io::Error` wraps.
    match error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(carried) => Some(carried),
        None => error.source(),
    }
}
