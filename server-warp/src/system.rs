//! Clock and randomness of the operating system, under their former paths.
//!
//! They are part of [`knowledge_core::env`] (features `system` and `tokio`).

use knowledge_core::env::Env;
pub use knowledge_core::env::{OsRandomness, SystemClock};

/// Returns [`Env::system`].
#[must_use]
pub fn system_env() -> Env {
    Env::system()
}
