//! Events leave: from the outbox to receivers, through the dispatcher and its client.
//!
//! Who is talked to is on the loopback interface. No test says that something was fast: each waits for an outcome.

mod addresses;
mod answers;
mod support;
mod trust;
