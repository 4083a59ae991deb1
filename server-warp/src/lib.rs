//! The workspace knowledge service as an HTTP server, and its command line.
//!
//! What the service means is in `knowledge-core`; this crate owns what a network server owns:
//!
//! - [`admin`]: the socket for the operator, and how commands reach it.
//! - [`app`]: the whole server over any store, for the command line and for tests.
//! - [`net`]: connections, time-outs, limits, load shedding, health and graceful shutdown, around a
//!   [`Responder`](net::Responder) that answers the requests; [`responder`]: core as that responder.
//! - [`config`]: what the server is told, by flags, variables and a file, and where each value came from.
//! - [`backup`]: whole stores as files and directories: dumps, backups of a running server, compaction.
//! - [`data`], [`store_address`], [`sealing`]: the store, its address and the file of its key; [`private_file`]: files that their
//!   owner alone may read.
//! - [`deliveries`]: events leave, for webhooks and citation subscriptions.
//! - [`reference`](mod@reference): what the server says of its own interface, at `/openapi.json` and `/docs`.
//! - [`metrics`]: numbers for Prometheus; [`telemetry`]: traces for OpenTelemetry.
//! - [`logging`]: where the log lines go and how they look.
//! - [`system`]: the clock and the randomness of the operating system, for core.
//! - [`cli`]: the command line `knowledge`; [`demo`]: what `knowledge demo` shows.

pub mod admin;
pub mod app;
pub mod backup;
pub mod cli;
pub mod config;
pub mod data;
pub mod deliveries;
pub mod demo;
mod explain;
mod http_client;
pub mod logging;
pub mod metrics;
pub mod net;
pub mod private_file;
mod progress;
pub mod reference;
pub mod responder;
pub mod sealing;
pub mod store_address;
pub mod system;
pub mod telemetry;
