//! The JavaScript boundary of the workspace knowledge service.
//!
//! So far it runs a self-test of the engine inside JavaScript: a transaction over the in-memory store, with the time
//! and the randomness of the host.

mod env;
mod self_test;

pub use self::self_test::{SelfTest, self_test};
