//! Tests of the real binary over PostgreSQL: commands, errors, copies, and several servers that
//! share a database.
//!
//! They need `KNOWLEDGE_TEST_POSTGRES`, see [`knowledge_storage_postgres::testing`], and use the
//! first installation that it names. The other suites run over PostgreSQL with
//! `KNOWLEDGE_TEST_ENGINE=postgres`.

mod commands;
mod copy;
mod errors;
mod events;
mod failover;
mod partitions;
mod secrets;
mod servers;
mod support;
mod views;
