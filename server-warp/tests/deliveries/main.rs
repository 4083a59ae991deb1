//! Tests of deliveries, from the outbox to receivers, through the dispatcher and its client.
//!
//! `batches`, `defects`, `dispatcher`, `leases` and `numbers` run in virtual time with a scripted
//! sender. The others talk to real receivers on the loopback interface. No test measures speed; each
//! waits for an outcome.

mod addresses;
mod answers;
mod batches;
mod confirmation;
mod connections;
mod defects;
mod dispatcher;
mod leases;
mod log_lines;
mod numbers;
mod receivers;
mod support;
mod trust;
