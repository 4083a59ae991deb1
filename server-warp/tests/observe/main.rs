//! What an operator sees of a server: its metrics, its traces, its log, and the files that deploy it.

#[cfg(unix)]
mod binary;
#[cfg(unix)]
mod deployment;
mod documents;
mod embedded;
mod endpoint;
mod receiver;
mod service;
mod support;
mod traces;
