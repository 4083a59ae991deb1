//! Entries are read from the engine once, and then from the store's cache of entries.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use knowledge_store::{Commit, Direction, Entry, Key, KeyEntry, KeyRange, Store, StoreExt};
use tempfile::TempDir;

use super::support::{CACHE_BYTES, assert_committed, key, temp_directory};
use crate::{Changes, Engine, EngineError, EngineOptions, EngineStore, StoreOptions, View};

/// Part of the caches that is for entries.
const PART: u64 = 8;
/// Size of a value, small enough for the cache, in bytes.
const VALUE_BYTES: u64 = 1_000;
/// Number of entries whose values alone take more than a quarter of the caches.
const ENTRIES: u64 = CACHE_BYTES / 4 / VALUE_BYTES + 500;

/// Settings of an engine whose reads are counted.
#[derive(Clone, Debug, Default)]
struct Settings<S> {
    engine: S,
    reads: Arc<AtomicU64>,
}

/// An engine, and the number of keys that were read from its views.
struct CountingEngine<E> {
    engine: E,
    reads: Arc<AtomicU64>,
}

struct CountingView<V> {
    view: V,
    reads: Arc<AtomicU64>,
}

impl<V: View> View for CountingView<V> {
    fn get(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, EngineError> {
        self.reads.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.view.get(keys)
    }

    fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, EngineError> {
        self.view.scan(range, limit, direction)
    }

    fn is_lost(&self) -> bool {
        self.view.is_lost()
    }
}

impl<E: Engine> Engine for CountingEngine<E> {
    const NAME: &'static str = E::NAME;
    const FORMAT: u64 = E::FORMAT;

    type Settings = Settings<E::Settings>;
    type View = CountingView<E::View>;
    type Snapshot = E::Snapshot;

    fn open(path: &Path, options: &EngineOptions<Self::Settings>) -> Result<Self, EngineError> {
        let options_of_engine = EngineOptions {
            cache_bytes: options.cache_bytes,
            settings: options.settings.engine.clone(),
        };
        Ok(Self {
            engine: E::open(path, &options_of_engine)?,
            reads: Arc::clone(&options.settings.reads),
        })
    }

    fn has_data(path: &Path) -> bool {
        E::has_data(path)
    }

    fn ledger(&self) -> Result<Option<Bytes>, EngineError> {
        self.engine.ledger()
    }

    fn apply(&self, changes: &Changes) -> Result<(), EngineError> {
        self.engine.apply(changes)
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.engine.sync()
    }

    fn publish(&self) {
        self.engine.publish();
    }

    fn view(&self) -> Self::View {
        CountingView {
            view: self.engine.view(),
            reads: Arc::clone(&self.reads),
        }
    }

    fn snapshot(&self, bytes_max: usize) -> Self::Snapshot {
        self.engine.snapshot(bytes_max)
    }

    fn disk_bytes(&self) -> u64 {
        self.engine.disk_bytes()
    }
}

/// A store of entries with values of one size, whose reads from the engine are counted.
struct CountedStore<E: Engine> {
    store: EngineStore<CountingEngine<E>>,
    keys: Vec<Key>,
    reads: Arc<AtomicU64>,
    _directory: TempDir,
}

impl<E: Engine> CountedStore<E> {
    async fn write(entries: u64) -> Self {
        let directory = temp_directory();
        let settings = Settings::default();
        let reads = Arc::clone(&settings.reads);
        let options = StoreOptions::default().cache_bytes(CACHE_BYTES);
        let store = EngineStore::open(directory.path(), options.engine(settings));
        let store = Self {
            store: store.expect("the store opens"),
            keys: (0..entries).map(|i| key(&format!("n{i:06}"))).collect(),
            reads,
            _directory: directory,
        };
        store.put(1).await;
        store
    }

    /// Puts values of this byte in all entries.
    async fn put(&self, byte: u8) {
        let commit = self.keys.iter().fold(Commit::builder(), |commit, key| {
            commit.put(key.clone(), vec![byte; VALUE_BYTES as usize])
        });
        assert_committed(self.store.commit(commit.build().unwrap()).await);
    }

    /// Reads all entries, whose values have this byte, at once; returns the number of keys that were
    /// read from the engine.
    async fn read(&self, byte: u8) -> u64 {
        let before = self.reads.load(Ordering::Relaxed);
        for entry in self.store.get(&self.keys).await.unwrap() {
            assert_eq!(entry.unwrap().value, vec![byte; VALUE_BYTES as usize]);
        }
        self.reads.load(Ordering::Relaxed) - before
    }
}

/// Entries that were read before are not read from the engine.
pub async fn repeated_reads_need_no_engine<E: Engine>() {
    let store = CountedStore::<E>::write(100).await;
    assert_eq!(store.read(1).await, 100);
    assert_eq!(store.read(1).await, 0);
}

/// A commit replaces cached entries, so that it and later reads need no engine.
pub async fn replaced_entries_are_read_from_the_cache<E: Engine>() {
    let store = CountedStore::<E>::write(100).await;
    store.read(1).await;
    let before = store.reads.load(Ordering::Relaxed);
    store.put(2).await;
    assert_eq!(store.read(2).await, 0);
    assert_eq!(store.reads.load(Ordering::Relaxed), before);
}

/// The cache of entries takes its part of the caches, and no more.
pub async fn cached_entries_take_their_part_of_the_caches<E: Engine>() {
    let store = CountedStore::<E>::write(ENTRIES).await;
    assert_eq!(store.read(1).await, ENTRIES);
    let cached_bytes = VALUE_BYTES * (ENTRIES - store.read(1).await);
    let bytes_max = CACHE_BYTES / PART;
    assert!(
        (bytes_max / 2..=bytes_max).contains(&cached_bytes),
        "{cached_bytes} of {bytes_max}"
    );
}
