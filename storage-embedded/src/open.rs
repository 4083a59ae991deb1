//! Opens a store after comparing the recovered state with the last acknowledged commit.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::check::spawn_check;
use crate::commit_thread::Committer;
use crate::directory::Directory;
use crate::engine::Engine;
use crate::error::{EngineError, OpenError, catch_panic};
use crate::lock::DirectoryLock;
use crate::options::{EngineOptions, StoreOptions};
use crate::record::Ledger;
use crate::shared::Shared;
use crate::store::{EngineStore, Workers};

/// Maximum number of pending commits; more are rejected.
const COMMITS_WAITING_MAX: usize = 4_096;
/// Longest wait for a closed store of this process to release the engine's files.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);
/// Part of the cache that holds single entries; the rest is the engine's.
const ENTRY_CACHE_PART: u64 = 8;

impl<E: Engine> EngineStore<E> {
    /// Opens the store in a directory, or creates one if there is none.
    ///
    /// The time does not depend on the number of entries, except for the engine's own recovery.
    ///
    /// # Errors
    /// [`OpenError`] if the store cannot be opened.
    pub fn open(
        path: impl AsRef<Path>,
        options: StoreOptions<E::Settings>,
    ) -> Result<Self, OpenError> {
        Self::open_locked(DirectoryLock::acquire(path)?, options)
    }

    /// Opens the store in a locked directory, or creates one if it is empty.
    ///
    /// # Errors
    /// [`OpenError`] if the store cannot be opened.
    pub fn open_locked(
        lock: DirectoryLock,
        options: StoreOptions<E::Settings>,
    ) -> Result<Self, OpenError> {
        open(lock, options)
    }
}

fn open<E: Engine>(
    lock: DirectoryLock,
    options: StoreOptions<E::Settings>,
) -> Result<EngineStore<E>, OpenError> {
    let directory = Directory::open::<E>(lock)?;
    let path = directory.path().to_owned();
    let mut mark = directory.open_mark()?;
    if mark.version() > 0 && !E::has_data(&path) {
        return Err(OpenError::corrupt(&path, "the engine's files are missing"));
    }
    // The engine may write while it opens.
    directory.record_open()?;
    let entry_cache_bytes = options.cache_bytes / ENTRY_CACHE_PART;
    let engine_options = EngineOptions {
        cache_bytes: options.cache_bytes - entry_cache_bytes,
        settings: options.engine.clone(),
    };
    let engine = open_engine::<E>(&path, &engine_options)?;
    let ledger = catch_panic(|| read_ledger(&engine)).map_err(OpenError::engine(&path))?;
    require_acknowledged(ledger.last_version, mark.version(), &path)?;
    // Readers will see data that a killed process wrote but did not sync: make it durable first.
    catch_panic(|| {
        (options.sync_hook)()?;
        engine.sync()
    })
    .map_err(OpenError::engine(&path))?;
    directory.sync()?;
    mark.advance(ledger.last_version)
        .and_then(|()| mark.sync())
        .map_err(OpenError::io(&path))?;

    let shared = Shared::new(engine, entry_cache_bytes, options.write_time_max, ledger);
    let shared = Arc::new(shared);
    shared.meters.set_disk_bytes(shared.engine.disk_bytes());
    let (sender, requests) = sync_channel(COMMITS_WAITING_MAX);
    let committer = Committer {
        path: path.clone(),
        sync_hook: options.sync_hook,
        free_bytes_min: options.free_bytes_min,
        free_bytes: Arc::clone(&options.free_bytes),
        is_full: false,
        measured_at: None,
        is_measured: true,
        mark,
        ledger,
        shared: Arc::clone(&shared),
    };
    let thread = thread::Builder::new()
        .name("knowledge-commit".to_owned())
        .spawn(move || committer.run(&requests))
        .map_err(OpenError::io(&path))?;
    let check = if options.verifies_entries && !directory.was_closed_cleanly {
        Some(spawn_check(&shared).map_err(OpenError::io(&path))?)
    } else {
        None
    };
    Ok(EngineStore {
        workers: Some(Workers {
            requests: sender,
            thread,
            check,
            shared,
        }),
        path,
        free_bytes: options.free_bytes,
        directory: Some(directory),
    })
}

/// Checks that the last acknowledged commit was recovered.
fn require_acknowledged(recovered: u64, acknowledged: u64, path: &Path) -> Result<(), OpenError> {
    if recovered < acknowledged {
        let problem = format!(
            "commit {acknowledged} was acknowledged, but the last commit found is {recovered}"
        );
        return Err(OpenError::corrupt(path, problem));
    }
    Ok(())
}

fn open_engine<E: Engine>(
    path: &Path,
    options: &EngineOptions<E::Settings>,
) -> Result<E, OpenError> {
    let began = Instant::now();
    loop {
        match catch_panic(|| E::open(path, options)) {
            // This process holds the directory, so a closed store must still hold the engine's
            // files.
            Err(EngineError::Locked) if began.elapsed() <= RELEASE_TIME_MAX => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(EngineError::Locked) => {
                return Err(OpenError::InUse {
                    path: path.to_owned(),
                    holder: None,
                });
            }
            opened => return opened.map_err(OpenError::engine(path)),
        }
    }
}

fn read_ledger<E: Engine>(engine: &E) -> Result<Ledger, EngineError> {
    match engine.ledger()? {
        Some(stored) => Ledger::decode(&stored)
            .ok_or_else(|| EngineError::Corrupt("the ledger cannot be read".to_owned())),
        None => Ok(Ledger::default()),
    }
}
