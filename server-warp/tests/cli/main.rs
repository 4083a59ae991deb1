//! The command line, by running the real binary.
//!
//! Servers listen on free ports of the loopback interface alone, and every test has a directory of its own.

mod admin_socket;
mod administration;
mod administration_docs;
mod backup;
mod config;
mod dashboard;
mod demo;
mod help;
mod import;
mod readme;
mod relabel;
mod serve;
mod signed_messages;
mod support;
mod token;
mod webhook;
