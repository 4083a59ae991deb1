//! Tests of the HTTP interface that run the server's library in this process.
//!
//! They need a store that fails (`failures`, `full_disk`), that records reads (`strangers`) or that
//! is looked into (`idempotency`), limits of their own (`quotas`), optional features
//! (`audit_clients`, `compression`, `cors`, `rate_limits`, `reference`), or the server's pages
//! (`auth`, `console`). All others are cases of [`knowledge_http_suite`], which know only an
//! address.

mod audit_clients;
mod auth;
mod compression;
mod console;
mod cors;
mod failures;
mod full_disk;
mod idempotency;
mod quotas;
mod rate_limits;
mod reference;
mod strangers;
mod support;
