//! The other end of an exchange, scripted byte by byte.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use knowledge_core::model::{DeliveryId, Timestamp};
use knowledge_core::service::{DeliveryRequest, DeliverySender};
use knowledge_server::config::WebhookSettings;
use knowledge_server::deliveries::DeliveryClient;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{addresses, guarded};

/// A time-out short enough to wait for.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// A listener on the loopback interface, which dropping ends.
pub(crate) struct Peer {
    address: SocketAddr,
    connections: watch::Sender<usize>,
    ended: watch::Sender<usize>,
    task: JoinHandle<()>,
}

impl Peer {
    /// Starts a peer that runs this script on each connection.
    pub(crate) async fn start<F>(script: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        Self::listen(listener, script)
    }

    fn listen<F>(listener: TcpListener, script: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().expect("an address");
        let (connections, ended) = (watch::Sender::new(0), watch::Sender::new(0));
        let (counted, finished) = (connections.clone(), ended.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.send_modify(|count| *count += 1);
                let (exchange, finished) = (script(stream), finished.clone());
                tokio::spawn(async move {
                    exchange.await;
                    finished.send_modify(|count| *count += 1);
                });
            }
        });
        Self {
            address,
            connections,
            ended,
            task,
        }
    }

    /// Starts a peer that reads each request, sends these bytes and closes.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let started = Self::start_answering("127.0.0.1:0", answer).await;
        started.expect("bind")
    }

    /// Starts such a peer at this address, if it is free.
    pub(crate) async fn start_answering(
        address: &str,
        answer: impl Into<Vec<u8>>,
    ) -> io::Result<Self> {
        let answer = Arc::new(answer.into());
        let listener = TcpListener::bind(address).await?;
        Ok(Self::listen(listener, move |mut stream| {
            let answer = Arc::clone(&answer);
            async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        }))
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?token=hidden", self.address)
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    /// Waits until the script has ended on this many connections.
    pub(crate) async fn ends(&self, count: usize) {
        let mut ended = self.ended.subscribe();
        let waited = ended.wait_for(|ended| *ended >= count);
        drop(guarded("a connection to end", waited).await);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a request to the end of its body, or to where the client closes.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
        if let Some((header, body)) = text.split_once("\r\n\r\n") {
            let length = header
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
            if body.len() >= length {
                break;
            }
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => break,
            Ok(length) => request.extend_from_slice(&part[..length]),
        }
    }
    String::from_utf8_lossy(&request).into_owned()
}

/// Writes the same bytes repeatedly until the client closes; returns the number of bytes accepted.
pub(crate) async fn pour(
    stream: &mut (impl AsyncWrite + Unpin),
    part: &[u8],
    most: usize,
) -> usize {
    let mut written = 0;
    while written < most && stream.write_all(part).await.is_ok() {
        written += part.len();
    }
    written
}

/// Returns settings that allow plain HTTP to the loopback interface.
pub(crate) fn loopback_allowed() -> WebhookSettings {
    WebhookSettings {
        addresses: addresses(),
        ..WebhookSettings::default()
    }
}

/// Returns a client that may send to peers.
pub(crate) fn client() -> DeliveryClient {
    DeliveryClient::new(&loopback_allowed()).expect("a client")
}

pub(crate) fn request(url: &str) -> DeliveryRequest {
    DeliveryRequest {
        url: url.parse().expect("a URL"),
        id: DeliveryId(Uuid::from_u128(7)),
        timestamp: Timestamp::from_millis(1_700_000_000_999),
        signature: "v1,c2lnbmF0dXJl v1,YW5vdGhlcg==".to_owned(),
        body: r#"{"type":"chunk.created"}"#.into(),
    }
}

/// Returns the outcome of a delivery as text: the status, or the failure.
pub(crate) async fn outcome(client: &DeliveryClient, url: &str) -> String {
    let request = request(url);
    let attempt = guarded("an exchange", client.send(&request)).await;
    match attempt.outcome {
        Ok(answer) => match answer.retry_after {
            Some(wait) => format!("{} again after {} s", answer.status, wait.as_secs()),
            None => answer.status.to_string(),
        },
        Err(failure) => format!("{}: {}", failure.code, failure.message),
    }
}
