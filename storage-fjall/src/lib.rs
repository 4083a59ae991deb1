#![doc = include_str!("../README.md")]
// On docs.rs, each item names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod engine;
mod error;
mod lengths;
mod options;
mod torn_tail;
mod view;

pub use knowledge_storage_embedded::{
    CheckState, DirectoryLock, Embedded, EngineStore, Histogram, OpenError, Snapshot, StoreOptions,
    StoreStats,
};

pub use self::engine::Fjall;
pub use self::options::FjallSettings;
pub use self::view::FjallView;

/// A store in a directory of its own, over fjall.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use knowledge_store::{Commit, Key, Store, StoreExt};
/// use knowledge_storage_fjall::{FjallOptions, FjallStore};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path();
/// let store = FjallStore::open(path, FjallOptions::default())?;
/// let key = Key::new("greeting")?;
/// store.commit(Commit::builder().put(key.clone(), "hello").build()?).await?;
/// drop(store);
///
/// let store = FjallStore::open(path, FjallOptions::default())?;
/// assert_eq!(store.get(&[key]).await?[0].as_ref().unwrap().value, "hello");
/// # Ok(())
/// # }
/// ```
pub type FjallStore = EngineStore<Fjall>;

/// Options of a [`FjallStore`].
pub type FjallOptions = StoreOptions<FjallSettings>;

/// State of a [`FjallStore`] that remains readable while others write.
pub type FjallSnapshot = Snapshot<Fjall>;
