//! A small OpenTelemetry collector, which stores all exports for the test.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use knowledge_server::config::BaseUrl;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// One export.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    pub(crate) headers: HeaderMap,
    pub(crate) batch: ExportTraceServiceRequest,
}

/// A running collector, which dropping ends.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    scheme: &'static str,
    exports: Arc<Mutex<Vec<Export>>>,
    task: JoinHandle<()>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// Starts a collector, over TLS if there is an acceptor.
    pub(crate) async fn start_with(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let exports = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&exports);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, kept) = (tls.clone(), Arc::clone(&kept));
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, kept).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, kept).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            scheme,
            exports,
            task,
        }
    }

    /// Starts a collector that accepts connections and never responds.
    pub(crate) async fn hanging() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("an address");
        Self {
            address,
            scheme: "http",
            exports: Arc::default(),
            task: tokio::spawn(async move {
                let mut held = Vec::new();
                while let Ok((stream, _)) = listener.accept().await {
                    held.push(stream);
                }
            }),
        }
    }

    pub(crate) fn url(&self) -> Option<BaseUrl> {
        let host = match self.scheme {
            "https" => format!("localhost:{}", self.address.port()),
            _ => self.address.to_string(),
        };
        BaseUrl::parse(&format!("{}://{host}", self.scheme))
    }

    pub(crate) fn exports(&self) -> Vec<Export> {
        self.exports.lock().expect("no test panics in here").clone()
    }

    /// Returns all spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let exports = self.exports().into_iter();
        let resources = exports.flat_map(|export| export.batch.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<IO>(stream: IO, exports: Arc<Mutex<Vec<Export>>>)
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request| take(request, Arc::clone(&exports)));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A client that closes early has had its response.
    let _ = connection.await;
}

async fn take(
    request: Request<Incoming>,
    exports: Arc<Mutex<Vec<Export>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let expected = (Method::POST, "/v1/traces");
    assert_eq!((parts.method, parts.uri.path()), expected);
    assert_eq!(parts.headers["content-type"], "application/x-protobuf");
    let body = body.collect().await.expect("a body").to_bytes();
    let batch = ExportTraceServiceRequest::decode(body).expect("a batch of spans");
    exports
        .lock()
        .expect("no test panics in here")
        .push(Export {
            headers: parts.headers,
            batch,
        });
    Ok(Response::new(Full::default()))
}

/// Returns the value of an attribute as text.
pub(crate) fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}
