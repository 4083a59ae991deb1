//! TLS with rustls, for the client library.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use x509_parser::parse_x509_certificate;

use crate::error::OpenError;

/// Maker of TLS connections that verify the certificate and the name of the server.
#[derive(Clone)]
pub(crate) struct MakeTls(TlsConnector);

impl MakeTls {
    /// Creates a maker that trusts the certificates of a PEM file, or the operating system's.
    ///
    /// # Errors
    /// [`OpenError::RootCertificates`] if there are none.
    pub(crate) fn new(root_certificates: Option<&Path>) -> Result<Self, OpenError> {
        let (roots, origin) = match root_certificates {
            Some(path) => {
                let origin = path.display().to_string();
                let failed = |error: &dyn std::fmt::Display| OpenError::RootCertificates {
                    origin: origin.clone(),
                    reason: error.to_string(),
                };
                let found = CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))?;
                let found: Result<Vec<_>, _> = found.collect();
                (found.map_err(|error| failed(&error))?, origin)
            }
            None => {
                let found = rustls_native_certs::load_native_certs().certs;
                (found, "the operating system".to_owned())
            }
        };
        let mut store = RootCertStore::empty();
        if store.add_parsable_certificates(roots).0 == 0 {
            return Err(OpenError::RootCertificates {
                origin,
                reason: "no usable certificate".to_owned(),
            });
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions")
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

impl<S> MakeTlsConnect<S> for MakeTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Tls<S>;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Connect> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Connect(self.0.clone(), name))
    }
}

/// Connection attempt with one server.
pub(crate) struct Connect(TlsConnector, ServerName<'static>);

impl<S> TlsConnect<S> for Connect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Tls<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Tls<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { Ok(Tls(self.0.connect(self.1, stream).await?)) })
    }
}

/// Encrypted stream.
pub(crate) struct Tls<S>(RustlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Tls<S> {
    /// Returns the digest of the server's certificate (RFC 5929, section 4.1).
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates();
        let digest = certificates.and_then(|chain| end_point_digest(chain.first()?));
        digest.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// Returns the digest of a certificate by the hash function of its signature, at least SHA-256.
///
/// `None` for signatures without a hash function of their own, as of Ed25519.
fn end_point_digest(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    let algorithm = parsed.signature_algorithm.algorithm.to_id_string();
    match algorithm.as_str() {
        // RSA with SHA-1, RSA and ECDSA with SHA-256.
        "1.2.840.113549.1.1.5" | "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" => {
            Some(Sha256::digest(certificate).to_vec())
        }
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => {
            Some(Sha384::digest(certificate).to_vec())
        }
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => {
            Some(Sha512::digest(certificate).to_vec())
        }
        _ => None,
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tls<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tls<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
