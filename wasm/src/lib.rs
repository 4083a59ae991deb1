//! The JavaScript boundary of the workspace knowledge service.
//!
//! Rust on this side, the modules of `wasm/js` on the other; nothing else calls across. Requests cross as their parts,
//! a store is asked in one buffer per call, and a task of this side is a promise of the other. All of it is for one
//! target: elsewhere the crate is empty.
//!
//! | module | what crosses |
//! | --- | --- |
//! | `service` | the service: requests, maintenance, one round of deliveries |
//! | `store` | reads and commits, to a store written in JavaScript |
//! | `sender` | deliveries, to the `fetch` of the host |
//! | `task` | futures, which become promises |
//! | `host` | time, randomness, waiting, the log, and the message of a panic |
#![cfg(target_arch = "wasm32")]

mod error;
mod exchange;
mod host;
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
