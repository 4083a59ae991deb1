//! Tests of the command line, by running the real binary.
//!
//! Servers listen only on free ports of the loopback interface, and each test has its own
//! directory.

mod admin_socket;
mod administration;
mod administration_docs;
mod backup;
mod config;
mod dashboard;
mod delegation;
mod demo;
mod guide;
mod help;
mod import;
mod login_link;
mod mcp;
mod org_move;
#[cfg(unix)]
mod owner;
mod readme;
mod relabel;
mod serve;
mod signed_messages;
mod support;
mod token;
mod upgrading;
mod webhook;
