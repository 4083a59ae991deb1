//! The key layout.
