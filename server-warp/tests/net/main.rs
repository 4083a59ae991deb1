//! The network half of the server, over real connections on the loopback interface.
//!
//! The server's time-outs are short where a test waits for one. No test says that something was fast: each waits for an
//! outcome, and [`support::GUARD`] only ends a test that would hang.

mod added_headers;
mod bodies;
mod exchanges;
mod health;
mod load;
mod logs;
mod metrics;
mod shutdown;
mod support;
mod timeouts;
mod tls;
