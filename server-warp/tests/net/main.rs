//! Tests of the network half of the server, over real connections on the loopback interface.
//!
//! The server's time-outs are short if a test waits for one. No test measures speed: each waits for
//! an outcome, and [`support::GUARD`] only ends a test that would hang.

mod added_headers;
mod bodies;
mod client_connections;
mod exchanges;
mod health;
mod load;
mod logs;
mod metrics;
mod proxies;
mod proxy_protocol;
mod shares;
mod shutdown;
mod support;
mod timeouts;
mod tls;
