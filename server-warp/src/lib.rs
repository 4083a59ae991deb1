//! The workspace knowledge service as an HTTP server.
//!
//! What the service means is in `knowledge-core`; this crate owns what a network server owns:
//!
//! - [`net`]: connections, time-outs, limits, load shedding, health and graceful shutdown, around a
//!   [`Responder`](net::Responder) that answers the requests.
//! - [`logging`]: where the log lines go and how they look.
//! - [`system`]: the clock and the randomness of the operating system, for core.

pub mod logging;
pub mod net;
pub mod system;
