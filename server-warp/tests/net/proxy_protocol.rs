//! Tests of the PROXY protocol. The rate limit shows which address is counted.

use std::net::IpAddr;

use knowledge_server::net::{NetConfig, ProxyConfig};

use crate::metrics::CLOSED;
use crate::support::{Answer, Client, Running, SHORT, config, get, limit};

const WITHOUT_HEADER: &[(&str, &str)] = &[("reason", "proxy_header")];

/// Returns a configuration that requires the header of 127.0.0.2.
pub(crate) fn requires_header() -> NetConfig {
    NetConfig {
        rate_limit: limit(100),
        proxy: ProxyConfig {
            trusted: vec![IpAddr::from([127, 0, 0, 2]).into()],
            protocol: true,
            ..ProxyConfig::default()
        },
        ..config()
    }
}

/// Returns a header with this command, family and rest.
fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).expect("a length").to_be_bytes();
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([command, family]);
    header.extend(length);
    header.extend(rest);
    header
}

/// Returns the header of a client's connection over TCP and IPv4.
pub(crate) fn of_client(source: [u8; 4]) -> Vec<u8> {
    let destination_and_ports = [10, 0, 0, 1, 0x12, 0x34, 0, 80];
    header(0x21, 0x11, &[&source[..], &destination_and_ports].concat())
}

/// Sends a header and a request from the proxy, and returns the response.
async fn ask(server: &Running, header: &[u8], request: &str) -> Answer {
    let request = [header, request.as_bytes()].concat();
    server.ask_from(2, request).await
}

#[tokio::test]
async fn connection_has_the_address_in_its_header() {
    let server = Running::start(requires_header()).await;
    let client = of_client([192, 0, 2, 1]);
    let v6: IpAddr = "2001:db8::1".parse().expect("an address");
    let IpAddr::V6(v6) = v6 else { unreachable!() };
    let v6 = header(0x21, 0x21, &[&v6.octets()[..], &[0; 20]].concat());
    let extended = header(
        0x21,
        0x11,
        &[&client[16..], &[0x20, 0, 3, 1, 2, 3]].concat(),
    );
    let forwarded = "GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 192.0.2.9\r\n\r\n";
    let plain = get("/");
    let plain = plain.as_str();
    for (header, request, expected) in [
        (&client, plain, "99"),
        (&of_client([192, 0, 2, 2]), plain, "99"),
        (&extended, plain, "98"),
        // The address in the header is not a proxy's.
        (&client, forwarded, "97"),
        (&v6, plain, "99"),
        // The proxy's own connections.
        (&header(0x20, 0, &[]), plain, "99"),
        (&header(0x21, 0, &[]), plain, "98"),
    ] {
        let answer = ask(&server, header, request).await;
        assert_eq!(answer.remaining(), expected, "{header:?}");
    }
    // The address announced is that of a proxy, whose header is read.
    let answer = ask(&server, &of_client([127, 0, 0, 2]), forwarded).await;
    assert_eq!(answer.remaining(), "99");
    // All requests of a connection.
    let mut client = Client::connect_from(2, server.address).await;
    client.send(of_client([192, 0, 2, 3])).await;
    for expected in ["99", "98"] {
        client.send(get("/")).await;
        assert_eq!(client.answer().await.remaining(), expected);
    }
}

#[tokio::test]
async fn connection_of_a_proxy_without_its_header_is_closed() {
    let server = Running::start(NetConfig {
        header_read_timeout: SHORT,
        ..requires_header()
    })
    .await;
    let client = of_client([192, 0, 2, 1]);
    for (number, sent) in (1..).zip([
        get("/").into_bytes(),
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4660 80\r\n".to_vec(),
        Vec::new(),
        client[..13].to_vec(),
        client[..20].to_vec(),
        header(0x22, 0x11, &client[16..]),
        // Datagrams.
        header(0x21, 0x12, &client[16..]),
        // An address that is cut off.
        header(0x21, 0x11, &client[16..26]),
        header(0x21, 0x11, &[0; 4_096]),
    ]) {
        let mut client = Client::connect_from(2, server.address).await;
        client.send(&sent).await;
        assert!(client.closed_silently().await, "{sent:?}");
        server
            .number_becomes(CLOSED, WITHOUT_HEADER, f64::from(number))
            .await;
    }
}

#[tokio::test]
async fn other_clients_cannot_send_a_header() {
    let server = Running::start(requires_header()).await;
    let answer = server.ask_from(3, get("/")).await;
    assert_eq!((answer.status, answer.remaining()), (200, "99"));
    let request = [of_client([192, 0, 2, 1]), get("/").into_bytes()].concat();
    assert_eq!(server.ask_from(3, request).await.status, 400);
}

#[tokio::test]
async fn connections_are_limited_by_the_address_in_their_header() {
    let server = Running::start(NetConfig {
        connections_max: 8,
        ..requires_header()
    })
    .await;
    let hold = async |source| {
        let mut client = Client::connect_from(2, server.address).await;
        client
            .send([of_client(source), get("/").into_bytes()].concat())
            .await;
        client
    };
    let mut held = Vec::new();
    for source in [[192, 0, 2, 1], [192, 0, 2, 1], [192, 0, 2, 2]] {
        let mut client = hold(source).await;
        assert_eq!(client.answer().await.status, 200);
        held.push(client);
    }
    assert!(hold([192, 0, 2, 1]).await.closed_silently().await);
    let reason = [("reason", "client_limit")];
    server.number_becomes(CLOSED, &reason, 1.0).await;
}
