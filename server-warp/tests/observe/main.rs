//! Tests of a server as its operator sees it: metrics, traces, log and deployment files.

#[cfg(unix)]
mod binary;
mod dashboard;
#[cfg(unix)]
mod deployment;
mod documents;
mod embedded;
mod endpoint;
#[cfg(target_os = "linux")]
mod overload;
mod receiver;
mod service;
mod support;
mod traces;
