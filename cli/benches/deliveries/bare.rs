//! Bare loop: requests like deliveries, and nothing else.

use std::time::Instant;

use futures::{StreamExt, stream};
use reqwest::{Client, redirect};
use tokio_rustls::rustls::crypto::ring;

use crate::{CONCURRENT, process};

/// First argument of the process that runs the bare loop.
pub(crate) const ROLE: &str = "bare-loop";
/// Size of the body of a small event.
const BODY_BYTES: usize = 260;

/// Creates a client that keeps its connections.
pub(crate) fn client() -> Client {
    // Fails only if it was done before.
    let _ = ring::default_provider().install_default();
    let client = Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none());
    client.build().expect("a client")
}

/// Sends requests, and prints their rate and their cost.
pub(crate) async fn run(url: &str, count: usize) {
    let client = client();
    let body = bytes::Bytes::from(vec![b'x'; BODY_BYTES]);
    let began = Instant::now();
    let send = async |_| {
        let request = client
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-id", "019c8b3e-6d00-7f90-b2de-61c0a7f3e866")
            .header("webhook-timestamp", "1773489600")
            .header(
                "webhook-signature",
                "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
            )
            .body(body.clone());
        let response = request.send().await.expect("a response");
        assert_eq!(response.status(), 204);
    };
    let sent = stream::iter(0..count)
        .map(send)
        .buffer_unordered(CONCURRENT);
    sent.for_each(async |()| {}).await;
    let rate = count as f64 / began.elapsed().as_secs_f64();
    let cpu_ms = process::cpu_ms(std::process::id()) / count as f64;
    println!("{rate:.0} requests/s, {cpu_ms:.3} ms of CPU each");
}
