#![doc = include_str!("../README.md")]
// On docs.rs, each item names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod blobs;
mod capture;
mod engine;
mod error;
mod options;
mod timeline;
mod undo;
mod view;

pub use knowledge_storage_embedded::{
    CheckState, DirectoryLock, Embedded, EngineStore, Histogram, OpenError, Snapshot, StoreOptions,
    StoreStats,
};

pub use self::engine::Sled;
pub use self::options::{Mode, SledSettings};

/// A store in a directory of its own, over sled.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use knowledge_store::{Commit, Key, Store, StoreExt};
/// use knowledge_storage_sled::{SledOptions, SledStore};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path();
/// let store = SledStore::open(path, SledOptions::default())?;
/// let key = Key::new("greeting")?;
/// store.commit(Commit::builder().put(key.clone(), "hello").build()?).await?;
/// drop(store);
///
/// let store = SledStore::open(path, SledOptions::default())?;
/// assert_eq!(store.get(&[key]).await?[0].as_ref().unwrap().value, "hello");
/// # Ok(())
/// # }
/// ```
pub type SledStore = EngineStore<Sled>;

/// Options of a [`SledStore`].
pub type SledOptions = StoreOptions<SledSettings>;

/// State of a [`SledStore`] that remains readable while others write.
pub type SledSnapshot = Snapshot<Sled>;
