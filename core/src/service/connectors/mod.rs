//! Connectors: configuration, syncs and health.

pub(crate) mod health;
pub(crate) mod manage;
pub(crate) mod sync;
pub(crate) mod types;
