//! The workspace knowledge service as an HTTP server.
//!
//! `knowledge-core` defines the behaviour of the service; this crate has the parts of a network
//! server:
//!
//! - [`admin`]: the operator's API on a socket, and its client.
//! - [`app`]: the whole server over any store, for the command line, for hosts of your own and for tests.
//! - [`net`]: connections, timeouts, limits, load shedding, health and graceful shutdown, around a
//!   [`Responder`](net::Responder) that handles requests; [`responder`]: core as that responder.
//! - [`auth`]: signing in and out, at `/auth/…`; with the feature `oidc`, `oidc`: the client of an
//!   OpenID Connect provider.
//! - [`config`]: settings from flags, environment variables and a file, with the origin of each
//!   value.
//! - [`backup`]: whole stores as files and directories: dumps, backups of a running server,
//!   compaction.
//! - [`data`], [`store_address`], [`sealing`]: the store, its address and its key file;
//!   [`private_file`]: files that only their owner may read.
//! - [`partitions`]: organisations over several stores.
//! - [`deliveries`]: the dispatcher of events to webhooks and citation subscriptions.
//! - [`console`]: the console at `/`, a page for people.
//! - [`reference`](mod@reference): the API reference at `/openapi.json` and `/docs`.
//! - [`metrics`]: metrics for Prometheus; [`telemetry`]: traces for OpenTelemetry.
//! - [`logging`]: destination, level and format of the log.
//! - [`http_client`]: HTTPS to hosts that the operator names; [`explain`](mod@explain): errors of
//!   the service, explained to operators.
//!
//! The command line `knowledge`, which runs it, is `knowledge-cli`.

// On docs.rs, each item names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admin;
pub mod app;
pub mod auth;
pub mod backup;
pub mod config;
pub mod console;
pub mod data;
pub mod deliveries;
pub mod explain;
pub mod http_client;
mod logged_path;
pub mod logging;
pub mod metrics;
pub mod net;
#[cfg(feature = "oidc")]
pub mod oidc;
mod partial_debug;
pub mod partitions;
mod postgres_address;
pub mod private_file;
pub mod reference;
mod resource;
pub mod responder;
pub mod sealing;
pub mod store_address;
pub mod telemetry;
