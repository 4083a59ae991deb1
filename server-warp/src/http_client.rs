//! A client for the few requests that the server makes itself: one exchange, on a connection of its own.

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

/// Where Debian, Alpine and most images have the certificates of the authorities that everybody trusts.
pub(crate) const CA_FILE_DEFAULT: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Why there was no answer.
pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// The answer to a request for an absolute URL, up to this length. Redirects are not followed. An `https` one needs
/// `tls`. The caller bounds the time.
pub(crate) async fn exchange(
    request: Request<Bytes>,
    tls: Option<TlsConnector>,
    answer_bytes_max: usize,
) -> Result<Response<Bytes>, Failed> {
    let uri = request.uri();
    let authority = uri.authority().ok_or("a URL without a host")?.clone();
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
    let port = authority
        .port_u16()
        .unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    if !is_tls {
        return send(stream, request, authority.as_str(), answer_bytes_max).await;
    }
    let tls = tls.ok_or("nothing vouches for who answers")?;
    let stream = tls.connect(ServerName::try_from(host)?, stream).await?;
    send(stream, request, authority.as_str(), answer_bytes_max).await
}

async fn send<IO>(
    stream: IO,
    mut request: Request<Bytes>,
    host: &str,
    answer_bytes_max: usize,
) -> Result<Response<Bytes>, Failed>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    let host = HeaderValue::try_from(host)?;
    request.headers_mut().insert(HOST, host);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with this function, whatever the other side does.
    let mut background = JoinSet::new();
    background.spawn(connection);
    let response = sender.send_request(request.map(Full::new)).await?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, answer_bytes_max).collect().await?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

/// TLS that trusts those for whom the authorities of this file, as PEM, vouch.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn trusting(authorities: &Path) -> Result<TlsConnector, String> {
    let config = tls_config(roots_of(authorities)?)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The authorities of a file.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn roots_of(authorities: &Path) -> Result<RootCertStore, String> {
    let certificates = CertificateDer::pem_file_iter(authorities)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    // One that cannot be used does not make the others unusable.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err("no certificate of an authority is in it".to_owned());
    }
    Ok(roots)
}

/// The authorities that the operating system trusts, if it trusts any. Reads files.
pub(crate) fn roots_of_the_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// How TLS is spoken as a client, trusting these.
///
/// # Errors
/// What rustls says.
pub(crate) fn tls_config(roots: RootCertStore) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
