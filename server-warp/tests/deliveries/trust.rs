//! Tests of the certificates that the client trusts for the host of a URL.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use knowledge_server::config::WebhookSettings;
use knowledge_server::deliveries::{DeliveryClient, DeliveryClientError, Resolver};
use rcgen::{CertificateParams, CertifiedKey, DnType, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::support::peer::{Peer, SHORT, loopback_allowed, outcome, read_request};

type Certificate = CertifiedKey<KeyPair>;

const HOST: &str = "hooks.example.com";

/// A resolver that maps each name to this machine.
struct Here;

#[async_trait]
impl Resolver for Here {
    async fn look_up(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

fn certificate(host: &str) -> Certificate {
    certificate_until(host, 2_999)
}

/// Creates a self-signed certificate that expires at the beginning of this year.
fn certificate_until(host: &str, year: i32) -> Certificate {
    let mut params = CertificateParams::new([host.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, host);
    params.not_before = date_time_ymd(2_001, 1, 1);
    params.not_after = date_time_ymd(year, 1, 1);
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
    CertifiedKey { cert, signing_key }
}

/// Starts a receiver with this certificate.
async fn showing(certificate: &Certificate) -> Peer {
    let key = PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Peer::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            read_request(&mut stream).await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    })
    .await
}

/// Returns a client that trusts this certificate as an authority.
fn trusting(certificate: &Certificate) -> DeliveryClient {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("authorities.pem");
    std::fs::write(&file, certificate.cert.pem()).unwrap();
    let settings = WebhookSettings {
        ca_file: Some(file),
        ..loopback_allowed()
    };
    DeliveryClient::with_resolver(&settings, Arc::new(Here)).unwrap()
}

fn url(host: &str, peer: &Peer) -> String {
    format!("https://{host}:{}/hook", peer.port())
}

#[tokio::test]
async fn client_trusts_certificate_of_configured_authority() {
    let certificate = certificate(HOST);
    let peer = showing(&certificate).await;
    let client = trusting(&certificate);
    assert_eq!(outcome(&client, &url(HOST, &peer)).await, "200");
}

#[tokio::test]
async fn client_rejects_certificate_of_another_name() {
    let certificate = certificate(HOST);
    let peer = showing(&certificate).await;
    let client = trusting(&certificate);
    // The same machine, by names that the certificate does not have.
    for host in ["other.example.com", "127.0.0.1"] {
        let found = outcome(&client, &url(host, &peer)).await;
        assert_eq!(found, "tls_failed: the certificate is for another host");
    }
}

#[tokio::test]
async fn client_rejects_self_signed_certificate() {
    let peer = showing(&certificate(HOST)).await;
    let expected = "tls_failed: the certificate is not issued by a trusted authority";
    let client = trusting(&certificate("authority.example.com"));
    assert_eq!(outcome(&client, &url(HOST, &peer)).await, expected);
    // The authorities of the system do not vouch for it either.
    let client = DeliveryClient::with_resolver(&loopback_allowed(), Arc::new(Here)).unwrap();
    assert_eq!(outcome(&client, &url(HOST, &peer)).await, expected);
}

#[tokio::test]
async fn client_rejects_expired_certificate() {
    let certificate = certificate_until(HOST, 2_002);
    let peer = showing(&certificate).await;
    let client = trusting(&certificate);
    let found = outcome(&client, &url(HOST, &peer)).await;
    assert_eq!(found, "tls_failed: the certificate has expired");
}

#[tokio::test]
async fn client_reports_peer_without_tls() {
    let client = trusting(&certificate(HOST));
    let plain = Peer::answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    // The peer waits for the end of a request, which never comes.
    let client_in_haste = client.clone().timeout(SHORT);
    let found = outcome(&client_in_haste, &url(HOST, &plain)).await;
    assert_eq!(found, "timed_out: the request timed out");
    let eager = Peer::start(async |mut stream| {
        let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
        let _ = stream.write_all(answer).await;
        read_request(&mut stream).await;
    })
    .await;
    let found = outcome(&client, &url(HOST, &eager)).await;
    assert_eq!(found, "tls_failed: the TLS handshake failed");
    let closing = Peer::start(async |mut stream| {
        let mut hello = [0; 16 * 1024];
        let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut hello).await;
        let _ = stream.shutdown().await;
    })
    .await;
    assert_eq!(
        outcome(&client, &url(HOST, &closing)).await,
        "tls_failed: the connection was closed during the TLS handshake"
    );
}

#[test]
fn client_rejects_ca_file_without_authorities() {
    let directory = TempDir::new().unwrap();
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for file in [empty, PathBuf::from("/nowhere/authorities.pem")] {
        let settings = WebhookSettings {
            ca_file: Some(file.clone()),
            ..WebhookSettings::default()
        };
        let error = DeliveryClient::new(&settings).unwrap_err();
        assert!(matches!(error, DeliveryClientError::Authorities { .. }));
        let told = error.to_string();
        let begin = format!("webhooks.ca_file {}: ", file.display());
        assert!(told.starts_with(&begin), "{told}");
    }
}
