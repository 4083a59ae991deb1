//! The JavaScript boundary of the workspace knowledge service.
//!
//! This crate is the Rust side, the modules of `wasm/js` are the other; nothing else calls across.
//! Requests cross as their parts, a store call as one buffer, and a task becomes a promise. The
//! crate is for one target and empty on any other.
//!
//! | module | content |
//! | --- | --- |
//! | `service` | the service: requests, maintenance, one dispatch pass |
//! | `store` | reads and commits, to a store written in JavaScript |
//! | `mirror` | copies of stores, which answer reads |
//! | `sender` | deliveries, to the `fetch` of the host |
//! | `task` | futures, which become promises |
//! | `host` | time, randomness, timers, the log, and the message of a panic |
#![cfg(target_arch = "wasm32")]

mod error;
mod exchange;
mod host;
mod mirror;
mod options;
mod sender;
mod service;
mod store;
mod task;
#[cfg(feature = "testing")]
mod testing;
mod wire;

pub use self::host::attach;
pub use self::service::{Service, open};
pub use self::task::poll;
#[cfg(feature = "testing")]
pub use self::testing::{conformance, converse, panic, seed, simulate};
