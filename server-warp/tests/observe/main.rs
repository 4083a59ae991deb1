//! Tests of a server as its operator sees it: metrics and traces.

mod dashboard;
mod embedded;
mod endpoint;
mod receiver;
mod service;
mod support;
mod traces;
