//! HTTP client for the few requests that the server sends itself, each on its own connection.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HOST;
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Path of the CA certificates on Debian, Alpine and most container images.
pub(crate) const CA_FILE_DEFAULT: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Error of a request without a response.
pub(crate) type RequestError = Box<dyn Error + Send + Sync>;

/// Sends a request for an absolute URL and returns the response, whose body has a maximum length.
/// Redirects are not followed; `https` needs `tls`. The caller sets the timeout.
pub(crate) async fn exchange(
    request: Request<Bytes>,
    tls: Option<TlsConnector>,
    response_bytes_max: usize,
) -> Result<Response<Bytes>, RequestError> {
    let uri = request.uri();
    let authority = uri.authority().ok_or("a URL without a host")?.clone();
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
    let port = authority
        .port_u16()
        .unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    if !is_tls {
        return send(stream, request, authority.as_str(), response_bytes_max).await;
    }
    let tls = tls.ok_or("https needs CA certificates")?;
    let stream = tls.connect(ServerName::try_from(host)?, stream).await?;
    send(stream, request, authority.as_str(), response_bytes_max).await
}

async fn send<IO>(
    stream: IO,
    mut request: Request<Bytes>,
    host: &str,
    response_bytes_max: usize,
) -> Result<Response<Bytes>, RequestError>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    let host = HeaderValue::try_from(host)?;
    request.headers_mut().insert(HOST, host);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with this function, whatever the server does.
    let mut background = JoinSet::new();
    background.spawn(connection);
    let response = sender.send_request(request.map(Full::new)).await?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, response_bytes_max).collect().await?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

/// Returns a TLS connector that trusts the CA certificates in a PEM file.
///
/// # Errors
/// The error in the file.
pub(crate) fn tls_connector(authorities: &Path) -> Result<TlsConnector, String> {
    let config = tls_config(read_roots(authorities)?)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Reads the CA certificates in a PEM file.
///
/// # Errors
/// The error in the file.
pub(crate) fn read_roots(authorities: &Path) -> Result<RootCertStore, String> {
    let certificates = CertificateDer::pem_file_iter(authorities)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    // An unusable certificate does not invalidate the others.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err("no CA certificate found".to_owned());
    }
    Ok(roots)
}

/// Reads the CA certificates that the operating system trusts; may be empty.
pub(crate) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Returns a client's TLS configuration that trusts these CA certificates.
///
/// # Errors
/// The error of rustls.
pub(crate) fn tls_config(roots: RootCertStore) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
