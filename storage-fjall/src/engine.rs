//! fjall as a storage engine.

use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _,
};
use knowledge_storage_embedded::record::{LEDGER_KEY, encode, entry_key};
use knowledge_storage_embedded::{Changes, Engine, EngineError, EngineOptions};

use crate::error::engine_error;
use crate::lengths;
use crate::options::FjallSettings;
use crate::torn_tail::{self, Tail};
use crate::view::FjallView;

/// Directory of fjall's files, in the directory of the store.
const DIRECTORY: &str = "fjall";
/// File with the bytes last truncated from a journal, in the directory of the store.
const TORN: &str = "knowledge-store.torn";
/// Directory in which an empty database is created.
const NEW_DIRECTORY: &str = "fjall.new";
/// The only keyspace, for entries and the ledger.
const KEYSPACE: &str = "entries";

/// Size of sealed journals at which their memtables are flushed, in bytes.
///
/// This is fjall's minimum, because opening reads all journals. With the active journal they reach
/// this and [`MEMTABLE_BYTES_MAX`] together.
const JOURNAL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Size of a memtable at which it is flushed, in bytes.
const MEMTABLE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Size of a table on disk, in bytes.
///
/// The first level has four tables. A flush rewrites all of them, because a commit changes keys
/// throughout the store.
const TABLE_BYTES: u64 = 16 * 1024 * 1024;
/// Size of a block before compression, in bytes.
///
/// Doubling it saves a tenth of the disk space, but doubles the work for an entry that is not
/// cached.
const BLOCK_BYTES: u32 = 8 * 1024;
/// Bits per key of the Bloom filters.
const FILTER_BITS_PER_KEY: f32 = 10.0;
/// Number of threads for flushes and compactions.
///
/// The first thread only flushes, and spins while compactions wait for the others. With one other
/// thread it did so during every compaction, which took a third of all processor time under load.
const WORKER_THREADS: usize = 3;

/// Maximum number of open table files; connections need file descriptors too.
const CACHED_FILES_MAX: usize = 64;

/// fjall as the engine of a [`FjallStore`](crate::FjallStore).
pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
    /// State that readers see, after the last synced group.
    published: RwLock<Arc<fjall::Snapshot>>,
}

fn keyspace_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES_MAX)
        .compaction_strategy(Arc::new(
            Leveled::default().with_table_target_size(TABLE_BYTES),
        ))
        .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .index_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        // Read indexes and filters through the cache, so that memory does not grow with the store.
        .index_block_pinning_policy(PinningPolicy::all(false))
        .filter_block_pinning_policy(PinningPolicy::all(false))
        .index_block_partitioning_policy(PartitioningPolicy::all(true))
        .filter_block_partitioning_policy(PartitioningPolicy::all(true))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(
            BloomConstructionPolicy::BitsPerKey(FILTER_BITS_PER_KEY),
        )))
}

fn open_database(directory: &Path, cache_bytes: u64) -> fjall::Result<Database> {
    Database::builder(directory)
        // The other half is for memtables and compactions.
        .cache_size(cache_bytes / 2)
        .max_journaling_size(JOURNAL_BYTES_MAX)
        // With compression, recovery would compress every value again to compare checksums.
        .journal_compression(CompressionType::None)
        .worker_threads(WORKER_THREADS)
        .max_cached_files(Some(CACHED_FILES_MAX))
        .open()
}

impl Fjall {
    fn published(&self) -> Arc<fjall::Snapshot> {
        // Snapshots are replaced as a whole.
        Arc::clone(
            &self
                .published
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

/// Creates an empty database atomically: fjall cannot open one whose creation was interrupted.
fn create(path: &Path, cache_bytes: u64) -> Result<(), EngineError> {
    let new = path.join(NEW_DIRECTORY);
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    let database = open_database(&new, cache_bytes).map_err(engine_error)?;
    let keyspace = database.keyspace(KEYSPACE, keyspace_options);
    drop(keyspace.map_err(engine_error)?);
    database
        .persist(PersistMode::SyncAll)
        .map_err(engine_error)?;
    drop(database);
    fs::rename(&new, path.join(DIRECTORY))?;
    #[cfg(unix)]
    fs::File::open(path)?.sync_all()?;
    Ok(())
}

impl Engine for Fjall {
    const NAME: &'static str = "fjall";
    const FORMAT: u64 = 1;

    type Settings = FjallSettings;
    type View = FjallView;
    type Snapshot = FjallView;

    fn open(path: &Path, options: &EngineOptions<FjallSettings>) -> Result<Self, EngineError> {
        let directory = path.join(DIRECTORY);
        if !directory.exists() {
            create(path, options.cache_bytes)?;
        }
        lengths::check(&directory)?;
        let database = match open_database(&directory, options.cache_bytes) {
            Err(error @ fjall::Error::JournalRecovery(_)) => {
                match torn_tail::truncate(&directory, &path.join(TORN))? {
                    Tail::Truncated { .. } => open_database(&directory, options.cache_bytes),
                    Tail::Intact => Err(error),
                    Tail::Corrupt { at } => {
                        return Err(EngineError::Corrupt(format!(
                            "fjall: the batch at byte {at} of the journal is corrupt, but valid \
                             batches follow it"
                        )));
                    }
                }
            }
            opened => opened,
        };
        let database = database.map_err(engine_error)?;
        let keyspace = database
            .keyspace(KEYSPACE, keyspace_options)
            .map_err(engine_error)?;
        let published = RwLock::new(Arc::new(database.snapshot()));
        Ok(Self {
            database,
            keyspace,
            published,
        })
    }

    fn has_data(path: &Path) -> bool {
        path.join(DIRECTORY).is_dir()
    }

    fn ledger(&self) -> Result<Option<Bytes>, EngineError> {
        let stored = self.published().get(&self.keyspace, LEDGER_KEY);
        Ok(stored.map_err(engine_error)?.map(Bytes::from))
    }

    fn apply(&self, changes: &Changes) -> Result<(), EngineError> {
        let mut batch = self.database.batch();
        let mut entries: Vec<_> = changes.entries.iter().collect();
        // Sorted keys have nearby positions in the memtable.
        entries.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        for change in entries {
            let key = entry_key(&change.key);
            match &change.after {
                Some(entry) => batch.insert(&self.keyspace, key, encode(entry)),
                None => batch.remove(&self.keyspace, key),
            }
        }
        batch.insert(&self.keyspace, LEDGER_KEY, &*changes.ledger);
        batch.commit().map_err(engine_error)
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.database
            .persist(PersistMode::SyncData)
            .map_err(engine_error)
    }

    fn publish(&self) {
        let snapshot = Arc::new(self.database.snapshot());
        *self
            .published
            .write()
            .unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    fn view(&self) -> FjallView {
        FjallView::new(self.keyspace.clone(), self.published())
    }

    fn snapshot(&self, _bytes_max: usize) -> FjallView {
        self.view()
    }

    fn disk_bytes(&self) -> u64 {
        self.database.disk_space().unwrap_or(0)
    }
}
