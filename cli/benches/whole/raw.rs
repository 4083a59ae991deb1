//! The storage engines themselves, without the store, the transactions and the service.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use knowledge_storage_embedded::CACHE_BYTES_DEFAULT;
use tokio::sync::oneshot;

use crate::spec::{Engine, Write};

/// Size of a segment of sled's log, as in the store.
const SLED_SEGMENT_BYTES: usize = 16 * 1024 * 1024;
/// Sizes of fjall's journals and memtables, as in the store.
const FJALL_JOURNAL_BYTES: u64 = 64 * 1024 * 1024;
const FJALL_MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum number of commits that share a sync, as in the store.
const GROUP_COMMITS_MAX: usize = 1_024;

/// An open engine, with the settings of the store.
pub(crate) struct Raw {
    engine: Open,
    /// Number of the next commit, which begins every value, so that no value is written twice.
    version: AtomicU64,
}

enum Open {
    Sled { tree: sled::Tree, file: File },
    Fjall(Database, Keyspace),
}

impl Raw {
    /// Opens the files of a store that is closed.
    pub(crate) fn open(engine: Engine, directory: &Path) -> Self {
        let engine = match engine {
            Engine::Sled => {
                let config = sled::Config::new()
                    .path(directory)
                    .cache_capacity(CACHE_BYTES_DEFAULT)
                    .mode(sled::Mode::HighThroughput)
                    .flush_every_ms(None)
                    .segment_size(SLED_SEGMENT_BYTES);
                let database = config.open().expect("sled opens");
                let mut file = OpenOptions::new();
                let file = file.read(true).write(true).open(directory.join("db"));
                Open::Sled {
                    tree: (*database).clone(),
                    file: file.expect("sled's file"),
                }
            }
            Engine::Fjall => {
                let builder = Database::builder(directory.join("fjall"))
                    .cache_size(CACHE_BYTES_DEFAULT / 2)
                    .max_journaling_size(FJALL_JOURNAL_BYTES)
                    .journal_compression(fjall::CompressionType::None)
                    .worker_threads(3);
                let database = builder.open().expect("fjall opens");
                let options =
                    || KeyspaceCreateOptions::default().max_memtable_size(FJALL_MEMTABLE_BYTES);
                let keyspace = database.keyspace("entries", options);
                Open::Fjall(database, keyspace.expect("fjall's keyspace"))
            }
        };
        Self {
            engine,
            version: AtomicU64::new(1 << 40),
        }
    }

    /// Reads keys, and returns the bytes of their values.
    pub(crate) fn read(&self, keys: &[Vec<u8>]) -> usize {
        let get = |key: &Vec<u8>| match &self.engine {
            Open::Sled { tree, .. } => {
                let found = tree.get(key).expect("sled reads");
                found.map_or(0, |value| value.len())
            }
            Open::Fjall(_, keyspace) => {
                let found = keyspace.get(key).expect("fjall reads");
                found.map_or(0, |value| value.len())
            }
        };
        keys.iter().map(get).sum()
    }

    /// Writes one batch, which is durable after the next [`Raw::sync`].
    pub(crate) fn apply<'w>(&self, writes: impl Iterator<Item = &'w Write>) {
        let version = self.version.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        match &self.engine {
            Open::Sled { tree, .. } => {
                let mut batch = sled::Batch::default();
                for write in writes {
                    match write.stored(version) {
                        Some(value) => batch.insert(&*write.key.0, value),
                        None => batch.remove(&*write.key.0),
                    }
                }
                tree.apply_batch(batch).expect("sled writes");
            }
            Open::Fjall(database, keyspace) => {
                let mut batch = database.batch();
                for write in writes {
                    match write.stored(version) {
                        Some(value) => batch.insert(keyspace, &*write.key.0, value),
                        None => batch.remove(keyspace, &*write.key.0),
                    }
                }
                batch.commit().expect("fjall writes");
            }
        }
    }

    /// Makes everything that was applied durable on the device.
    pub(crate) fn sync(&self) {
        match &self.engine {
            Open::Sled { tree, file } => {
                tree.flush().expect("sled flushes");
                // The flush of sled does not sync the device.
                file.sync_data().expect("the file is synced");
            }
            Open::Fjall(database, _) => {
                let synced = database.persist(PersistMode::SyncData);
                synced.expect("fjall syncs");
            }
        }
    }
}

/// A commit of a task, which is notified once it is durable.
struct Pending {
    commit: usize,
    done: oneshot::Sender<()>,
}

/// Commits of many tasks through one thread, which syncs those that are ready together once.
pub(crate) async fn commit_by_tasks(
    raw: &Arc<Raw>,
    commits: &Arc<Vec<Vec<Write>>>,
    tasks: usize,
    count: usize,
) {
    let (sender, receiver) = channel();
    let thread = {
        let (raw, commits) = (Arc::clone(raw), Arc::clone(commits));
        std::thread::spawn(move || run_groups(&raw, &commits, &receiver))
    };
    let left = Arc::new(Mutex::new(0..count));
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let (sender, left) = (sender.clone(), Arc::clone(&left));
            tokio::spawn(async move {
                let next = || left.lock().expect("no panic while it is held").next();
                while let Some(commit) = next() {
                    let (done, is_done) = oneshot::channel();
                    sender
                        .send(Pending { commit, done })
                        .expect("the thread runs");
                    is_done.await.expect("the commit is durable");
                }
            })
        })
        .collect();
    drop(sender);
    for task in running {
        task.await.expect("the task ends");
    }
    thread.join().expect("the thread ends");
}

fn run_groups(raw: &Raw, commits: &[Vec<Write>], receiver: &Receiver<Pending>) {
    while let Ok(first) = receiver.recv() {
        let mut group = vec![first];
        group.extend(receiver.try_iter().take(GROUP_COMMITS_MAX - 1));
        let writes = group
            .iter()
            .flat_map(|pending| &commits[pending.commit % commits.len()]);
        raw.apply(writes);
        raw.sync();
        for pending in group {
            pending.done.send(()).expect("the task waits");
        }
    }
}
