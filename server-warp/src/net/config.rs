//! What the network half of the server can be told, and what it does when told nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::compression::CompressionConfig;
use super::cors::CorsConfig;
use super::open_files::OPEN_FILES_RESERVED;
use super::rate_limit::RateLimitConfig;
use super::tls::TlsConfig;

/// Where the server listens when not told otherwise: reachable from this machine alone.
pub const ADDRESS_DEFAULT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Connections that the kernel completes and holds while the server does not accept, see
/// [`NetConfig::accept_backlog`].
pub const ACCEPT_BACKLOG_DEFAULT: u32 = 1_024;

/// Connections open at once.
pub const CONNECTIONS_MAX_DEFAULT: usize = 10_000;

/// Requests that are being answered at once.
pub const REQUESTS_IN_WORK_MAX_DEFAULT: usize = 512;

/// Time for the header of a request to arrive, and the longest that an idle connection is kept.
pub const HEADER_READ_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Bytes of a request's first line and header together.
pub const HEADER_BYTES_MAX_DEFAULT: usize = 32 * 1_024;

/// Time for the body of a request to arrive, counted from the end of its header.
pub const BODY_READ_TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);

/// Bytes of a request's body.
pub const BODY_BYTES_MAX_DEFAULT: usize = 1_024 * 1_024;

/// Bytes of bodies that are held at once while they arrive, beyond the first
/// [`BODY_BYTES_UNCOUNTED`] of each.
pub const BODY_BYTES_HELD_MAX_DEFAULT: usize = 256 * 1_024 * 1_024;

/// The first bytes of a body, which do not count towards [`NetConfig::body_bytes_held_max`]: small requests are read
/// however many large ones are on their way.
pub const BODY_BYTES_UNCOUNTED: usize = 16 * 1_024;

/// Time for a whole request, from the end of its header to its answer.
pub const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Time without the client taking a single byte of its answer.
pub const WRITE_STALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Time for which the rest of a refused body is read and thrown away.
pub const LINGER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Bytes of the rest of a refused body that are read and thrown away.
pub const LINGER_BYTES_MAX_DEFAULT: u64 = 64 * 1_024 * 1_024;

/// Time for the responder to say whether it is ready.
pub const READY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Time for the requests in work to be finished when the server is stopped.
pub const SHUTDOWN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// What an overloaded server tells its clients to wait.
pub const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);

/// The longest time-out that is taken: a deadline can still be reckoned from it.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How the server meets the network. [`Default`] gives the `…_DEFAULT` constants of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetConfig {
    /// The address to listen on. Port 0 takes any free port, see [`Server::local_addr`](super::Server::local_addr).
    pub address: SocketAddr,
    /// Connections that the kernel holds for the server while it does not accept. The kernel may have a lower bound
    /// of its own (Linux: `net.core.somaxconn`).
    pub accept_backlog: u32,
    /// Connections open at once. It is lowered where the process may open fewer files. Further clients wait in the
    /// kernel's backlog until a connection closes.
    pub connections_max: usize,
    /// Files kept back for everything that is not a client's connection; half of what the process may open where that
    /// is less.
    pub open_files_reserved: usize,
    /// Requests that are being answered at once; each counts from the arrival of its last byte. Further requests are
    /// refused with 503. Health checks are not counted.
    pub requests_in_work_max: usize,
    /// Time for the header of a request to arrive whole, from the opening of the connection or from the end of the
    /// previous answer. So it also bounds how long an idle connection is kept. The connection is closed without an
    /// answer.
    pub header_read_timeout: Duration,
    /// Bytes of a request's first line and header together, at least 1. A longer one is answered 431 with an empty
    /// body.
    pub header_bytes_max: usize,
    /// Time for the body of a request to arrive whole, from the end of its header.
    pub body_read_timeout: Duration,
    /// Bytes of a request's body, chunked or not. A longer one is refused with 413.
    pub body_bytes_max: usize,
    /// Bytes of bodies that are held at once while they arrive, but for the first [`BODY_BYTES_UNCOUNTED`] of each.
    /// A body that would pass it is refused with 503. At least [`body_bytes_max`](Self::body_bytes_max).
    pub body_bytes_held_max: usize,
    /// Time for a whole request, from the end of its header to its answer. Then it is refused with 503, and what was
    /// still working on it is dropped.
    pub request_timeout: Duration,
    /// Time without the client taking a single byte of its answer. Then the connection is closed.
    pub write_stall_timeout: Duration,
    /// Time for which the rest of a refused body is still read and thrown away, so that a client that sends
    /// everything before it reads receives the refusal and not a reset. Nothing: close at once.
    pub linger_timeout: Duration,
    /// Bytes of the rest of a refused body that are read and thrown away.
    pub linger_bytes_max: u64,
    /// Time for the responder to say whether it is ready. Then `/readyz` is 503.
    pub ready_timeout: Duration,
    /// Time for the requests in work to be finished when the server is stopped. Then their connections are closed.
    pub shutdown_timeout: Duration,
    /// What the `Retry-After` of a 503 says, rounded up to whole seconds.
    pub retry_after: Duration,
    /// The certificate of the server; without one it speaks plain HTTP.
    pub tls: Option<TlsConfig>,
    /// Which pages of other origins may call the server from a browser; none without it.
    pub cors: Option<CorsConfig>,
    /// Which answers are compressed; none without it.
    pub compression: Option<CompressionConfig>,
    /// How many requests one principal may make; as many as it likes without it.
    pub rate_limit: Option<RateLimitConfig>,
}

impl Default for NetConfig {
    fn default() -> Self {
        Self {
            address: ADDRESS_DEFAULT,
            accept_backlog: ACCEPT_BACKLOG_DEFAULT,
            connections_max: CONNECTIONS_MAX_DEFAULT,
            open_files_reserved: OPEN_FILES_RESERVED,
            requests_in_work_max: REQUESTS_IN_WORK_MAX_DEFAULT,
            header_read_timeout: HEADER_READ_TIMEOUT_DEFAULT,
            header_bytes_max: HEADER_BYTES_MAX_DEFAULT,
            body_read_timeout: BODY_READ_TIMEOUT_DEFAULT,
            body_bytes_max: BODY_BYTES_MAX_DEFAULT,
            body_bytes_held_max: BODY_BYTES_HELD_MAX_DEFAULT,
            request_timeout: REQUEST_TIMEOUT_DEFAULT,
            write_stall_timeout: WRITE_STALL_TIMEOUT_DEFAULT,
            linger_timeout: LINGER_TIMEOUT_DEFAULT,
            linger_bytes_max: LINGER_BYTES_MAX_DEFAULT,
            ready_timeout: READY_TIMEOUT_DEFAULT,
            shutdown_timeout: SHUTDOWN_TIMEOUT_DEFAULT,
            retry_after: RETRY_AFTER_DEFAULT,
            tls: None,
            cors: None,
            compression: None,
            rate_limit: None,
        }
    }
}

/// A configuration that no server can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {requirement}")]
pub struct InvalidConfig {
    /// The field of [`NetConfig`].
    pub field: &'static str,
    /// What it must be.
    pub requirement: &'static str,
}

impl NetConfig {
    /// Tells whether a server can keep this configuration.
    ///
    /// # Errors
    /// [`InvalidConfig`] names the first field that is wrong: a limit or a time-out of nothing (but `linger_…`,
    /// `shutdown_timeout` and `retry_after`, where nothing has a meaning), or more than there can be.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        let counts = [
            ("accept_backlog", self.accept_backlog as usize),
            ("connections_max", self.connections_max),
            ("requests_in_work_max", self.requests_in_work_max),
            ("header_bytes_max", self.header_bytes_max),
            ("body_bytes_max", self.body_bytes_max),
        ];
        for (field, value) in counts {
            // 31 bits: what the kernel takes as a backlog and what a semaphore counts everywhere.
            if value == 0 || value > i32::MAX as usize {
                return Err(InvalidConfig {
                    field,
                    requirement: "between 1 and 2,147,483,647",
                });
            }
        }
        if self.body_bytes_held_max < self.body_bytes_max {
            return Err(InvalidConfig {
                field: "body_bytes_held_max",
                requirement: "at least body_bytes_max",
            });
        }
        let timeouts = [
            ("header_read_timeout", self.header_read_timeout),
            ("body_read_timeout", self.body_read_timeout),
            ("request_timeout", self.request_timeout),
            ("write_stall_timeout", self.write_stall_timeout),
            ("ready_timeout", self.ready_timeout),
        ];
        let problem_of_a_part = self
            .cors
            .as_ref()
            .and_then(CorsConfig::problem)
            .or_else(|| self.rate_limit.as_ref().and_then(RateLimitConfig::problem));
        if let Some((field, requirement)) = problem_of_a_part {
            return Err(InvalidConfig { field, requirement });
        }
        let timeouts_of_tls = self.tls.iter().flat_map(|tls| {
            [
                ("tls.reload_interval", tls.reload_interval),
                ("tls.handshake_timeout", tls.handshake_timeout),
            ]
        });
        for (field, value) in timeouts.into_iter().chain(timeouts_of_tls) {
            if value.is_zero() || value > TIMEOUT_MAX {
                return Err(InvalidConfig {
                    field,
                    requirement: "longer than nothing and at most a day",
                });
            }
        }
        Ok(())
    }
}
