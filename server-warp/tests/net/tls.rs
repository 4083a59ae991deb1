//! Tests of TLS, with certificates generated for each test.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use knowledge_server::net::{
    BindError, Certificates, NetConfig, Reload, Server, TlsConfig, TlsError,
};
use knowledge_server::private_file;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
};

use crate::proxy_protocol::{of_client, requires_header};
use crate::support::{Client, GUARD, Running, SHORT, Stub, config, get, guarded};

/// The certificate files of a server.
struct Files {
    directory: TempDir,
}

/// A certificate, for clients and as files.
struct Made {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    key_pem: String,
}

fn make() -> Made {
    make_until(4_096)
}

/// Creates a certificate that expires at the beginning of this year.
fn make_until(year: i32) -> Made {
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    params.not_after = date_time_ymd(year, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    Made {
        certificate: certificate.der().clone(),
        certificate_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
    }
}

impl Files {
    /// Creates the files of a new certificate.
    fn new() -> (Self, Made) {
        let directory = tempfile::tempdir().expect("a directory");
        let files = Self { directory };
        let made = make();
        files.put(&made);
        (files, made)
    }

    fn certificate(&self) -> PathBuf {
        self.directory.path().join("server.pem")
    }

    fn key(&self) -> PathBuf {
        self.directory.path().join("server.key")
    }

    /// Replaces the files by another certificate.
    fn put(&self, made: &Made) {
        fs::write(self.certificate(), &made.certificate_pem).expect("write the certificate");
        private_file::replace(&self.key(), &made.key_pem).expect("write the key");
    }

    fn tls(&self) -> TlsConfig {
        TlsConfig::new(self.certificate(), self.key())
    }

    /// Starts a server that reloads these files only on demand.
    async fn serve(&self) -> (Running, Arc<Certificates>) {
        let tls = TlsConfig {
            reload_interval: GUARD * 10,
            ..self.tls()
        };
        let net = NetConfig { tls, ..config() };
        Running::start_with_certificates(net).await
    }

    /// Returns the error of a server that does not start with these files.
    async fn refusal(&self) -> String {
        let net = NetConfig {
            tls: self.tls(),
            ..config()
        };
        match Server::bind(net, Stub::default()).await {
            Err(error @ BindError::Tls(_)) => error.to_string(),
            Err(error) => panic!("refused for another reason: {error}"),
            Ok(_) => panic!("it starts"),
        }
    }
}

type Secure = Client<TlsStream<TcpStream>>;

async fn shake_hands(
    address: SocketAddr,
    trusted: &Made,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&[u8]],
) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    shake_hands_over(stream, trusted, versions, protocols).await
}

async fn shake_hands_over(
    stream: TcpStream,
    trusted: &Made,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&[u8]],
) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(trusted.certificate.clone())
        .expect("a certificate");
    let mut client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::new(client));
    guarded("a handshake", connector.connect(name, stream)).await
}

/// Connects to a server with this certificate.
async fn connect(server: &Running, trusted: &Made) -> Secure {
    let stream = shake_hands(server.address, trusted, &[&TLS13, &TLS12], &[b"http/1.1"]).await;
    Client::over(stream.expect("the server shows the certificate"))
}

async fn ask(client: &mut Secure) -> String {
    client.send(get("/")).await;
    client.answer().await.body
}

/// Asks over a new connection to a server with this certificate.
async fn ask_anew(server: &Running, trusted: &Made) -> String {
    ask(&mut connect(server, trusted).await).await
}

#[tokio::test]
async fn requests_succeed_over_both_tls_versions() {
    let (files, made) = Files::new();
    let (server, _) = files.serve().await;
    for (version, expected) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let stream = shake_hands(server.address, &made, &[version], &[b"h2", b"http/1.1"]).await;
        let stream = stream.expect("a handshake");
        let (_, session) = stream.get_ref();
        assert_eq!(session.protocol_version(), Some(expected));
        assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
        let mut client = Client::over(stream);
        assert_eq!(ask(&mut client).await, "GET / test= body=0");
        assert_eq!(ask(&mut client).await, "GET / test= body=0");
    }
}

#[tokio::test]
async fn browsers_are_told_to_use_https_only() {
    let (files, made) = Files::new();
    let (year, none) = ("max-age=31536000", Duration::ZERO);
    for (hsts_max_age, expected) in [
        (files.tls().hsts_max_age, Some(year)),
        (Duration::from_millis(1_500), Some("max-age=2")),
        (none, None),
    ] {
        let tls = TlsConfig {
            hsts_max_age,
            ..files.tls()
        };
        let server = Running::start(NetConfig { tls, ..config() }).await;
        let mut client = connect(&server, &made).await;
        for (path, status) in [("/", 200), ("/panic", 500), ("/healthz", 200)] {
            client.send(get(path)).await;
            let answer = client.answer().await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.header("strict-transport-security"), expected);
        }
    }
    // The header is only valid over TLS.
    let plain = Running::start(config()).await;
    let answer = plain.ask(get("/")).await;
    assert_eq!(answer.header("strict-transport-security"), None);
}

#[tokio::test]
async fn proxy_protocol_header_precedes_the_handshake() {
    let (files, made) = Files::new();
    let server = Running::start(NetConfig {
        tls: files.tls(),
        ..requires_header()
    })
    .await;
    let mut client = Client::connect_from(2, server.address).await;
    client.send(of_client([192, 0, 2, 1])).await;
    let stream = shake_hands_over(client.stream, &made, &[&TLS13], &[]).await;
    let mut client = Client::over(stream.expect("a handshake"));
    client.send(get("/")).await;
    assert_eq!(client.answer().await.remaining(), "99");

    let client = Client::connect_from(2, server.address).await;
    shake_hands_over(client.stream, &made, &[&TLS13], &[])
        .await
        .expect_err("the header is required");
}

#[tokio::test]
async fn client_with_other_alpn_protocol_is_rejected() {
    let (files, made) = Files::new();
    let (server, _) = files.serve().await;
    let error = shake_hands(server.address, &made, &[&TLS13], &[b"h2"])
        .await
        .expect_err("HTTP/2 is not spoken");
    assert!(
        error.to_string().contains("NoApplicationProtocol"),
        "{error}"
    );
}

#[tokio::test]
async fn new_certificate_applies_to_new_connections_only() {
    let (files, old) = Files::new();
    let (server, certificates) = files.serve().await;
    let mut open = connect(&server, &old).await;
    assert_eq!(ask(&mut open).await, "GET / test= body=0");

    let new = make();
    files.put(&new);
    assert_eq!(certificates.reload().expect("usable"), Reload::Replaced);
    assert_eq!(certificates.reload().expect("usable"), Reload::Unchanged);

    let mut fresh = connect(&server, &new).await;
    assert_eq!(ask(&mut fresh).await, "GET / test= body=0");
    shake_hands(server.address, &old, &[&TLS13], &[])
        .await
        .expect_err("the old certificate is no longer shown");
    assert_eq!(ask(&mut open).await, "GET / test= body=0");
}

#[tokio::test]
async fn certificate_expiry_is_exported_and_follows_a_reload() {
    let expiry = "knowledge_tls_certificate_expiry_timestamp_seconds";
    assert_eq!(Running::start(config()).await.number(expiry, &[]), 0.0);

    // The certificate of the server expires before the other one of its chain.
    let (files, _) = Files::new();
    let mut other = make_until(2_041);
    let mut own = make_until(2_031);
    own.certificate_pem.push_str(&other.certificate_pem);
    files.put(&own);
    let (server, certificates) = files.serve().await;
    assert_eq!(server.number(expiry, &[]), 1_924_992_000.0);

    other
        .certificate_pem
        .push_str(&make_until(2_032).certificate_pem);
    files.put(&other);
    assert_eq!(certificates.reload().expect("usable"), Reload::Replaced);
    assert_eq!(server.number(expiry, &[]), 1_956_528_000.0);
    fs::remove_file(files.certificate()).expect("remove");
    certificates.reload().expect_err("no certificate");
    assert_eq!(server.number(expiry, &[]), 1_956_528_000.0);
}

#[test]
fn config_requires_certificate_and_key_together() {
    let refusal = |certificate: Option<&str>, key: Option<&str>| {
        let tls = TlsConfig {
            certificate_file: certificate.map(PathBuf::from),
            private_key_file: key.map(PathBuf::from),
            ..TlsConfig::default()
        };
        let validated = NetConfig { tls, ..config() }.validate();
        validated.err().map(|invalid| invalid.to_string())
    };
    assert_eq!(
        refusal(Some("server.pem"), None).as_deref(),
        Some("tls.private_key_file must be set if tls.certificate_file is")
    );
    assert_eq!(
        refusal(None, Some("server.key")).as_deref(),
        Some("tls.certificate_file must be set if tls.private_key_file is")
    );
    assert_eq!(refusal(Some("server.pem"), Some("server.key")), None);
    assert_eq!(refusal(None, None), None);
}

#[tokio::test]
async fn certificate_files_are_polled() {
    let (files, _) = Files::new();
    let tls = TlsConfig {
        reload_interval: SHORT / 10,
        ..files.tls()
    };
    let server = Running::start(NetConfig { tls, ..config() }).await;
    let new = make();
    files.put(&new);
    guarded("the new certificate", async {
        while shake_hands(server.address, &new, &[&TLS13], &[])
            .await
            .is_err()
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn invalid_pair_keeps_the_old_certificate() {
    let (files, old) = Files::new();
    let (server, certificates) = files.serve().await;

    // The certificate is new, its key is still the old one.
    let new = make();
    fs::write(files.certificate(), &new.certificate_pem).expect("write");
    let error = certificates.reload().expect_err("of two pairs");
    assert!(matches!(error, TlsError::Pair { .. }), "{error}");
    assert_eq!(ask_anew(&server, &old).await, "GET / test= body=0");

    // Half a file.
    fs::write(files.certificate(), &new.certificate_pem[..200]).expect("write");
    let error = certificates.reload().expect_err("half a certificate");
    assert!(matches!(error, TlsError::Certificate { .. }), "{error}");
    fs::remove_file(files.certificate()).expect("remove");
    let error = certificates.reload().expect_err("no certificate");
    assert!(matches!(error, TlsError::CertificateFile { .. }), "{error}");
    assert_eq!(ask_anew(&server, &old).await, "GET / test= body=0");

    files.put(&new);
    assert_eq!(certificates.reload().expect("usable"), Reload::Replaced);
    assert_eq!(ask_anew(&server, &new).await, "GET / test= body=0");
}

#[tokio::test]
async fn server_does_not_start_with_invalid_pair() {
    let (files, made) = Files::new();
    let (certificate, key) = (files.certificate(), files.key());
    let (shown_certificate, shown_key) = (certificate.display(), key.display());

    fs::write(&certificate, make().certificate_pem).expect("write");
    assert_eq!(
        files.refusal().await,
        format!(
            "the private key {shown_key} and the certificate {shown_certificate}: do not match"
        )
    );
    fs::write(&certificate, "nothing").expect("write");
    assert_eq!(
        files.refusal().await,
        format!("the certificate {shown_certificate}: no BEGIN CERTIFICATE section")
    );
    fs::remove_file(&certificate).expect("remove");
    assert_eq!(
        files.refusal().await,
        format!("the certificate {shown_certificate}: No such file or directory (os error 2)")
    );

    files.put(&made);
    private_file::replace(&key, &made.certificate_pem).expect("write");
    assert_eq!(
        files.refusal().await,
        format!("the private key {shown_key}: no BEGIN PRIVATE KEY section")
    );
    fs::remove_file(&key).expect("remove");
    assert_eq!(
        files.refusal().await,
        format!("the private key {shown_key}: no such file")
    );
}

#[cfg(unix)]
#[tokio::test]
async fn server_does_not_start_with_key_readable_by_others() {
    use std::os::unix::fs::PermissionsExt;

    let (files, _) = Files::new();
    fs::set_permissions(files.key(), fs::Permissions::from_mode(0o644)).expect("permissions");
    let key = files.key();
    let key = key.display();
    assert_eq!(
        files.refusal().await,
        format!(
            "the private key {key} may be read by other users than its owner (mode 0644); run \
             chmod 600 {key}"
        )
    );
}

#[tokio::test]
async fn partial_handshake_is_closed() {
    let (files, made) = Files::new();
    let tls = TlsConfig {
        handshake_timeout: SHORT,
        ..files.tls()
    };
    // With a single connection, an unfinished handshake would block the next client for ever.
    let server = Running::start(NetConfig {
        tls,
        connections_max: 1,
        ..config()
    })
    .await;
    let mut silent = server.connect().await;
    assert!(silent.closed_silently().await);
    let mut half = server.connect().await;
    half.send([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await;
    assert!(half.closed_silently().await);
    let mut client = connect(&server, &made).await;
    assert_eq!(ask(&mut client).await, "GET / test= body=0");
}

#[tokio::test]
async fn plain_http_gets_an_error_and_other_noise_is_closed() {
    let (files, made) = Files::new();
    let (server, _) = files.serve().await;
    let mut plain = server.connect().await;
    plain.send(get("/")).await;
    let answer = plain.answer().await;
    answer.assert_is(400, "This port speaks HTTPS.\n");
    // The server waits for the client to close first, so that no reset overtakes the response.
    drop(plain);

    let mut noise = server.connect().await;
    noise.send([0x16, 0xff, 0xff, 0xff, 0xff, 0xff]).await;
    // An alert may precede the end.
    noise.closed_silently().await;
    let mut client = connect(&server, &made).await;
    assert_eq!(ask(&mut client).await, "GET / test= body=0");
}

#[tokio::test]
async fn shutdown_completes_requests_and_closes_tls_cleanly() {
    let (files, made) = Files::new();
    let (mut server, _) = files.serve().await;
    let mut idle = connect(&server, &made).await;
    assert_eq!(ask(&mut idle).await, "GET / test= body=0");
    // Before its handshake, a client is not waited for.
    let mut silent = server.connect().await;
    let mut working = connect(&server, &made).await;
    working.send(get("/wait")).await;
    server.stub.entered(1).await;
    server.stop();
    // rustls reports an end without close_notify as an error.
    assert_eq!(idle.read_end().await.expect("an announced end"), 0);
    assert!(silent.closed_silently().await);
    server.stub.release(1);
    assert_eq!(working.answer().await.body, "GET /wait test= body=0");
    assert_eq!(working.read_end().await.expect("an announced end"), 0);
    assert_eq!(server.stopped().await.connections_killed, 0);
}

#[tokio::test]
async fn tls_client_that_reads_nothing_is_closed() {
    let (files, made) = Files::new();
    let mut server = Running::start(NetConfig {
        tls: files.tls(),
        write_stall_timeout: SHORT,
        ..config()
    })
    .await;
    let mut client = connect(&server, &made).await;
    client.send(get("/large")).await;
    guarded("the answer to begin", client.stream.get_ref().0.readable())
        .await
        .expect("the answer begins");
    server.stop();
    assert_eq!(server.stopped().await.connections_killed, 0);
    drop(client);
}
