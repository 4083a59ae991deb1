//! Private items for the tests of this crate, of its front ends and of `knowledge-testing`. No stability is promised.

/// The key layout.
pub mod keys {
    pub use crate::keys::*;
}
