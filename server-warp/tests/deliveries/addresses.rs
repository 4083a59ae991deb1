//! Where deliveries go, and where they never do: whatever a URL, a name server or the environment says.
//!
//! So that nothing leaves the machine, 127.0.0.2 stands for what is permitted and 127.0.0.1 for what is not.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use knowledge_core::model::AddressPolicy;
use knowledge_server::config::WebhookSettings;
use knowledge_server::deliveries::{DeliveryClient, LookUp};
use tokio::net::TcpListener;

use crate::support::guarded;
use crate::support::peer::{Peer, SHORT, client, loopback_allowed, outcome};

const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
const REFUSED_NAME: &str =
    "address_refused: the name resolves to an address that deliveries may not go to";

/// Plain http to these ranges is allowed.
fn allowing(ranges: &[&str]) -> WebhookSettings {
    WebhookSettings {
        addresses: AddressPolicy {
            allow: ranges.iter().map(|range| range.parse().unwrap()).collect(),
            allow_http: true,
        },
        ..WebhookSettings::default()
    }
}

/// A name server whose answers are said beforehand, one for each look-up.
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

    /// How many answers have not been asked for.
    fn left(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[async_trait]
impl LookUp for Scripted {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        assert_eq!(name, "hooks.example.com");
        let answer = self.0.lock().unwrap().pop_front();
        answer.expect("no more look-ups than answers")
    }
}

/// One whom no name server answers.
struct Silent;

#[async_trait]
impl LookUp for Silent {
    async fn look_up(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        std::future::pending().await
    }
}

/// One who is asked for no name.
struct Unasked;

#[async_trait]
impl LookUp for Unasked {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        panic!("{name} was looked up")
    }
}

fn client_with(settings: &WebhookSettings, look_up: Arc<dyn LookUp>) -> DeliveryClient {
    DeliveryClient::with_look_up(settings, look_up).unwrap()
}

#[tokio::test]
async fn a_literal_that_is_not_permitted_is_never_connected_to() {
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
        ("[fd00:ec2::254]", "unique local (RFC 4193)"),
    ] {
        let url = format!("http://{host}:{port}/");
        let expected = format!(
            "address_refused: the URL must not name an address that is not public (the operator can allow it): {what}"
        );
        assert_eq!(outcome(&client, &url).await, expected, "{host}");
    }
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn a_literal_that_is_permitted_is_connected_to_without_a_look_up() {
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
async fn plain_http_is_for_those_who_allow_it() {
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

/// What is connected to is what the very look-up said that was judged: an answer that was good before and one that
/// would be asked for afterwards change nothing.
#[tokio::test]
async fn a_name_that_changes_its_address_gains_nothing() {
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
async fn of_the_addresses_of_a_name_the_permitted_ones_alone_are_connected_to() {
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

/// Where the permitted address does not answer, the one beside it is not tried either.
#[tokio::test]
async fn an_address_that_does_not_answer_has_no_substitute() {
    let inside = Peer::answering(OK).await;
    let names = Scripted::answering(&[&["127.0.0.2", "127.0.0.1"]]);
    let client = client_with(&allowing(&["127.0.0.2/32"]), names);
    let url = format!("http://hooks.example.com:{}/", inside.port());
    assert_eq!(
        outcome(&client, &url).await,
        "connection_failed: the connection was refused"
    );
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn a_name_without_addresses_is_told_from_one_that_is_refused() {
    let names = Scripted::answering(&[&[]]);
    names
        .0
        .lock()
        .unwrap()
        .push_back(Err(io::Error::other("SERVFAIL")));
    let client = client_with(&loopback_allowed(), names);
    let url = "http://hooks.example.com:9/";
    for _ in 0..2 {
        assert_eq!(
            outcome(&client, url).await,
            "dns_failed: the name could not be looked up"
        );
    }
    let client = client_with(&loopback_allowed(), Arc::new(Silent)).timeout(SHORT);
    assert_eq!(
        outcome(&client, url).await,
        "timed_out: the exchange took too long"
    );
}

/// Long before the exchange has taken too long; on a clock that goes ahead by itself.
#[tokio::test(start_paused = true)]
async fn a_look_up_that_takes_too_long_is_given_up() {
    let client = client_with(&loopback_allowed(), Arc::new(Silent));
    assert_eq!(
        outcome(&client, "http://hooks.example.com:9/").await,
        "dns_failed: the name was not resolved in time"
    );
}

/// The system's own look-up, of the one name that needs no name server.
#[tokio::test]
async fn names_are_looked_up_by_the_system_and_judged_too() {
    let peer = Peer::answering(OK).await;
    let url = format!("http://localhost:{}/", peer.port());
    assert_eq!(outcome(&client(), &url).await, "200");
    // A policy by which the URL may be, and none of the addresses.
    let client = DeliveryClient::new(&allowing(&["127.0.0.1/32"])).unwrap();
    assert_eq!(outcome(&client, &url).await, "200");
    assert_eq!(peer.connections(), 2);
    let client = DeliveryClient::new(&allowing(&["::1/128"])).unwrap();
    assert_ne!(outcome(&client, &url).await, "200");
    assert_eq!(peer.connections(), 2);
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_a_failed_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(
        outcome(&client(), &url).await,
        "connection_failed: the connection was refused"
    );
}

/// Names the peer for the run of this test in a process of its own, whose environment names a proxy.
const BEHIND_PROXY: &str = "DELIVERY_BEHIND_PROXY";

#[tokio::test]
async fn a_proxy_of_the_environment_is_not_used() {
    if let Ok(url) = std::env::var(BEHIND_PROXY) {
        assert_eq!(outcome(&client(), &url).await, "200");
        return;
    }
    let peer = Peer::answering(OK).await;
    let proxy = Peer::answering(OK).await;
    let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
    let test = "addresses::a_proxy_of_the_environment_is_not_used";
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

/// One at the address that is permitted, and one at the same port of the address that is not.
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
