//! Tests of the whole HTTP interface, from outside: all operations with all documented statuses.
//!
//! The tests call a service over TCP, and only know its
//! [fixture](knowledge_testing::fixture). By default they seed a directory and run the real
//! binary on it. `KNOWLEDGE_TEST_TARGET` names the fixture of a running service instead, which may
//! be another front end over another store.
//!
//! Some tests run the server's library in this process: those that need a failing store
//! (`failures`, `full_disk`, and a part of `idempotency`) or one that records reads (`strangers`),
//! those of optional features
//! (`compression`, `cors`, `rate_limits`, `reference`), those of its pages (`auth`, `console`), and
//! those of deliveries, unless the named service attempts deliveries on demand.
//!
//! A test that changes data has its own organisation, so that the order of the tests does not
//! matter.

mod additions;
mod audit_clients;
mod auth;
mod bad_input;
mod bulk;
mod bulk_rejections;
mod citations;
mod common;
mod compression;
mod console;
mod contract;
mod cors;
mod credentials;
mod dashboard;
mod dashboard_etag;
mod failures;
mod full_disk;
mod idempotency;
mod inbound;
mod quotas;
mod rate_limits;
mod reference;
mod roles;
mod strangers;
mod support;
mod tenancy;
mod webhooks;
