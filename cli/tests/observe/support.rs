//! The parts of the server's own tests that these need.

#[path = "../../../server-warp/tests/support/client.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod client;
#[path = "../../../server-warp/tests/support/contract.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod contract;
#[path = "../../../server-warp/tests/support/exposition.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod exposition;

pub(crate) use self::client::{Call, GUARD};
pub(crate) use self::exposition::Exposition;
