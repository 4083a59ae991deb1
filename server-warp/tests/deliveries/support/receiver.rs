//! An endpoint on the loopback interface.
//!
//! It confirms itself: it answers pings, which are not among the received requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::guarded;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Received {
    /// Returns the identifier of the delivery.
    pub(crate) fn id(&self) -> &str {
        let id = self.headers.get("webhook-id").expect("a webhook-id");
        id.to_str().expect("ASCII")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// Panics unless the secret signed the request, now.
    pub(crate) fn verify(&self, secret: &str) {
        let verifier = standardwebhooks::Webhook::new(secret).expect("a secret");
        let verified = verifier.verify(&self.body, &self.headers);
        verified.expect("a signature of this secret");
    }
}

type Script = dyn Fn(usize) -> BoxFuture<'static, u16> + Send + Sync;

struct State {
    script: Box<Script>,
    received: watch::Sender<Vec<Received>>,
    answered: watch::Sender<usize>,
}

/// A running receiver, which dropping ends.
pub(crate) struct Receiver {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Starts a receiver whose script chooses the status for each request number, from 0 on.
    pub(crate) async fn start<F>(script: impl Fn(usize) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = u16> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            script: Box::new(move |number| Box::pin(script(number))),
            received: watch::Sender::default(),
            answered: watch::Sender::default(),
        });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            state,
            task,
        }
    }

    /// Starts a receiver that accepts everything.
    pub(crate) async fn taking() -> Self {
        Self::start(async |_| 200).await
    }

    /// Starts a receiver that reads requests and never responds.
    pub(crate) async fn silent() -> Self {
        Self::start(async |_| std::future::pending().await).await
    }

    /// Starts a receiver that responds on demand.
    pub(crate) async fn held() -> (Self, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let receiver = Self::start(move |_| {
            let held = Arc::clone(&held);
            async move {
                held.acquire().await.expect("never closed").forget();
                200
            }
        });
        (receiver.await, gate)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks/secret-path", self.address)
    }

    /// Returns the requests so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.received.borrow().clone()
    }

    /// Waits until there are this many requests.
    pub(crate) async fn receives(&self, count: usize) -> Vec<Received> {
        self.receives_until(&format!("{count} requests"), |received| {
            received.len() >= count
        })
        .await
    }

    /// Waits until the requests suffice.
    pub(crate) async fn receives_until(
        &self,
        what: &str,
        is_enough: impl Fn(&[Received]) -> bool,
    ) -> Vec<Received> {
        let mut received = self.state.received.subscribe();
        let waited = received.wait_for(|received| is_enough(received));
        let received = guarded(what, waited).await;
        received.expect("the receiver is there").clone()
    }

    /// Waits until there are more than this many requests, and returns those after them; `None` if
    /// there are none within this time.
    pub(crate) async fn receives_more(
        &self,
        count: usize,
        time_max: Duration,
    ) -> Option<Vec<Received>> {
        let mut received = self.state.received.subscribe();
        let waited = received.wait_for(|received| received.len() > count);
        let received = tokio::time::timeout(time_max, waited).await.ok()?;
        Some(received.expect("the receiver is there")[count..].to_vec())
    }

    /// Waits until this many responses have left this process.
    pub(crate) async fn answers(&self, count: usize) {
        let mut answered = self.state.answered.subscribe();
        let waited = answered.wait_for(|answered| *answered >= count);
        let waited = guarded("an answer to be sent", waited).await;
        drop(waited.expect("the receiver is there"));
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let shared = Arc::clone(&state);
    let is_ping = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&is_ping);
    let service = service_fn(move |request| take(request, Arc::clone(&shared), Arc::clone(&noted)));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // At its end, the kernel has the response.
    if connection.await.is_ok() && !is_ping.load(Ordering::SeqCst) {
        state.answered.send_modify(|answered| *answered += 1);
    }
}

async fn take(
    request: Request<Incoming>,
    state: Arc<State>,
    is_ping: Arc<AtomicBool>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        // The sender was killed during the request, so nothing was received.
        return std::future::pending().await;
    };
    let received = Received {
        headers: parts.headers,
        body: body.to_bytes(),
    };
    if received.json()["type"] == "webhook.ping" {
        is_ping.store(true, Ordering::SeqCst);
        return Ok(Response::new(Empty::new()));
    }
    let mut number = 0;
    state.received.send_modify(|all| {
        number = all.len();
        all.push(received);
    });
    let mut response = Response::new(Empty::new());
    let status = (state.script)(number).await;
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    Ok(response)
}
