//! Settings of the HTTP server and their defaults.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::compression::CompressionConfig;
use super::cors::CorsConfig;
use super::open_files::OPEN_FILES_RESERVED;
use super::proxy::ProxyConfig;
use super::rate_limit::RateLimitConfig;
use super::tls::TlsConfig;

/// Default address of the server: reachable from this machine only.
pub const ADDRESS_DEFAULT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Default of [`NetConfig::connections_max`].
pub const CONNECTIONS_MAX_DEFAULT: usize = 10_000;

/// First bytes of a body, which do not count towards [`NetConfig::body_bytes_held_max`]. Thus small
/// requests are read however many large ones are in progress.
pub const BODY_BYTES_UNCOUNTED: usize = 16 * 1_024;

/// Default of [`NetConfig::shutdown_timeout`].
pub const SHUTDOWN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Maximum of every timeout; deadlines computed from it cannot overflow.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Configuration of the HTTP server.
#[derive(Clone, Debug, PartialEq)]
pub struct NetConfig {
    /// Address to listen on. Port 0 selects any free port, see
    /// [`Server::local_addr`](super::Server::local_addr).
    pub address: SocketAddr,
    /// Connections that the kernel holds until the server accepts them. The kernel may have a lower
    /// limit of its own (Linux: `net.core.somaxconn`).
    pub accept_backlog: u32,
    /// Maximum number of open connections; lower if the process may open fewer files. Further
    /// clients wait in the kernel's backlog until a connection closes.
    pub connections_max: usize,
    /// Fraction of the connections that one client address may hold (IPv6: the first 64 bits), at
    /// least one. Further ones are closed at once. Trusted proxies may hold all.
    pub connections_per_client_ratio: f64,
    /// File descriptors reserved for everything except client connections. If the process may open
    /// fewer than twice as many, half of them are reserved.
    pub open_files_reserved: usize,
    /// Maximum number of requests in flight, each counted once its last byte has arrived. Further
    /// requests are rejected with 503. One organisation may have as many as there are free places,
    /// which is half of them if no other organisation has any. Health checks are not counted.
    pub requests_in_work_max: usize,
    /// Bytes of request bodies of one organisation that are handled at once, at least 1. The first
    /// [`BODY_BYTES_SMALL`](super::BODY_BYTES_SMALL) of each are not counted. Further requests of
    /// the organisation wait for their turn; a longer body has its turn alone.
    pub body_bytes_in_work_max: usize,
    /// Time for the complete header of a request to arrive. Then the connection is closed without a
    /// response. It starts when the connection opens, or with the first byte of a further request.
    pub header_read_timeout: Duration,
    /// Time between a response and the end of the next header. Then the connection is closed. It
    /// should be longer than that of the proxies in front of the server, so that none of
    /// them sends a request on a connection that is being closed.
    pub idle_timeout: Duration,
    /// Maximum size of a request's first line and header together, at least 1. The response to a
    /// longer one is 431 with an empty body.
    pub header_bytes_max: usize,
    /// Time for the complete body of a request to arrive, from the end of its header.
    pub body_read_timeout: Duration,
    /// Maximum size of a request's body, chunked or not. A longer one is rejected with 413. For a
    /// service with another [`Limits::body_bytes_max`](knowledge_core::limits::Limits), it should
    /// be the same.
    pub body_bytes_max: usize,
    /// Memory for bodies that are being read. The first [`BODY_BYTES_UNCOUNTED`] of each are not
    /// counted. A body that would exceed it is rejected with 503, and so is a body with which its
    /// client would hold more than is free, which is half for a single client. At least
    /// [`body_bytes_max`](Self::body_bytes_max).
    pub body_bytes_held_max: usize,
    /// Time for a whole request, from the end of its header to its response. Then it is rejected
    /// with 503 and its handler is dropped.
    pub request_timeout: Duration,
    /// Time in which the client must accept at least one byte of its response. Then the connection
    /// is closed.
    pub write_stall_timeout: Duration,
    /// Time for which the rest of a rejected body is still read and discarded. This lets a client
    /// that sends everything before it reads receive the error response and not a reset. Zero
    /// closes immediately.
    pub linger_timeout: Duration,
    /// Bytes of the rest of a rejected body that are read and discarded.
    pub linger_bytes_max: u64,
    /// Time for the responder's readiness check. Then `/readyz` responds with 503.
    pub ready_timeout: Duration,
    /// Time before a shutdown in which the server still serves while `/readyz` responds with 503.
    pub shutdown_delay: Duration,
    /// Time for the requests in flight to complete at shutdown. Then their connections are closed.
    pub shutdown_timeout: Duration,
    /// `Retry-After` of a 503, rounded up to whole seconds.
    pub retry_after: Duration,
    /// Certificate of the server; without one it speaks plain HTTP.
    pub tls: TlsConfig,
    /// Proxies that are trusted to report the addresses of their clients.
    pub proxy: ProxyConfig,
    /// Other origins whose pages may call the server from a browser.
    pub cors: CorsConfig,
    /// Compression of responses.
    pub compression: CompressionConfig,
    /// Rate limit of each principal; off by default.
    pub rate_limit: RateLimitConfig,
}

impl Default for NetConfig {
    fn default() -> Self {
        Self {
            address: ADDRESS_DEFAULT,
            accept_backlog: 1_024,
            connections_max: CONNECTIONS_MAX_DEFAULT,
            connections_per_client_ratio: 0.25,
            open_files_reserved: OPEN_FILES_RESERVED,
            requests_in_work_max: 512,
            // Two bulk updates of 1,000 memories.
            body_bytes_in_work_max: 96 * 1_024,
            header_read_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            header_bytes_max: 32 * 1_024,
            body_read_timeout: Duration::from_secs(20),
            body_bytes_max: 1_024 * 1_024,
            body_bytes_held_max: 256 * 1_024 * 1_024,
            request_timeout: Duration::from_secs(30),
            write_stall_timeout: Duration::from_secs(30),
            linger_timeout: Duration::from_secs(5),
            linger_bytes_max: 64 * 1_024 * 1_024,
            ready_timeout: Duration::from_secs(5),
            shutdown_delay: Duration::ZERO,
            shutdown_timeout: SHUTDOWN_TIMEOUT_DEFAULT,
            retry_after: Duration::from_secs(1),
            tls: TlsConfig::default(),
            proxy: ProxyConfig::default(),
            cors: CorsConfig::default(),
            compression: CompressionConfig::default(),
            rate_limit: RateLimitConfig::off(),
        }
    }
}

/// Error of [`NetConfig::validate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {requirement}")]
pub struct InvalidConfig {
    /// Field of [`NetConfig`].
    pub field: &'static str,
    /// Requirement that the field does not meet; completes "must be".
    pub requirement: &'static str,
}

impl NetConfig {
    /// Checks that a server can run with this configuration.
    ///
    /// # Errors
    /// [`InvalidConfig`] names the first invalid field: a limit or a timeout that is zero (except
    /// `linger_…`, `shutdown_…` and `retry_after`, for which zero has a meaning) or too large.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        let counts = [
            ("accept_backlog", self.accept_backlog as usize),
            ("connections_max", self.connections_max),
            ("requests_in_work_max", self.requests_in_work_max),
            ("body_bytes_in_work_max", self.body_bytes_in_work_max),
            ("header_bytes_max", self.header_bytes_max),
            ("body_bytes_max", self.body_bytes_max),
        ];
        let invalid = |field, requirement| Err(InvalidConfig { field, requirement });
        for (field, value) in counts {
            // 31 bits: the largest backlog of the kernel and the largest semaphore on every
            // platform.
            if value == 0 || value > i32::MAX as usize {
                return invalid(field, "between 1 and 2,147,483,647");
            }
        }
        if !(0.0..=1.0).contains(&self.connections_per_client_ratio) {
            return invalid("connections_per_client_ratio", "between 0 and 1");
        }
        if self.body_bytes_held_max < self.body_bytes_max {
            return invalid("body_bytes_held_max", "at least body_bytes_max");
        }
        let timeouts = [
            ("header_read_timeout", self.header_read_timeout),
            ("idle_timeout", self.idle_timeout),
            ("body_read_timeout", self.body_read_timeout),
            ("request_timeout", self.request_timeout),
            ("write_stall_timeout", self.write_stall_timeout),
            ("ready_timeout", self.ready_timeout),
            ("tls.reload_interval", self.tls.reload_interval),
            ("tls.handshake_timeout", self.tls.handshake_timeout),
        ];
        let problems = [
            self.tls.problem(),
            self.cors.problem(),
            self.rate_limit.problem(),
        ];
        if let Some((field, requirement)) = problems.into_iter().flatten().next() {
            return invalid(field, requirement);
        }
        for (field, value) in timeouts {
            if value.is_zero() || value > TIMEOUT_MAX {
                return invalid(field, "greater than 0 and at most 1 day");
            }
        }
        Ok(())
    }
}
