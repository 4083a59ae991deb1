#![doc = include_str!("../README.md")]
// On docs.rs, each item names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
mod check_state;
mod commit_thread;
mod directory;
mod engine;
mod entry_cache;
mod error;
mod group;
mod layout;
mod lock;
mod mark;
mod open;
mod options;
pub mod record;
mod shared;
mod snapshot;
mod stats;
mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use self::check_state::CheckState;
pub use self::directory::{StoreKind, store_kind};
pub use self::engine::{Change, Changes, Engine, View};
pub use self::error::{EngineError, OpenError};
pub use self::lock::{DirectoryLock, is_retired, reinstate_directory, remove_directory};
pub use self::options::{
    CACHE_BYTES_DEFAULT, EngineOptions, FREE_BYTES_MIN_DEFAULT, StoreOptions,
    WRITE_TIME_MAX_DEFAULT,
};
pub use self::snapshot::Snapshot;
pub use self::stats::{Histogram, StoreStats};
pub use self::store::{Embedded, EngineStore};
