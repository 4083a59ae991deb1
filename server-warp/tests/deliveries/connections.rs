//! Tests of the connections that the client keeps for the next delivery.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use knowledge_server::config::WebhookSettings;
use knowledge_server::deliveries::DeliveryClient;
use tokio::io::AsyncWriteExt;

use crate::support::peer::{Peer, client, loopback_allowed, outcome, read_request};

const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
/// Time in which the client notices that a connection is idle.
const MOMENT: Duration = Duration::from_millis(100);

/// Starts a peer that keeps its connections, and counts the requests to close them.
async fn keeping(closes: &Arc<AtomicUsize>) -> Peer {
    let closes = Arc::clone(closes);
    Peer::start(move |mut stream| {
        let closes = Arc::clone(&closes);
        async move {
            loop {
                let request = read_request(&mut stream).await;
                if request.is_empty() {
                    return;
                }
                if request.to_ascii_lowercase().contains("connection: close") {
                    closes.fetch_add(1, Ordering::SeqCst);
                }
                if stream.write_all(NO_CONTENT).await.is_err() {
                    return;
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn concurrent_exchanges_with_a_host_reuse_their_connections() {
    const CONCURRENT: usize = 16;
    let closes = Arc::default();
    let (client, peer) = (client(), keeping(&closes).await);
    for _ in 0..4 {
        let url = peer.url();
        let sent = join_all((0..CONCURRENT).map(|_| outcome(&client, &url))).await;
        assert_eq!(sent, ["204"; CONCURRENT]);
        tokio::time::sleep(MOMENT).await;
    }
    // The pool may open one too many while another becomes idle.
    let connections = peer.connections();
    assert!(connections < 2 * CONCURRENT, "{connections}");
    assert_eq!(closes.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn connections_beyond_the_maximum_are_not_kept() {
    let settings = WebhookSettings {
        in_flight_max: 1,
        ..loopback_allowed()
    };
    let client = DeliveryClient::new(&settings).expect("a client");
    let closes = Arc::default();
    let mut peers = Vec::new();
    for _ in 0..4 {
        let peer = keeping(&closes).await;
        assert_eq!(outcome(&client, &peer.url()).await, "204");
        peers.push(peer);
    }
    // Two may be open: one in use, and one idle.
    assert_eq!(closes.load(Ordering::SeqCst), 2);
    peers[3].ends(1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    // The idle ones have timed out.
    assert_eq!(outcome(&client, &peers[3].url()).await, "204");
    assert_eq!(closes.load(Ordering::SeqCst), 2);
}
