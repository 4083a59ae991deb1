//! HTTP server: everything between a socket and a [`Responder`].
//!
//! warp does the routing. This module adds the limits that warp leaves to others, so that no client
//! can block the server:
//!
//! | a client | the server |
//! | --- | --- |
//! | sends an incomplete header or nothing | closes after [`header_read_timeout`](NetConfig::header_read_timeout), without a response |
//! | keeps an idle connection after a response | closes after [`idle_timeout`](NetConfig::idle_timeout) |
//! | sends a header that is too long, or something other than HTTP | 431 or 400 with an empty body, closes |
//! | sends no `Host`, or several, or a transfer coding other than one `chunked` | 400, closes |
//! | sends part of a body and stops | 503 after [`body_read_timeout`](NetConfig::body_read_timeout), closes |
//! | sends a body that is too long, chunked or not | 413; keeps reading for a while so that the client receives it, closes |
//! | exceeds its [rate limit](NetConfig::rate_limit) | 429 with `Retry-After`; the connection stays open |
//! | sends a request while the maximum number is in flight | 503 with `Retry-After`; the connection stays open |
//! | sends a request that takes too long | 503 with `Retry-After` after [`request_timeout`](NetConfig::request_timeout) |
//! | sends a request that makes the responder panic | 500; the connection stays open |
//! | does not read its response | closes after [`write_stall_timeout`](NetConfig::write_stall_timeout) |
//! | is a [trusted proxy](ProxyConfig::protocol) and does not send its PROXY protocol header | closes, after [`header_read_timeout`](NetConfig::header_read_timeout) at the latest |
//! | speaks plain HTTP on a TLS port | 400, closes |
//! | does not complete its TLS handshake | closes after [`handshake_timeout`](TlsConfig::handshake_timeout) |
//! | connects while it holds its [share](NetConfig::connections_per_client_ratio) of the connections | closes at once |
//! | connects while the maximum number of connections is open | leaves it in the kernel's backlog until another closes, health checks too |
//!
//! An incomplete body results in 503 and not 408: 503 is among the documented statuses of every
//! operation of the service, and clients that retry treat both alike. A full server does not
//! accept: rejecting quickly would cost a file descriptor and a task for each client that it cannot
//! serve, and idle connections free their slots within the header timeout.
//!
//! Every response to a valid HTTP request carries `Request-Id`, and every request writes one line
//! to the log under the target `knowledge_server::access` (health checks at level `debug`, others
//! at `info`): method, path, status, duration, request ID, trace ID, and the sizes of both bodies.
//! All other log lines of a request are in a span with its ID.
//! [`HttpMetrics`](crate::metrics::HttpMetrics) lists the metrics.
//!
//! With a [certificate](NetConfig::tls) the server speaks TLS 1.2 and 1.3. A certificate that
//! changes on disk applies to new connections; open ones continue. HTTP/2 is left to a proxy for
//! now.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Method, Request, Response, Uri};
//! use knowledge_server::net::{NetConfig, Rejection, Responder, Server};
//!
//! struct Greeting;
//!
//! impl Responder for Greeting {
//!     async fn respond(&self, _: Request<Bytes>) -> Response<Bytes> {
//!         Response::new(Bytes::from_static(b"hello"))
//!     }
//!
//!     fn reject(&self, _: &Method, _: &Uri, rejection: &Rejection) -> Response<Bytes> {
//!         let mut response = Response::new(Bytes::new());
//!         *response.status_mut() = rejection.status();
//!         response
//!     }
//!
//!     async fn ready(&self) -> Result<(), String> {
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), knowledge_server::net::BindError> {
//! let config = NetConfig {
//!     address: "127.0.0.1:0".parse().expect("an address"),
//!     ..NetConfig::default()
//! };
//! let server = Server::bind(config, Greeting).await?;
//! println!("listening on {}", server.local_addr());
//! let report = server.run(async { /* until a signal arrives */ }).await;
//! assert_eq!(report.connections_killed, 0);
//! # Ok(())
//! # }
//! ```

mod body;
mod client_connections;
mod compression;
mod config;
mod connection;
mod cors;
mod exchange;
mod header;
mod open_files;
mod proxy;
mod proxy_protocol;
mod rate_limit;
mod respond;
mod responder;
mod routes;
mod server;
mod shared;
mod shares;
mod stall;
mod tls;

pub use compression::CompressionConfig;
pub use config::*;
pub use cors::{AllowedOrigin, CorsConfig};
pub use exchange::REQUEST_ID;
pub use open_files::OPEN_FILES_RESERVED;
pub use proxy::{ForwardingHeader, ProxyConfig};
pub use rate_limit::{
    RATE_LIMIT, RATE_LIMIT_POLICY, RATE_LIMIT_REQUESTS_DEFAULT, RATE_LIMIT_WINDOW_DEFAULT,
    RateLimitConfig,
};
pub use responder::{Rejection, Responder};
pub use routes::{HEALTH_PATH, READY_PATH};
pub use server::{BindError, Server, ShutdownReport};
pub use shares::BODY_BYTES_SMALL;
pub(crate) use stall::StallGuard;
pub use tls::{Certificates, Reload, TlsConfig, TlsError};
