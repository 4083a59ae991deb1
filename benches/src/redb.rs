//! redb behind the same store as the engines of this project, for comparison only.
//!
//! It uses the same group commit, records and checks.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use knowledge_core::store::{Direction, Entry, Key, KeyEntry, KeyRange};
use knowledge_storage_embedded::record::{
    LEDGER_KEY, decode, decode_key, encode, entry_key, entry_range, write_entry_key,
};
use knowledge_storage_embedded::{
    Changes, Engine, EngineError, EngineOptions, EngineStore, StoreOptions, View,
};
use redb::{
    Database, DatabaseError, Durability, ReadOnlyTable, ReadableDatabase as _, TableDefinition,
};

/// A store over redb.
pub type RedbStore = EngineStore<Redb>;
/// Options of a [`RedbStore`].
pub type RedbOptions = StoreOptions<()>;

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// Name of redb's only file, in the directory of the store.
const FILE: &str = "redb";
/// The only table, for entries and the ledger.
const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

/// redb as the engine of a [`RedbStore`].
pub struct Redb {
    database: Database,
    /// State that readers see.
    published: RwLock<Arc<Table>>,
}

/// Converts an error of redb.
fn engine_error(error: impl Into<redb::Error>) -> EngineError {
    match error.into() {
        redb::Error::Io(error) => EngineError::Io(error),
        redb::Error::DatabaseAlreadyOpen => EngineError::Locked,
        error => EngineError::Corrupt(format!("redb: {error}")),
    }
}

/// Opens the table as of the last commit.
fn open_table(database: &Database) -> Result<Arc<Table>, EngineError> {
    let transaction = database.begin_read().map_err(engine_error)?;
    let table = transaction.open_table(TABLE).map_err(engine_error)?;
    Ok(Arc::new(table))
}

/// Commits a change of the table. Durable on return: redb syncs each transaction.
fn write(
    database: &Database,
    change: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>) -> Result<(), redb::StorageError>,
) -> Result<(), EngineError> {
    let mut transaction = database.begin_write().map_err(engine_error)?;
    transaction
        .set_durability(Durability::Immediate)
        .map_err(engine_error)?;
    // Without quick repair, the whole file is read when it opens after a crash.
    transaction.set_quick_repair(true);
    {
        let mut table = transaction.open_table(TABLE).map_err(engine_error)?;
        change(&mut table).map_err(engine_error)?;
    }
    transaction.commit().map_err(engine_error)
}

impl Engine for Redb {
    const NAME: &'static str = "redb";
    const FORMAT: u64 = 1;

    type Settings = ();
    type View = RedbView;
    type Snapshot = RedbView;

    fn open(path: &Path, options: &EngineOptions<()>) -> Result<Self, EngineError> {
        let cache_bytes = usize::try_from(options.cache_bytes).unwrap_or(usize::MAX);
        let database = Database::builder()
            .set_cache_size(cache_bytes)
            .create(path.join(FILE))
            .map_err(|error: DatabaseError| engine_error(error))?;
        write(&database, |_| Ok(()))?;
        let published = RwLock::new(open_table(&database)?);
        Ok(Self {
            database,
            published,
        })
    }

    fn has_data(path: &Path) -> bool {
        path.join(FILE).exists()
    }

    fn ledger(&self) -> Result<Option<Bytes>, EngineError> {
        let stored = self.view().table.get(LEDGER_KEY).map_err(engine_error)?;
        Ok(stored.map(|stored| Bytes::copy_from_slice(stored.value())))
    }

    fn apply(&self, changes: &Changes) -> Result<(), EngineError> {
        let mut entries: Vec<_> = changes
            .entries
            .iter()
            .map(|change| (entry_key(&change.key), change.after.as_ref().map(encode)))
            .collect();
        // Sorted keys share pages.
        entries.sort_unstable();
        write(&self.database, |table| {
            for (key, value) in &entries {
                match value {
                    Some(value) => table.insert(&**key, &**value)?,
                    None => table.remove(&**key)?,
                };
            }
            table.insert(LEDGER_KEY, &*changes.ledger)?;
            Ok(())
        })
    }

    fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn publish(&self) {
        let table =
            open_table(&self.database).expect("a table that was just written can be opened");
        *self
            .published
            .write()
            .unwrap_or_else(PoisonError::into_inner) = table;
    }

    fn view(&self) -> RedbView {
        let published = self
            .published
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        RedbView {
            table: Arc::clone(&published),
        }
    }

    fn snapshot(&self, _bytes_max: usize) -> RedbView {
        self.view()
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}

/// State of the store at one point in time.
pub struct RedbView {
    table: Arc<Table>,
}

impl fmt::Debug for RedbView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbView").finish_non_exhaustive()
    }
}

type Guard<'s> = redb::AccessGuard<'s, &'static [u8]>;
/// Item of a range of redb.
type RangeItem<'s> = Result<(Guard<'s>, Guard<'s>), redb::StorageError>;

impl View for RedbView {
    fn get(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, EngineError> {
        let mut buffer = Vec::new();
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            write_entry_key(&mut buffer, key);
            let stored = self.table.get(&*buffer).map_err(engine_error)?;
            let entry = stored.map(|stored| decode(Bytes::copy_from_slice(stored.value())));
            found.push(entry.transpose()?);
        }
        Ok(found)
    }

    fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, EngineError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let entry = |stored: RangeItem<'_>| {
            let (key, entry) = stored.map_err(engine_error)?;
            Ok(KeyEntry {
                key: decode_key(key.value())?,
                entry: decode(Bytes::copy_from_slice(entry.value()))?,
            })
        };
        let bounds = entry_range(range);
        let found = self.table.range(&*bounds.start..&*bounds.end);
        let found = found.map_err(engine_error)?;
        match direction {
            Direction::Forward => found.take(limit).map(entry).collect(),
            Direction::Reverse => found.rev().take(limit).map(entry).collect(),
        }
    }
}
