//! Governance for the memory of AI assistants.

pub mod env;
pub mod model;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
