//! Events leave: from the outbox to receivers, through the dispatcher and its client.
//!
//! `defects`, `dispatcher`, `leases` and `numbers` run in virtual time with a sender that does what the test says. The others talk to real
//! receivers on the loopback interface. No test says that something was fast: each waits for an outcome.

mod addresses;
mod answers;
#[cfg(unix)]
mod crash;
mod defects;
mod dispatcher;
mod leases;
mod log_lines;
mod numbers;
mod receivers;
mod support;
mod trust;
