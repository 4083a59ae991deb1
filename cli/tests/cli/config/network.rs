//! Tests of network settings of the binary: certificate, origins, compression and rate limit.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use knowledge_http_suite::rows;
use knowledge_server::private_file;
use rcgen::{CertifiedKey, KeyPair};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, version::TLS13,
};

use super::problems;
use crate::support::{AssertText, Scratch, Server, knowledge, start};

type Certificate = CertifiedKey<KeyPair>;

fn certificate() -> Certificate {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate")
}

/// Writes a certificate and its key.
fn put(scratch: &Scratch, made: &Certificate) {
    scratch.write("server.pem", &made.cert.pem());
    let key = made.signing_key.serialize_pem();
    private_file::replace(&scratch.path("server.key"), &key).expect("write the key");
}

/// Writes a configuration file with a certificate.
fn file_with_tls(scratch: &Scratch) -> String {
    let (certificate, key) = (scratch.arg("server.pem"), scratch.arg("server.key"));
    scratch.write(
        "knowledge.toml",
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[storage]\ndata_dir = {:?}\n\
             [tls]\ncertificate_file = {certificate:?}\nprivate_key_file = {key:?}\nreload_interval = \"24h\"\n",
            scratch.arg("data")
        ),
    )
}

fn serve(file: &str) -> Server {
    start(&["serve", &format!("--config={file}"), "--log-format=text"])
}

/// Sends a GET, and returns the complete response.
fn ask(mut stream: impl Read + Write, path: &str, header: &str) -> std::io::Result<String> {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Sends a GET over TLS, to a server with this certificate.
fn ask_securely(address: &str, trusted: &Certificate, path: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots
        .add(trusted.cert.der().clone())
        .expect("a certificate");
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("a version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::new(client), name).expect("a session");
    let stream = StreamOwned::new(session, TcpStream::connect(address)?);
    ask(stream, path, "Accept: */*")
}

#[test]
fn certificate_is_reloaded_on_a_signal() {
    let scratch = Scratch::new();
    let old = certificate();
    put(&scratch, &old);
    let server = serve(&file_with_tls(&scratch));
    let url = server.base_url();
    let address = url.strip_prefix("https://").expect("an https URL");
    let is_shown = |trusted: &Certificate| {
        ask_securely(address, trusted, "/healthz")
            .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 OK\r\n"))
    };
    assert!(is_shown(&old));

    let hang_up = || server.hang_up();
    let new = certificate();
    // The certificate is new, its key is still the old one.
    scratch.write("server.pem", &new.cert.pem());
    hang_up();
    let line = server.error_with("certificate reload failed; keeping the old one");
    line.assert_has("ERROR");
    line.assert_has("do not match");
    assert!(is_shown(&old));

    put(&scratch, &new);
    hang_up();
    server.error_with("certificate reloaded");
    assert!(is_shown(&new));
    assert!(!is_shown(&old));
    assert_eq!(server.terminate(), 0);
}

#[test]
fn invalid_certificate_prevents_the_start_and_fails_the_check() {
    let scratch = Scratch::new();
    put(&scratch, &certificate());
    let file = file_with_tls(&scratch);
    knowledge(&["config", "check", &file]).ok();

    scratch.write("server.pem", "-----BEGIN CERTIFICATE-----\nhalf");
    let config = format!("--config={file}");
    let message = knowledge(&["serve", &config]).failed();
    let expected = format!(
        "error: the certificate {}: a PEM section has no end",
        scratch.arg("server.pem")
    );
    assert_eq!(message, expected);
    assert!(!scratch.path("data").exists(), "nothing is made");
    let found = knowledge(&["config", "check", &file]).refused();
    insta::assert_snapshot!(problems(&scratch, &found).join("\n"), @r#"
    knowledge.toml:6:20: tls.certificate_file cannot be used: the certificate server.pem: a PEM section has no end
    "#);
}

#[test]
fn invalid_network_settings_are_reported_with_their_line() {
    let scratch = Scratch::new();
    let file = scratch.write(
        "knowledge.toml",
        r#"[tls]
certificate_file = "server.pem"
[cors]
origins = ["*", "https://app.example.com"]
credentials = true
[rate_limit]
requests = 10
window = "1500ms"
"#,
    );
    let found = knowledge(&["config", "check", &file]).refused();
    insta::assert_snapshot!(problems(&scratch, &found).join("\n"), @r#"
    knowledge.toml:2:20: tls.private_key_file must be set if tls.certificate_file is
    knowledge.toml:4:11: cors.origins must not combine * with other origins
    knowledge.toml:5:15: cors.credentials must be false if cors.origins is *; list the origins
    knowledge.toml:8:10: rate_limit.window must be in whole seconds
    "#);
    let file = scratch.write(
        "knowledge.toml",
        "[cors]\norigins = [\"https://app.example.com/\"]\n[compression]\nbytes_min = 0\n",
    );
    let found = knowledge(&["config", "check", &file]).refused();
    insta::assert_snapshot!(problems(&scratch, &found).join("\n"), @r#"
    knowledge.toml:2:11: cors.origins must be a list, each item an origin such as https://app.example.com, in lower case and without a path, or *, not the list of the text "https://app.example.com/"
    knowledge.toml:4:13: compression.bytes_min must be a size from 1 to 1GiB, in bytes or with a unit (KiB, MiB, GiB), not the number 0
    "#);
}

#[test]
fn rate_limit_is_generous_by_default_and_can_be_disabled() {
    let scratch = Scratch::new();
    for (more, policy) in rows! {
        ("", Some("\r\nratelimit-policy: \"default\";q=60000;w=60\r\n")),
        ("[rate_limit]\nrequests = 0\n", None),
    } {
        let data_dir = scratch.arg("data");
        let server = serve(&scratch.write(
            "knowledge.toml",
            &format!(
                "[server]\nlisten = \"127.0.0.1:0\"\n[storage]\ndata_dir = {data_dir:?}\n{more}"
            ),
        ));
        let url = server.base_url();
        let address = url.strip_prefix("http://").expect("an http URL");
        let stream = TcpStream::connect(address).expect("connect");
        let answer = ask(stream, "/docs", "Accept: */*").expect("an answer");
        answer.assert_begins("HTTP/1.1 200 ");
        match policy {
            Some(policy) => assert!(answer.contains(policy), "{answer}"),
            None => assert!(!answer.contains("ratelimit"), "{answer}"),
        }
        assert_eq!(server.terminate(), 0);
    }
}

#[test]
fn origins_compression_and_rate_limit_apply() {
    let scratch = Scratch::new();
    let file = scratch.write(
        "knowledge.toml",
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[storage]\ndata_dir = {:?}\n\
             [cors]\norigins = [\"https://app.example.com\"]\n\
             [compression]\nenabled = true\nbytes_min = 1\n\
             [rate_limit]\nrequests = 2\nwindow = \"1h\"\n",
            scratch.arg("data")
        ),
    );
    let server = serve(&file);
    let url = server.base_url();
    let address = url.strip_prefix("http://").expect("an http URL");
    let answer = |header| {
        let stream = TcpStream::connect(address).expect("connect");
        ask(stream, "/v1/orgs/acme/custom-roles", header).expect("an answer")
    };
    let first = answer("Origin: https://app.example.com");
    for part in [
        "HTTP/1.1 401 ",
        "\r\naccess-control-allow-origin: https://app.example.com\r\n",
        "\r\nvary: accept-encoding\r\n",
        "\r\nratelimit-policy: \"default\";q=2;w=3600\r\n",
        "\r\nratelimit: \"default\";r=1;t=1800\r\n",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    let second = answer("Accept: */*");
    second.assert_begins("HTTP/1.1 401 ");
    let third = answer("Accept: */*");
    third.assert_begins("HTTP/1.1 429 ");
    // There is no certificate, and the signal does not end the server.
    server.hang_up();
    server.error_with("SIGHUP: no TLS certificate to reload");
    assert_eq!(server.terminate(), 0);
}
