//! Secrets of endpoints: sealed in the store, and used to sign messages.

pub(crate) mod sealing;
pub(crate) mod signing;
mod texts;
