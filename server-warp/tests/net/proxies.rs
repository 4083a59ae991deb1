//! Tests of the client's address behind proxies. The rate limit shows which address is counted.

use knowledge_server::net::{ForwardingHeader, NetConfig, ProxyConfig};

use crate::support::{Running, config, get, limit};

/// Starts a server that trusts 127.0.0.2 and 127.0.0.4 to append to this header.
async fn behind_proxies(header: ForwardingHeader) -> Running {
    let trusted = ["127.0.0.2/32", "127.0.0.4/32"];
    Running::start(NetConfig {
        rate_limit: limit(100),
        proxy: ProxyConfig {
            trusted: trusted.map(|range| range.parse().expect("a range")).into(),
            header,
            protocol: false,
        },
        ..config()
    })
    .await
}

fn with_header(header: &str) -> String {
    get("/").replacen("\r\n\r\n", &format!("\r\n{header}\r\n\r\n"), 1)
}

#[tokio::test]
async fn client_of_trusted_proxy_is_limited_by_its_own_address() {
    let server = behind_proxies(ForwardingHeader::XForwardedFor).await;
    let ask = async |last, header: &str| {
        let answer = server.ask_from(last, with_header(header)).await;
        answer.remaining().to_owned()
    };
    for expected in ["99", "98"] {
        assert_eq!(ask(2, "X-Forwarded-For: 192.0.2.1").await, expected);
    }
    assert_eq!(ask(2, "X-Forwarded-For: 192.0.2.2").await, "99");
    // What the client sent comes before what the proxy appended.
    assert_eq!(ask(2, "X-Forwarded-For: 192.0.2.9, 192.0.2.1").await, "97");
    let lines = "X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-For: 192.0.2.1";
    assert_eq!(ask(2, lines).await, "96");
    // Through both proxies.
    assert_eq!(ask(4, "X-Forwarded-For: 192.0.2.1, 127.0.0.2").await, "95");
    // Clients of an IPv6 network share a bucket, as without a proxy.
    assert_eq!(ask(2, "X-Forwarded-For: 2001:db8::1").await, "99");
    assert_eq!(ask(2, "X-Forwarded-For: [2001:db8::2]:80").await, "98");
}

#[tokio::test]
async fn header_of_other_clients_is_ignored() {
    let server = behind_proxies(ForwardingHeader::XForwardedFor).await;
    for (address, expected) in [
        ("192.0.2.1", "99"),
        ("192.0.2.2", "98"),
        ("127.0.0.2", "97"),
    ] {
        let header = format!("X-Forwarded-For: {address}");
        let answer = server.ask_from(3, with_header(&header)).await;
        assert_eq!(answer.remaining(), expected, "{address}");
    }
    // The address that it claimed is not affected.
    let header = "X-Forwarded-For: 192.0.2.1";
    let answer = server.ask_from(2, with_header(header)).await;
    assert_eq!(answer.remaining(), "99");
}

#[tokio::test]
async fn unreadable_or_other_header_leaves_the_address_of_the_proxy() {
    let server = behind_proxies(ForwardingHeader::XForwardedFor).await;
    for (header, expected) in [
        ("X-Forwarded-For: 192.0.2.1, unknown", "99"),
        ("X-Forwarded-For:", "98"),
        ("Forwarded: for=192.0.2.1", "97"),
        ("X-Forwarded-For: 127.0.0.2", "96"),
    ] {
        let answer = server.ask_from(2, with_header(header)).await;
        assert_eq!(answer.remaining(), expected, "{header}");
    }
    // The last proxy that could be followed.
    let header = "X-Forwarded-For: 192.0.2.1, unknown, 127.0.0.2";
    let answer = server.ask_from(4, with_header(header)).await;
    assert_eq!(answer.remaining(), "95");
}

#[tokio::test]
async fn forwarded_header_is_read_if_configured() {
    let server = behind_proxies(ForwardingHeader::Forwarded).await;
    for (header, expected) in [
        ("Forwarded: for=192.0.2.1;proto=https", "99"),
        ("Forwarded: for=192.0.2.9, For=\"192.0.2.1:4711\"", "98"),
        ("Forwarded: for=\"[2001:db8::1]:80\"", "99"),
        ("X-Forwarded-For: 192.0.2.1", "99"),
        ("Forwarded: for=\"192.0.2.9, for=192.0.2.1", "98"),
    ] {
        let answer = server.ask_from(2, with_header(header)).await;
        assert_eq!(answer.remaining(), expected, "{header}");
    }
}
