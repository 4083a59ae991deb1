//! Tests of the real binary as its operator sees it: metrics, traces, log, deployment files and the
//! manual.

#[cfg(unix)]
mod binary;
#[cfg(unix)]
mod deployment;
mod documents;
#[cfg(target_os = "linux")]
mod overload;
#[path = "../../../server-warp/tests/observe/receiver.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod receiver;
mod support;
