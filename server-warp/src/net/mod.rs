//! The network half of the server: everything between a socket and a [`Responder`].
//!
//! Routing is done by warp. Around its service stands what warp leaves to others, so that no client can hold the
//! server up:
//!
//! | what a client does | what the server does |
//! | --- | --- |
//! | sends half a header, or nothing, or keeps an idle connection | closes it after [`header_read_timeout`](NetConfig::header_read_timeout), without an answer |
//! | sends a header that is too long, or no HTTP | 431 or 400 with an empty body, closes |
//! | sends half a body and stops | 503 after [`body_read_timeout`](NetConfig::body_read_timeout), closes |
//! | sends a body that is too long, chunked or not | 413; reads on for a while so that the client receives it, closes |
//! | asks more often than its [rate limit](NetConfig::rate_limit) lets it | 429 with `Retry-After`; the connection stays open |
//! | asks while as much is in work as the server takes on | 503 with `Retry-After`; the connection stays open |
//! | asks something that takes too long | 503 with `Retry-After` after [`request_timeout`](NetConfig::request_timeout) |
//! | asks something that makes the responder panic | 500; the connection stays open |
//! | does not read its answer | closes after [`write_stall_timeout`](NetConfig::write_stall_timeout) |
//! | speaks plain HTTP where TLS is spoken | 400, closes |
//! | does not finish its TLS handshake | closes it after [`handshake_timeout`](TlsConfig::handshake_timeout) |
//! | opens more connections than the server holds | they wait in the kernel's backlog until others close, health checks too |
//!
//! A body that does not arrive is 503 and not 408: 503 is among the statuses that every operation of the service
//! documents, and clients that retry treat both alike. A full server does not accept: a quick refusal would cost a file
//! and a task for each client that it cannot serve, and the connections that are idle make room within the header's
//! time-out.
//!
//! Every answer but those to what is no HTTP carries `Request-Id`, and every request makes one line in the log under
//! the target `knowledge_server::access` (health checks at the level `debug`, others at `info`): method, path, status,
//! duration, identifier, trace, and the bytes of both bodies. Whatever else is logged for a request stands in a span
//! with its identifier. What is counted is in [`HttpMetrics`](crate::metrics::HttpMetrics).
//!
//! With a [certificate](NetConfig::tls) the server speaks TLS 1.2 and 1.3; a certificate that changes on the disk is
//! shown to new connections, and open ones go on. HTTP/2 is left to a proxy for now.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Method, Request, Response, Uri};
//! use knowledge_server::net::{NetConfig, Refusal, Responder, Server};
//!
//! struct Greeting;
//!
//! impl Responder for Greeting {
//!     async fn respond(&self, _: Request<Bytes>) -> Response<Bytes> {
//!         Response::new(Bytes::from_static(b"hello"))
//!     }
//!
//!     fn refuse(&self, _: &Method, _: &Uri, refusal: &Refusal) -> Response<Bytes> {
//!         let mut response = Response::new(Bytes::new());
//!         *response.status_mut() = refusal.status();
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
//! let report = server.run(async { /* until a signal comes */ }).await;
//! assert_eq!(report.connections_killed, 0);
//! # Ok(())
//! # }
//! ```

mod body;
mod compression;
mod config;
mod connection;
mod cors;
mod exchange;
mod open_files;
mod rate_limit;
mod responder;
mod routes;
mod server;
mod stall;
mod tls;

pub use compression::{COMPRESSION_BYTES_MIN_DEFAULT, CompressionConfig};
pub use config::*;
pub use cors::{CORS_MAX_AGE_DEFAULT, CorsConfig, CorsOrigins};
pub use exchange::REQUEST_ID;
pub use open_files::OPEN_FILES_RESERVED;
pub use rate_limit::{RATE_LIMIT, RATE_LIMIT_POLICY, RATE_LIMIT_WINDOW_DEFAULT, RateLimitConfig};
pub use responder::{Refusal, Responder};
pub use routes::{HEALTH_PATH, READY_PATH};
pub use server::{BindError, Server, ShutdownReport};
pub(crate) use stall::StallGuard;
pub use tls::{
    Certificates, Reload, TLS_HANDSHAKE_TIMEOUT_DEFAULT, TLS_RELOAD_INTERVAL_DEFAULT, TlsConfig,
    TlsError,
};
