//! What an operator sees of a server: its metrics, its traces, its log, and the files that deploy it.

#[cfg(unix)]
mod binary;
#[cfg(unix)]
mod deployment;
mod documents;
mod endpoint;
mod receiver;
mod service;
mod sled;
mod support;
mod traces;
