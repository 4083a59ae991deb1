//! The load: requests over a number of connections, each of which has one request in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::knowledge::Knowledge;
use crate::process;
use crate::report::{Sample, median};

/// A response, and the time until its last byte.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) latency: Duration,
}

impl Answer {
    /// Returns the body as JSON.
    ///
    /// # Panics
    /// If it is none, or the status is not 200.
    pub(crate) fn json(&self) -> serde_json::Value {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, StatusCode::OK, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }
}

/// A request with a JSON body, or without any.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

impl Call {
    /// Creates a request without headers and body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the body.
    pub(crate) fn json(mut self, body: &serde_json::Value) -> Self {
        self.body = Bytes::from(body.to_string());
        self
    }

    /// Returns the request to another path.
    pub(crate) fn to(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self.clone()
        }
    }

    fn request(self) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(self.method)
            .uri(self.path)
            .header("host", "localhost");
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        if !self.body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let body = Full::from(self.body);
        request.body(body).expect("a request")
    }
}

/// A connection to a server.
pub(crate) struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    pub(crate) async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("it connects");
        stream.set_nodelay(true).expect("an open connection");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
        tokio::spawn(connection);
        Self(sender)
    }

    pub(crate) async fn send(&mut self, call: Call) -> Answer {
        self.0.ready().await.expect("the connection is open");
        let request = call.request();
        let began = Instant::now();
        let response = self.0.send_request(request).await.expect("a response");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
            latency: began.elapsed(),
        }
    }
}

/// End of a load.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// After this time.
    Elapsed(Duration),
    /// After this number of requests.
    Count(usize),
}

/// Check of a response, which panics if it is wrong.
type Check = Box<dyn Fn(&Answer) + Send + Sync>;

/// Source of requests by their numbers, and check of their responses.
pub(crate) struct Job {
    next: AtomicUsize,
    call: Box<dyn Fn(usize) -> Call + Send + Sync>,
    check: Check,
}

impl Job {
    pub(crate) fn new(
        call: impl Fn(usize) -> Call + Send + Sync + 'static,
        check: impl Fn(&Answer) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            next: AtomicUsize::new(0),
            call: Box::new(call),
            check: Box::new(check),
        })
    }

    /// Repeats a request, whose response must always have this status and this body.
    pub(crate) fn repeat(call: Call, status: StatusCode, body: Bytes) -> Arc<Self> {
        Self::new(
            move |_| call.clone(),
            move |answer| {
                assert_eq!(answer.status, status);
                assert_eq!(answer.body, body, "the response is the first one");
            },
        )
    }
}

/// Result of a load.
pub(crate) struct Load {
    /// Latencies of all requests, in milliseconds.
    pub(crate) latencies_ms: Vec<f64>,
    pub(crate) per_second: f64,
    /// Processor time of the server per request, in microseconds.
    pub(crate) cpu_us: f64,
}

impl Load {
    /// Returns a sample of this load with a value, beside a reference.
    pub(crate) fn sample(&self, value: f64, reference: f64, reference_cpu_us: f64) -> Sample {
        Sample {
            value,
            reference,
            per_second: self.per_second,
            cpu_us: self.cpu_us,
            reference_cpu_us,
        }
    }

    /// Returns the median latency in milliseconds.
    pub(crate) fn median_ms(&self) -> f64 {
        median(self.latencies_ms.clone())
    }
}

/// A running server of this project.
pub(crate) struct Served {
    server: Knowledge,
    pub(crate) target: Target,
}

impl Served {
    pub(crate) fn new(server: Knowledge) -> Self {
        let target = Target {
            address: server.address().to_owned(),
            id: server.id(),
        };
        Self { server, target }
    }

    /// Ends the server in order.
    pub(crate) fn stop(self) {
        self.server.terminate();
        assert!(self.server.ended().success(), "the server stops in order");
    }
}

/// A server under load.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: String,
    /// Process of the server, whose descendants belong to it.
    pub(crate) id: u32,
}

impl Target {
    /// Sends one request over a new connection.
    pub(crate) async fn send(&self, call: Call) -> Answer {
        Connection::open(&self.address).await.send(call).await
    }

    /// Sends requests over this number of connections.
    pub(crate) async fn load(&self, connections: usize, until: Until, job: &Arc<Job>) -> Load {
        let mut open = Vec::with_capacity(connections);
        for _ in 0..connections {
            open.push(Connection::open(&self.address).await);
        }
        let left = Arc::new(AtomicUsize::new(match until {
            Until::Count(count) => count,
            Until::Elapsed(_) => usize::MAX,
        }));
        let cpu_ms = process::cpu_ms(self.id);
        let began = Instant::now();
        let deadline = match until {
            Until::Elapsed(time) => Some(began + time),
            Until::Count(_) => None,
        };
        let running: Vec<_> = open
            .into_iter()
            .map(|mut connection| {
                let (job, left) = (Arc::clone(job), Arc::clone(&left));
                tokio::spawn(async move {
                    let mut latencies_ms = Vec::new();
                    let take = |left: usize| left.checked_sub(1);
                    while deadline.is_none_or(|deadline| Instant::now() < deadline)
                        && left
                            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                            .is_ok()
                    {
                        let number = job.next.fetch_add(1, Ordering::Relaxed);
                        let answer = connection.send((job.call)(number)).await;
                        latencies_ms.push(answer.latency.as_secs_f64() * 1e3);
                        (job.check)(&answer);
                    }
                    latencies_ms
                })
            })
            .collect();
        let mut latencies_ms = Vec::new();
        for connection in running {
            latencies_ms.extend(connection.await.expect("every response is right"));
        }
        let (seconds, count) = (began.elapsed().as_secs_f64(), latencies_ms.len() as f64);
        Load {
            latencies_ms,
            per_second: count / seconds,
            cpu_us: 1e3 * (process::cpu_ms(self.id) - cpu_ms) / count,
        }
    }
}
