//! The client's address and the request identifier in the audit log, directly and behind proxies.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use knowledge_http_suite::rows;
use knowledge_server::net::{ForwardingHeader, NetConfig, ProxyConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::support::{InProcess, get};

/// Address that only this server trusts, as that of a proxy.
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

async fn behind_proxy(header: ForwardingHeader, protocol: bool) -> InProcess {
    InProcess::behind(NetConfig {
        proxy: ProxyConfig {
            trusted: vec![IpAddr::from(PROXY).into()],
            header,
            protocol,
        },
        ..NetConfig::default()
    })
    .await
}

/// Returns the header of version 2 of the PROXY protocol for a client, as the specification has it.
fn proxy_header(client: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
    header.extend(client);
    header.extend([127, 0, 0, 1, 0x30, 0x39, 0x01, 0xbb]);
    header
}

/// Creates a source from this address; returns the identifier of the request.
async fn create_source(server: &InProcess, from: Ipv4Addr, first: &[u8], lines: &str) -> String {
    let body = json!({ "name": "Wiki", "kind": "wiki" }).to_string();
    let token = &server.org().members.owner.token;
    let request = format!(
        "POST /v1/sources HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{lines}\r\n{body}",
        body.len()
    );
    let socket = TcpSocket::new_v4().expect("a socket");
    let from = SocketAddr::from((from, 0));
    socket.bind(from).expect("a loopback address");
    let address = server.base_url.strip_prefix("http://").expect("plain HTTP");
    let mut stream = socket
        .connect(address.parse().expect("an address"))
        .await
        .expect("connect");
    stream.write_all(first).await.expect("write");
    stream.write_all(request.as_bytes()).await.expect("write");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("read");
    assert!(response.starts_with("HTTP/1.1 201"), "{response}");
    let mut ids = response.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("request-id").then_some(value)
    });
    ids.next().expect("an identifier").to_owned()
}

/// Returns the newest entry of the audit log.
async fn newest(server: &InProcess) -> Value {
    let listed = get("/v1/audit-log?limit=1&action=source.create")
        .bearer(&server.org().members.owner.token)
        .send_to(&server.base_url)
        .await;
    listed.json()["data"][0].clone()
}

#[tokio::test]
async fn audit_entry_has_address_of_the_client_behind_a_proxy() {
    for (header, line) in rows! {
        (ForwardingHeader::XForwardedFor, "X-Forwarded-For: 192.0.2.66, 192.0.2.7\r\n"),
        (ForwardingHeader::Forwarded, "Forwarded: for=192.0.2.66, for=192.0.2.7\r\n"),
    } {
        let server = behind_proxy(header, false).await;
        let id = create_source(&server, PROXY, b"", line).await;
        let entry = newest(&server).await;
        assert_eq!(entry["client_address"], "192.0.2.7");
        assert_eq!(entry["request_id"], id);
    }
}

#[tokio::test]
async fn audit_entry_has_address_in_the_proxy_protocol() {
    let server = behind_proxy(ForwardingHeader::XForwardedFor, true).await;
    create_source(&server, PROXY, &proxy_header([192, 0, 2, 7]), "").await;
    assert_eq!(newest(&server).await["client_address"], "192.0.2.7");
}

#[tokio::test]
async fn audit_entry_ignores_the_address_that_a_stranger_claims() {
    let server = behind_proxy(ForwardingHeader::XForwardedFor, false).await;
    let lines = "X-Forwarded-For: 192.0.2.7\r\nForwarded: for=192.0.2.7\r\nX-Real-IP: 192.0.2.7\r\n\
                 Request-Id: 00000000-0000-4000-8000-000000000007\r\n";
    let id = create_source(&server, STRANGER, b"", lines).await;
    let entry = newest(&server).await;
    assert_eq!(entry["client_address"], STRANGER.to_string());
    assert_eq!(entry["request_id"], id);
    assert_ne!(id, "00000000-0000-4000-8000-000000000007");
}
