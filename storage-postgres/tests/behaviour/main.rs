//! Behaviour beyond the conformance suite: several processes, failures, opening and TLS.

mod commits;
mod failures;
mod full_disk;
mod lost_connections;
mod opening;
mod proxy;
mod reads;
mod snapshots;
mod support;
mod tls;
