//! fjall as an engine.

use std::fs;
use std::io;
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

use crate::options::FjallSettings;
use crate::torn_tail::{self, Tail};
use crate::view::FjallView;

/// The directory of fjall's files, below that of the store.
const DIRECTORY: &str = "fjall";
/// The bytes that were last cut off the end of a journal, in the directory of the store.
const TORN: &str = "knowledge-store.torn";
/// The directory in which an empty database is made.
const DIRECTORY_IN_THE_MAKING: &str = "fjall.new";
/// The one keyspace, for entries and the ledger.
const KEYSPACE: &str = "entries";

/// The size of a sealed journal at which its tables in memory are written out, in bytes: the least that fjall takes,
/// because opening reads all journals. With the one that is written they reach this and [`MEMTABLE_BYTES_MAX`] together.
const JOURNAL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The size of a table in memory before it is written out, in bytes.
const MEMTABLE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The size of a table on the disk, in bytes. The first level has four, and all of them are rewritten when the tables
/// that were in memory are merged into it: a commit changes keys all over the store.
const TABLE_BYTES: u64 = 16 * 1024 * 1024;
/// The size of a block, in bytes before compression. Twice as much saves a tenth of the disk, and costs twice the
/// work for an entry that is not in the cache.
const BLOCK_BYTES: u32 = 8 * 1024;
/// Bits per key in the filters that tell which tables cannot hold a key.
const FILTER_BITS_PER_KEY: f32 = 10.0;
/// Threads that write tables out and merge them. The first only writes out, and turns in a loop while merges wait for
/// the others: with one other it did so during every merge, which took a third of all processor time under load.
const WORKER_THREADS: usize = 3;

/// Tables that are kept open: connections need files too.
const CACHED_FILES_MAX: usize = 64;

/// fjall as the engine of a [`FjallStore`](crate::FjallStore).
pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
    /// The state that readers see: that after the last synced group.
    published: RwLock<Arc<fjall::Snapshot>>,
}

/// The meaning of an error of fjall.
pub(crate) fn engine_error(error: fjall::Error) -> EngineError {
    match error {
        fjall::Error::Locked => EngineError::Locked,
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error))
            if !matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
            ) =>
        {
            EngineError::Io(error)
        }
        fjall::Error::Poisoned => {
            EngineError::Io(io::Error::other("fjall: an earlier write failed"))
        }
        error => EngineError::Damaged(format!("fjall: {error}")),
    }
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
        // Indexes and filters are read through the cache, so that memory does not grow with the store.
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
        // The other half is for the tables in memory, and for those that are merged.
        .cache_size(cache_bytes / 2)
        .max_journaling_size(JOURNAL_BYTES_MAX)
        // Otherwise recovery compresses every value again to compare checksums.
        .journal_compression(CompressionType::None)
        .worker_threads(WORKER_THREADS)
        .max_cached_files(Some(CACHED_FILES_MAX))
        .open()
}

impl Fjall {
    fn snapshot(&self) -> Arc<fjall::Snapshot> {
        // Replaced as a whole.
        Arc::clone(
            &self
                .published
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

/// Creates an empty database, whole or not at all: fjall itself does not open one whose creation was interrupted.
fn create(path: &Path, cache_bytes: u64) -> Result<(), EngineError> {
    let new = path.join(DIRECTORY_IN_THE_MAKING);
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
    const FORMAT_MIN: u64 = 1;

    type Settings = FjallSettings;
    type View = FjallView;
    type Kept = FjallView;

    fn open(path: &Path, options: &EngineOptions<FjallSettings>) -> Result<Self, EngineError> {
        let directory = path.join(DIRECTORY);
        if !directory.exists() {
            create(path, options.cache_bytes)?;
        }
        let database = match open_database(&directory, options.cache_bytes) {
            Err(error @ fjall::Error::JournalRecovery(_)) => {
                match torn_tail::cut(&directory, &path.join(TORN))? {
                    Tail::Cut { .. } => open_database(&directory, options.cache_bytes),
                    Tail::Sound => Err(error),
                    Tail::Damaged { at } => {
                        return Err(EngineError::Damaged(format!(
                            "fjall: a batch at byte {at} of the journal is damaged, and whole ones follow it"
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
        let stored = self.snapshot().get(&self.keyspace, LEDGER_KEY);
        Ok(stored.map_err(engine_error)?.map(Bytes::from))
    }

    fn apply(&self, changes: &Changes) -> Result<(), EngineError> {
        let mut batch = self.database.batch();
        let mut entries: Vec<_> = changes.entries.iter().collect();
        // Neighbours are at nearby places of the table in memory.
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
        FjallView::new(self.keyspace.clone(), self.snapshot())
    }

    fn keep(&self, _bytes_max: usize) -> FjallView {
        self.view()
    }

    fn disk_bytes(&self) -> u64 {
        self.database.disk_space().unwrap_or(0)
    }
}
