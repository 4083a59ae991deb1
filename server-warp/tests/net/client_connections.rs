//! Tests of the limit on the connections of one client.

use std::net::IpAddr;

use knowledge_server::net::{NetConfig, ProxyConfig};

use crate::metrics::CLOSED;
use crate::support::{Client, Running, config, get};

const OPEN: &str = "knowledge_http_connections_open";
const BY_LIMIT: &[(&str, &str)] = &[("reason", "client_limit")];

/// Starts a server on which each client may hold two connections.
async fn with_shares(proxy: ProxyConfig) -> Running {
    Running::start(NetConfig {
        connections_max: 8,
        proxy,
        ..config()
    })
    .await
}

/// Opens a connection from 127.0.0.`last` that the server serves.
async fn hold(server: &Running, last: u8) -> Client {
    let mut client = Client::connect_from(last, server.address).await;
    client.send(get("/")).await;
    assert_eq!(client.answer().await.status, 200);
    client
}

#[tokio::test]
async fn client_with_its_share_of_connections_is_closed_and_others_are_served() {
    let server = with_shares(ProxyConfig::default()).await;
    let mut held = vec![hold(&server, 2).await, hold(&server, 2).await];
    for refused in 1..=3 {
        let mut client = Client::connect_from(2, server.address).await;
        assert!(client.closed_silently().await);
        server
            .number_becomes(CLOSED, BY_LIMIT, refused.into())
            .await;
    }
    let _other = hold(&server, 3).await;
    assert_eq!(server.number(OPEN, &[]), 3.0);

    held.pop();
    server.number_becomes(OPEN, &[], 2.0).await;
    let _again = hold(&server, 2).await;
    assert_eq!(server.number(CLOSED, BY_LIMIT), 3.0);
}

#[tokio::test]
async fn trusted_proxy_may_hold_all_connections() {
    let server = with_shares(ProxyConfig {
        trusted: vec![IpAddr::from([127, 0, 0, 2]).into()],
        ..ProxyConfig::default()
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(hold(&server, 2).await);
    }
    assert_eq!(server.number(CLOSED, BY_LIMIT), 0.0);
}
