//! The host's clock and randomness.

use knowledge_core::env::Env;
use knowledge_core::model::Timestamp;

/// The time of `Date.now()` and the bytes of `crypto.getRandomValues()`.
pub(crate) fn host() -> Env {
    Env::new(now, fill)
}

fn now() -> Timestamp {
    // A whole number of milliseconds, far below the 2^53 up to which it is exact.
    Timestamp::from_millis(js_sys::Date::now() as i64)
}

fn fill(buffer: &mut [u8]) {
    getrandom::fill(buffer).expect("every host that runs WebAssembly has crypto.getRandomValues");
}
