#![doc = include_str!("../README.md")]
// On docs.rs, each item names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backoff;
mod committer;
mod connection;
mod error;
mod lane;
mod options;
mod overlay;
mod queue;
mod read_plan;
mod readers;
mod reasons;
mod schema;
mod snapshot;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;
mod transaction;
mod url;

pub use self::error::OpenError;
pub use self::options::{
    COMMITTERS_DEFAULT, CONNECT_TIME_MAX_DEFAULT, LOCK_TIME_MAX_DEFAULT, PostgresOptions,
    READ_CONNECTIONS_DEFAULT, READ_TIME_MAX_DEFAULT, SNAPSHOT_IDLE_TIME_MAX,
    WRITE_TIME_MAX_DEFAULT,
};
pub use self::snapshot::PostgresSnapshot;
pub use self::store::PostgresStore;
