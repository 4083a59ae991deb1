//! Receiver on the loopback interface, which accepts everything and remembers it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use standardwebhooks::Webhook as Signer;
use tokio::net::TcpListener;

/// Path of the requests of the bare loop, which are not remembered.
const BARE: &str = "/bare";

/// A received delivery.
struct Received {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().expect("ASCII")
    }

    /// Returns the operation that the event is about.
    ///
    /// # Panics
    /// Unless the secret signed the delivery.
    fn operation(&self, secret: &Signer) -> String {
        let timestamp = self.header("webhook-timestamp").parse();
        let timestamp = timestamp.expect("seconds");
        let signature = secret.sign(self.header("webhook-id"), timestamp, &self.body);
        let signature = signature.expect("a signature");
        assert_eq!(self.header("webhook-signature"), signature);
        let body: Value = serde_json::from_slice(&self.body).expect("JSON");
        let operation = body["data"]["operation_id"].as_str();
        operation.expect("an operation").to_owned()
    }
}

/// A running receiver.
pub(crate) struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let shared = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("an open connection");
                let received = Arc::clone(&shared);
                let answer = service_fn(move |request| answer(request, Arc::clone(&received)));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        Self { address, received }
    }

    /// Returns the URL of an endpoint.
    pub(crate) fn url(&self, number: usize) -> String {
        format!("http://{}/{number}", self.address)
    }

    pub(crate) fn bare_url(&self) -> String {
        format!("http://{}{BARE}", self.address)
    }

    /// Waits for this number of deliveries since the start.
    pub(crate) async fn wait(&self, count: usize, at_most: Duration) {
        let waited = tokio::time::timeout(at_most, async {
            while self.received().len() < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        let waited = waited.await;
        waited.unwrap_or_else(|_| panic!("{} of {count} arrived", self.received().len()));
    }

    /// Panics unless the endpoint of each secret received each operation exactly once, signed.
    pub(crate) fn assert_received(&self, secrets: &[String], operations: &BTreeSet<String>) {
        let received = self.received();
        let ids: BTreeSet<&str> = received
            .iter()
            .map(|one| one.header("webhook-id"))
            .collect();
        assert_eq!(ids.len(), received.len(), "a delivery was repeated");
        assert_eq!(received.len(), secrets.len() * operations.len());
        for (number, secret) in secrets.iter().enumerate() {
            let (path, secret) = (format!("/{number}"), Signer::new(secret).expect("a secret"));
            let own = received.iter().filter(|one| one.path == path);
            let own: BTreeSet<String> = own.map(|one| one.operation(&secret)).collect();
            assert_eq!(own, *operations, "endpoint {number}");
        }
    }

    fn received(&self) -> std::sync::MutexGuard<'_, Vec<Received>> {
        self.received.lock().expect("no panic while it is held")
    }
}

async fn answer(
    request: Request<Incoming>,
    received: Arc<Mutex<Vec<Received>>>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    let path = head.uri.path().to_owned();
    // Pings are sent before all events, and are the only deliveries without an operation.
    let is_event = path != BARE && !body.windows(12).any(|part| part == b"webhook.ping");
    if is_event {
        let headers = head.headers;
        let delivery = Received {
            path,
            headers,
            body,
        };
        received
            .lock()
            .expect("no panic while it is held")
            .push(delivery);
    }
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
