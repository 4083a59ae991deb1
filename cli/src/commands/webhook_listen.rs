//! `knowledge webhook listen`: a receiver for testing deliveries.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use knowledge_core::env::Env;
use knowledge_core::model::{EventType, Timestamp};
use knowledge_core::service::{SignedMessage, SigningSecret};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::args::OutputFormat;
use super::failure::Failure;
use crate::progress::counted;
use crate::terminal::plain;

/// Maximum size of a request body in bytes; deliveries stay below 20 kB.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Placeholder for a missing field.
const MISSING: &str = "-";

/// Receive deliveries, verify their signatures, and print them
///
/// For testing webhooks and citation subscriptions: prints each delivery on one line. The response
/// is 204 if the signature is valid for one of the secrets, otherwise 401. The sending server must
/// be allowed to deliver to this machine: set KNOWLEDGE_WEBHOOKS__ALLOW=127.0.0.0/8 and
/// KNOWLEDGE_WEBHOOKS__ALLOW_HTTP=true.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,

    /// Signing secret (whsec_ and base64), as returned by the registration; may be repeated
    #[arg(long = "secret", value_name = "SECRET", required = true)]
    secrets: Vec<SigningSecret>,

    /// Status of the response to a valid signature
    #[arg(long, value_name = "STATUS", default_value = "204")]
    status: StatusCode,

    /// Exit after this many deliveries besides pings, successfully if all signatures were valid
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

/// State of the receiver.
struct Receiver {
    secrets: Vec<SigningSecret>,
    status: StatusCode,
    received: mpsc::UnboundedSender<ReceivedDelivery>,
}

/// A received delivery.
struct ReceivedDelivery {
    path: String,
    id: String,
    is_signed: bool,
    payload: Value,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("cannot listen on {}: {error}", args.listen));
    let listener = TcpListener::bind(args.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    eprintln!("listening on http://{address}");
    let (received, mut deliveries) = mpsc::unbounded_channel();
    let receiver = Arc::new(Receiver {
        secrets: args.secrets,
        status: args.status,
        received,
    });
    let accepting = tokio::spawn(accept(listener, receiver));
    let (mut count, mut unsigned) = (0, 0);
    while args.count.is_none_or(|wanted| count < wanted) {
        let Some(delivery) = deliveries.recv().await else {
            break;
        };
        count += u64::from(!delivery.is_ping());
        unsigned += u64::from(!delivery.is_signed);
        delivery.show(args.output)?;
    }
    accepting.abort();
    match unsigned {
        0 => Ok(()),
        _ => Err(Failure::new(format!(
            "{unsigned} of {} had no valid signature",
            counted(count, "delivery", "deliveries")
        ))),
    }
}

async fn accept(listener: TcpListener, receiver: Arc<Receiver>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let receiver = Arc::clone(&receiver);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let receiver = Arc::clone(&receiver);
                async move { Ok::<_, Infallible>(receiver.respond(request).await) }
            });
            let mut connection = http1::Builder::new();
            // The sender retries after a broken connection.
            let _ = connection
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl Receiver {
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        if parts.method != Method::POST {
            return status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
            return status(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let body = body.to_bytes();
        let now = Env::system().now();
        let is_signed = self.is_signed(&parts.headers, &body, now);
        let received = ReceivedDelivery {
            path: parts.uri.path().to_owned(),
            id: text(&parts.headers, "webhook-id"),
            is_signed,
            payload: serde_json::from_slice(&body).unwrap_or(Value::Null),
        };
        // Enough deliveries were received and printed; the sender retries this one.
        if self.received.send(received).is_err() {
            return status(StatusCode::SERVICE_UNAVAILABLE);
        }
        if is_signed {
            status(self.status)
        } else {
            status(StatusCode::UNAUTHORIZED)
        }
    }

    fn is_signed(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> bool {
        let bytes = |name| {
            let value = headers.get(name);
            value.map_or(&[][..], |value| value.as_bytes())
        };
        let message = SignedMessage {
            id: bytes("webhook-id"),
            timestamp: bytes("webhook-timestamp"),
            signature: bytes("webhook-signature"),
            body,
        };
        message.verify(&self.secrets, now).is_ok()
    }
}

impl ReceivedDelivery {
    /// Returns true for a signed ping: a URL receives one before its first event, or none if it is
    /// confirmed.
    fn is_ping(&self) -> bool {
        self.is_signed && self.payload["type"] == EventType::WebhookPing.as_str()
    }

    fn show(&self, output: OutputFormat) -> Result<(), Failure> {
        let field = |name: &str| self.payload.get(name).cloned().unwrap_or(Value::Null);
        let verdict = if self.is_signed {
            "verified"
        } else {
            "UNVERIFIED"
        };
        let (kind, data) = (field("type"), field("data"));
        let shown = kind.as_str().unwrap_or(MISSING);
        let (shown, id) = (plain(shown), plain(&self.id));
        let text = format!("{verdict} {shown} {id} {data}\n");
        let report = json!({
            "path": self.path,
            "id": self.id,
            "verified": self.is_signed,
            "type": kind,
            "timestamp": field("timestamp"),
            "data": data,
        });
        output.print(&text, &report)
    }
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}

fn text(headers: &HeaderMap, name: &str) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or(MISSING).to_owned()
}
