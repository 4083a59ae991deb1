//! The parts of the server's own tests that these need.

#[path = "../../../server-warp/tests/support/exposition.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod exposition;

pub(crate) use self::exposition::Exposition;
pub(crate) use knowledge_http_suite::client::{Call, GUARD};
