//! The host's clock and randomness.

use knowledge_core::env::Env;
use knowledge_core::model::Timestamp;
use wasm_bindgen::JsError;

/// The time of `Date.now()` and the bytes of `crypto.getRandomValues()`.
///
/// # Errors
/// The host has no `crypto.getRandomValues()`.
pub(crate) fn host() -> Result<Env, JsError> {
    // Asked once, here, where there is someone to tell: a host that has it never fails to give.
    getrandom::u32()
        .map_err(|error| JsError::new(&format!("globalThis.crypto is needed: {error}")))?;
    Ok(Env::new(now, fill))
}

fn now() -> Timestamp {
    // A whole number of milliseconds, far below the 2^53 up to which it is exact.
    Timestamp::from_millis(js_sys::Date::now() as i64)
}

fn fill(buffer: &mut [u8]) {
    getrandom::fill(buffer).expect("the host gave random bytes before");
}
