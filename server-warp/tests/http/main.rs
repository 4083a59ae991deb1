//! The whole HTTP interface, from outside: every operation, every status that it documents, in full.
//!
//! The tests ask a service over TCP, and know nothing of it but what a [fixture](knowledge_testing::fixture)
//! says. Without more they seed a directory and run the real binary on it; `KNOWLEDGE_TEST_TARGET` names a fixture of
//! a service that is up already, which may be another front end over another store. What can only be shown where the
//! store misbehaves (`failures`, `full_disk`, and a part of `idempotency`), and what the server does only when told to
//! (`compression`, `cors`, `rate_limits`, `reference`), runs the server's library in this process; so does what becomes of
//! deliveries, unless the service that is named attempts them when it is told to.
//!
//! A test that changes something has an organisation of its own, so that the order of the tests does not matter.

mod additions;
mod bad_input;
mod bulk;
mod citations;
mod common;
mod compression;
mod contract;
mod cors;
mod credentials;
mod dashboard;
mod failures;
mod full_disk;
mod idempotency;
mod inbound;
mod rate_limits;
mod reference;
mod roles;
mod support;
mod tenancy;
mod webhooks;
