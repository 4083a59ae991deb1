#![doc = include_str!("../README.md")]

mod capture;
mod commit_thread;
mod directory;
mod error;
mod group;
mod mark;
mod open;
mod options;
mod record;
mod shared;
mod snapshot;
mod stats;
mod store;
mod timeline;

pub use self::error::OpenError;
pub use self::options::{
    CACHE_CAPACITY_BYTES_DEFAULT, FREE_BYTES_MIN_DEFAULT, Mode, SledOptions, WRITE_TIME_MAX_DEFAULT,
};
pub use self::snapshot::SledSnapshot;
pub use self::stats::{Histogram, StoreStats};
pub use self::store::SledStore;
