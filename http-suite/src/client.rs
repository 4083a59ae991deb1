//! An HTTP client that sends the given request and returns the response.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

pub use crate::answer::Answer;
use crate::contract;

/// Time limit of a test that would hang.
pub const GUARD: Duration = Duration::from_secs(60);

/// Size of the chunks of a body without a length.
const CHUNK_BYTES: usize = 64 * 1_024;

thread_local! {
    /// Number of requests that this thread has sent.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of requests that this thread has sent.
pub(crate) fn calls_of_this_thread() -> u64 {
    CALLS.get()
}

/// A request to send.
#[derive(Clone, Debug)]
#[must_use = "a request is sent when it is awaited"]
pub struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    has_length: bool,
}

impl Call {
    /// Creates a request without headers and without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            has_length: true,
        }
    }

    /// Adds a header, besides any with the same name.
    ///
    /// # Panics
    /// If the name or the value is none.
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        let name = HeaderName::from_bytes(name.as_ref()).expect("a name");
        let value = HeaderValue::from_bytes(value.as_ref()).expect("a value");
        self.headers.append(name, value);
        self
    }

    /// Removes a header.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    /// Adds an access token.
    pub fn bearer(self, token: &str) -> Self {
        self.header(header::AUTHORIZATION, format!("Bearer {token}"))
    }

    /// Returns true if there is an access token.
    pub fn has_token(&self) -> bool {
        let value = self.headers.get(header::AUTHORIZATION);
        let (scheme, rest) = value.map_or((&[][..], &[][..]), |value| {
            let value = value.as_bytes();
            value.split_at(value.len().min("bearer ".len()))
        });
        scheme.eq_ignore_ascii_case(b"bearer ") && !rest.trim_ascii().is_empty()
    }

    /// Adds a session.
    pub fn session(self, session: &str) -> Self {
        self.header(header::COOKIE, format!("service_session={session}"))
    }

    /// Replaces the relation of the page that sends the request to the server.
    pub fn site(self, site: &str) -> Self {
        self.without("sec-fetch-site")
            .header("sec-fetch-site", site)
    }

    /// Replaces the idempotency key.
    pub fn key(self, key: &str) -> Self {
        self.without("idempotency-key")
            .header("idempotency-key", key)
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a JSON body and its content type.
    pub fn json(self, body: &Value) -> Self {
        self.without("content-type")
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.to_string())
    }

    /// Returns true if there is a body.
    pub fn has_body(&self) -> bool {
        !self.body.is_empty()
    }

    /// Returns true if the method is safe (RFC 9110, 9.2.1).
    pub fn is_safe(&self) -> bool {
        self.method.is_safe()
    }

    /// Replaces the method.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Sends the body in chunks, without its length.
    pub fn chunked(mut self) -> Self {
        self.has_length = false;
        self
    }

    /// Sends the request on its own connection.
    ///
    /// The response is checked against the OpenAPI document.
    ///
    /// # Errors
    /// If there is no complete response.
    ///
    /// # Panics
    /// If there is none within [`GUARD`], or the document does not describe it.
    pub async fn try_send_to(self, base_url: &str) -> Result<Answer, Failed> {
        CALLS.set(CALLS.get() + 1);
        tokio::time::timeout(GUARD, self.exchange(base_url))
            .await
            .unwrap_or_else(|_| panic!("no answer within {GUARD:?}"))
    }

    /// Sends like [`Self::try_send_to`], and panics without a response.
    ///
    /// # Panics
    /// Also in the cases of that function.
    pub async fn send_to(self, base_url: &str) -> Answer {
        let shown = format!("{} {}", self.method, self.path);
        self.try_send_to(base_url)
            .await
            .unwrap_or_else(|failed| panic!("{shown}: {failed:?}"))
    }

    async fn exchange(self, base_url: &str) -> Result<Answer, Failed> {
        let authority = base_url.strip_prefix("http://").expect("an http URL");
        let stream = TcpStream::connect(authority)
            .await
            .map_err(Failed::NotSent)?;
        let stream = TokioIo::new(Outspoken(stream));
        let (mut sender, connection) = http1::handshake(stream).await?;
        let connection = tokio::spawn(connection);
        let (method, path) = (self.method.clone(), self.path.clone());
        let response = sender.send_request(self.request(authority)).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        connection.abort();
        let answer = Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        };
        contract::check(&method, &path, &answer);
        Ok(answer)
    }

    fn request(self, authority: &str) -> Request<BoxBody<Bytes, Infallible>> {
        let body = if self.has_length {
            Full::new(self.body).boxed()
        } else {
            let pieces: Vec<_> = self
                .body
                .chunks(CHUNK_BYTES)
                .map(Bytes::copy_from_slice)
                .collect();
            let frames = stream::iter(pieces).map(|piece| Ok(Frame::data(piece)));
            BodyExt::boxed(StreamBody::new(frames))
        };
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.path.parse().expect("a path");
        *request.headers_mut() = self.headers;
        if !self.has_length {
            // Explicit, since hyper takes a GET without a length for one without a body.
            let chunked = HeaderValue::from_static("chunked");
            request
                .headers_mut()
                .insert(header::TRANSFER_ENCODING, chunked);
        }
        if !request.headers().contains_key(header::HOST) {
            let host = HeaderValue::from_str(authority).expect("a host");
            request.headers_mut().insert(header::HOST, host);
        }
        request
    }
}

/// A connection that can be written even if the server does not read.
///
/// A server may respond and close before it has read a body, and the response is still read.
struct Outspoken(TcpStream);

impl Outspoken {
    fn unless_hung_up<T>(done: Poll<io::Result<T>>, otherwise: T) -> Poll<io::Result<T>> {
        done.map(|done| match done {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Ok(otherwise)
            }
            done => done,
        })
    }
}

impl AsyncRead for Outspoken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Outspoken {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write(cx, bytes);
        Self::unless_hung_up(written, bytes.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::unless_hung_up(Pin::new(&mut self.0).poll_flush(cx), ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// The absence of a complete response.
#[derive(Debug)]
pub enum Failed {
    /// There was no connection, so the request was never sent.
    NotSent(io::Error),
    /// The connection ended early, so the outcome of the request is unknown.
    Lost(hyper::Error),
}

impl From<hyper::Error> for Failed {
    fn from(error: hyper::Error) -> Self {
        Self::Lost(error)
    }
}
