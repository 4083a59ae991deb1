//! Tests of the addresses that deliveries connect to.
//!
//! To keep all traffic on this machine, 127.0.0.2 is the permitted address and 127.0.0.1 the other.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use knowledge_core::model::AddressPolicy;
use knowledge_server::config::WebhookSettings;
use knowledge_server::deliveries::{DeliveryClient, Resolver};
use tokio::net::TcpListener;

use crate::support::guarded;
use crate::support::peer::{Peer, SHORT, client, loopback_allowed, outcome};

const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
const REFUSED_NAME: &str =
    "address_refused: the name resolves to an address that deliveries may not be sent to";

/// Returns settings that allow plain HTTP to these ranges.
fn allowing(ranges: &[&str]) -> WebhookSettings {
    WebhookSettings {
        addresses: AddressPolicy {
            allow: ranges.iter().map(|range| range.parse().unwrap()).collect(),
            allow_http: true,
        },
        ..WebhookSettings::default()
    }
}

/// A name server with one scripted response for each look-up.
#[derive(Default)]
struct Scripted(Mutex<VecDeque<io::Result<Vec<IpAddr>>>>);

impl Scripted {
    fn answering(answers: &[&[&str]]) -> Arc<Self> {
        let answers = answers.iter().map(|addresses| {
            let parsed = addresses.iter().map(|address| address.parse().unwrap());
            Ok(parsed.collect())
        });
        Arc::new(Self(Mutex::new(answers.collect())))
    }

    /// Returns the number of unused responses.
    fn left(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[async_trait]
impl Resolver for Scripted {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        assert_eq!(name, "hooks.example.com");
        let answer = self.0.lock().unwrap().pop_front();
        answer.expect("no more look-ups than answers")
    }
}

/// A name server that never responds.
struct Silent;

#[async_trait]
impl Resolver for Silent {
    async fn look_up(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        std::future::pending().await
    }
}

/// A name server that must not be asked.
struct Unasked;

#[async_trait]
impl Resolver for Unasked {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        panic!("{name} was looked up")
    }
}

fn client_with(settings: &WebhookSettings, look_up: Arc<dyn Resolver>) -> DeliveryClient {
    DeliveryClient::with_resolver(settings, look_up).unwrap()
}

#[tokio::test]
async fn client_never_connects_to_forbidden_literal() {
    let peer = Peer::answering(OK).await;
    let port = peer.port();
    let client = client_with(&allowing(&["127.0.0.2/32"]), Arc::new(Unasked));
    for (host, what) in [
        ("127.0.0.1", "loopback (RFC 1122)"),
        ("2130706433", "loopback (RFC 1122)"),
        ("0x7f000001", "loopback (RFC 1122)"),
        ("0x7f.1", "loopback (RFC 1122)"),
        ("017700000001", "loopback (RFC 1122)"),
        ("0177.0.0.1", "loopback (RFC 1122)"),
        ("127.1", "loopback (RFC 1122)"),
        ("127.0.0.1.", "loopback (RFC 1122)"),
        ("%31%32%37.0.0.1", "loopback (RFC 1122)"),
        ("１２７.０.０.１", "loopback (RFC 1122)"),
        ("0.0.0.0", "this network (RFC 791)"),
        ("[::ffff:127.0.0.1]", "loopback (RFC 1122)"),
        ("[::ffff:7f00:1]", "loopback (RFC 1122)"),
        ("[64:ff9b::127.0.0.1]", "loopback (RFC 1122)"),
        ("[::127.0.0.1]", "IPv4-compatible (RFC 4291)"),
        ("[::1]", "loopback (RFC 4291)"),
        ("[::]", "unspecified (RFC 4291)"),
        ("169.254.169.254", "link-local (RFC 3927)"),
        ("168.63.129.16", "Azure host"),
        ("[::ffff:168.63.129.16]", "Azure host"),
        ("[fd00:ec2::254]", "unique local (RFC 4193)"),
    ] {
        let url = format!("http://{host}:{port}/");
        let expected = format!(
            "address_refused: the URL must not name a non-public address (the operator can allow \
             it): {what}"
        );
        assert_eq!(outcome(&client, &url).await, expected, "{host}");
    }
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn client_connects_to_permitted_literal_without_look_up() {
    let peer = Peer::answering(OK).await;
    let client = client_with(&loopback_allowed(), Arc::new(Unasked));
    let hosts = ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"];
    for host in hosts {
        let url = format!("http://{host}:{}/", peer.port());
        assert_eq!(outcome(&client, &url).await, "200", "{host}");
    }
    assert_eq!(peer.connections(), hosts.len());
}

#[tokio::test]
async fn client_rejects_plain_http_unless_allowed() {
    let peer = Peer::answering(OK).await;
    let mut settings = loopback_allowed();
    settings.addresses.allow_http = false;
    let client = DeliveryClient::new(&settings).unwrap();
    assert_eq!(
        outcome(&client, &peer.url()).await,
        "address_refused: the URL must begin with https:// (the operator can allow http)"
    );
    assert_eq!(peer.connections(), 0);
}

/// The client connects to the address that was judged, of the same look-up.
///
/// Earlier and later responses of the name server do not matter.
#[tokio::test]
async fn client_is_immune_to_dns_rebinding() {
    let (permitted, inside) = two_peers().await;
    let names = Scripted::answering(&[&["127.0.0.2"], &["127.0.0.1"], &["127.0.0.2"]]);
    let client = client_with(&allowing(&["127.0.0.2/32"]), names.clone());
    let url = format!("http://hooks.example.com:{}/", permitted.port());
    assert_eq!(outcome(&client, &url).await, "200");
    assert_eq!(names.left(), 2, "one look-up for one connection");
    assert_eq!(outcome(&client, &url).await, REFUSED_NAME);
    assert_eq!(names.left(), 1);
    assert_eq!(outcome(&client, &url).await, "200");
    assert_eq!((permitted.connections(), inside.connections()), (2, 0));
}

#[tokio::test]
async fn client_connects_only_to_permitted_addresses_of_a_name() {
    let (permitted, inside) = two_peers().await;
    let names = Scripted::answering(&[
        &["127.0.0.1", "127.0.0.2"],
        &["127.0.0.2", "127.0.0.1"],
        &["::ffff:127.0.0.1", "::1", "169.254.169.254", "127.0.0.2"],
        &["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "::1"],
        &["10.0.0.1"],
    ]);
    let client = client_with(&allowing(&["127.0.0.2/32"]), names.clone());
    let url = format!("http://hooks.example.com:{}/", permitted.port());
    for _ in 0..3 {
        assert_eq!(outcome(&client, &url).await, "200");
    }
    assert_eq!(outcome(&client, &url).await, REFUSED_NAME);
    assert_eq!(outcome(&client, &url).await, REFUSED_NAME);
    assert_eq!((permitted.connections(), inside.connections()), (3, 0));
    assert_eq!(names.left(), 0);
}

/// The client does not fall back from a dead permitted address to a forbidden one.
#[tokio::test]
async fn client_does_not_fall_back_to_forbidden_address() {
    let inside = Peer::answering(OK).await;
    let names = Scripted::answering(&[&["127.0.0.2", "127.0.0.1"]]);
    let client = client_with(&allowing(&["127.0.0.2/32"]), names);
    let url = format!("http://hooks.example.com:{}/", inside.port());
    let found = outcome(&client, &url).await;
    assert_eq!(found, "connection_failed: the connection was refused");
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn failed_look_up_is_distinguished_from_forbidden_address() {
    let names = Scripted::answering(&[&[]]);
    names
        .0
        .lock()
        .unwrap()
        .push_back(Err(io::Error::other("SERVFAIL")));
    let client = client_with(&loopback_allowed(), names);
    let url = "http://hooks.example.com:9/";
    for _ in 0..2 {
        let found = outcome(&client, url).await;
        assert_eq!(found, "dns_failed: the name could not be resolved");
    }
    let client = client_with(&loopback_allowed(), Arc::new(Silent)).timeout(SHORT);
    let found = outcome(&client, url).await;
    assert_eq!(found, "timed_out: the request timed out");
}

/// The time limit is far below that of the exchange, on a clock that advances by itself.
#[tokio::test(start_paused = true)]
async fn look_up_times_out() {
    let client = client_with(&loopback_allowed(), Arc::new(Silent));
    let found = outcome(&client, "http://hooks.example.com:9/").await;
    assert_eq!(found, "dns_failed: resolving the name timed out");
}

/// The system's resolver looks up the one name that needs no name server.
#[tokio::test]
async fn addresses_of_system_resolver_are_judged() {
    let peer = Peer::answering(OK).await;
    let url = format!("http://localhost:{}/", peer.port());
    assert_eq!(outcome(&client(), &url).await, "200");
    // This policy permits the URL, and none of its addresses.
    let client = DeliveryClient::new(&allowing(&["127.0.0.1/32"])).unwrap();
    assert_eq!(outcome(&client, &url).await, "200");
    assert_eq!(peer.connections(), 2);
    let client = DeliveryClient::new(&allowing(&["::1/128"])).unwrap();
    assert_ne!(outcome(&client, &url).await, "200");
    assert_eq!(peer.connections(), 2);
}

#[tokio::test]
async fn closed_port_is_a_failed_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let found = outcome(&client(), &url).await;
    assert_eq!(found, "connection_failed: the connection was refused");
}

/// Variable with the peer's URL, for a run of this test in a child process with a proxy.
const BEHIND_PROXY: &str = "DELIVERY_BEHIND_PROXY";

#[tokio::test]
async fn client_ignores_proxy_of_the_environment() {
    if let Ok(url) = std::env::var(BEHIND_PROXY) {
        assert_eq!(outcome(&client(), &url).await, "200");
        return;
    }
    let peer = Peer::answering(OK).await;
    let proxy = Peer::answering(OK).await;
    let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
    let test = "addresses::client_ignores_proxy_of_the_environment";
    again
        .args(["--exact", test])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .env(BEHIND_PROXY, peer.url());
    let proxy_url = format!("http://127.0.0.1:{}", proxy.port());
    for variable in [
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "all_proxy",
        "ALL_PROXY",
    ] {
        again.env(variable, &proxy_url);
    }
    let output = guarded("the test to run again", again.output())
        .await
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("1 passed"), "{printed}");
    assert_eq!((peer.connections(), proxy.connections()), (1, 0));
}

/// Starts one peer at the permitted address, and one at the same port of the other address.
async fn two_peers() -> (Peer, Peer) {
    for _ in 0..20 {
        let permitted = Peer::start_answering("127.0.0.2:0", OK).await.unwrap();
        let beside = format!("127.0.0.1:{}", permitted.port());
        if let Ok(inside) = Peer::start_answering(&beside, OK).await {
            return (permitted, inside);
        }
    }
    panic!("no port is free at both addresses");
}
