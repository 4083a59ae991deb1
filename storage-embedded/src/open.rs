//! Opening: the recovered state is compared with the last acknowledged commit before anybody reads it.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::check::check_in_background;
use crate::commit_thread::Committer;
use crate::directory::Directory;
use crate::engine::Engine;
use crate::error::{EngineError, OpenError, guarded};
use crate::lock::DirectoryLock;
use crate::options::{EngineOptions, StoreOptions};
use crate::record::Ledger;
use crate::shared::Shared;
use crate::store::{EngineStore, Running};

/// The most commits that wait for the commit thread; more are refused.
const COMMITS_WAITING_MAX: usize = 4_096;
/// The longest wait for a store that was closed in this process to let go of the engine's files.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);

pub(crate) fn open<E: Engine>(
    lock: DirectoryLock,
    options: StoreOptions<E::Settings>,
) -> Result<EngineStore<E>, OpenError> {
    let directory = Directory::enter::<E>(lock, options.accepts_old_formats)?;
    let path = directory.path().to_owned();
    let mut mark = directory.open_mark()?;
    if mark.version() > 0 && !E::has_data(&path) {
        return Err(OpenError::corrupt(
            &path,
            "the files of its engine are missing",
        ));
    }
    // Before the engine, which may write while it opens.
    directory.begin()?;
    let engine = open_engine::<E>(&path, directory.format, &options)?;
    let ledger = guarded(|| read_ledger(&engine)).map_err(OpenError::engine(&path))?;
    if ledger.last_version < mark.version() {
        return Err(OpenError::corrupt(
            &path,
            format!(
                "commit {} was acknowledged, but nothing after commit {} was found",
                mark.version(),
                ledger.last_version
            ),
        ));
    }
    // Data that a killed process had written but not synced is read from now on: it must be on the disk before.
    guarded(|| {
        (options.sync_hook)()?;
        engine.sync()
    })
    .map_err(OpenError::engine(&path))?;
    directory.sync()?;
    mark.advance(ledger.last_version)
        .and_then(|()| mark.sync())
        .map_err(OpenError::io(&path))?;

    let shared = Arc::new(Shared::new(engine, options.write_time_max, ledger));
    shared.meters.set_disk_bytes(shared.engine.disk_bytes());
    let (sender, requests) = sync_channel(COMMITS_WAITING_MAX);
    let committer = Committer {
        path: path.clone(),
        sync_hook: options.sync_hook,
        free_bytes_min: options.free_bytes_min,
        free_bytes: Arc::clone(&options.free_bytes),
        is_full: false,
        measured_at: None,
        mark,
        ledger,
        shared: Arc::clone(&shared),
    };
    let thread = thread::Builder::new()
        .name("knowledge-commit".to_owned())
        .spawn(move || committer.run(&requests))
        .map_err(OpenError::io(&path))?;
    let check = match options.verifies_entries && !directory.was_closed {
        true => Some(check_in_background(&shared).map_err(OpenError::io(&path))?),
        false => None,
    };
    Ok(EngineStore {
        running: Some(Running {
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

fn open_engine<E: Engine>(
    path: &Path,
    format: u64,
    options: &StoreOptions<E::Settings>,
) -> Result<E, OpenError> {
    let options = EngineOptions {
        cache_bytes: options.cache_bytes,
        format,
        settings: options.engine.clone(),
    };
    let began = Instant::now();
    loop {
        match guarded(|| E::open(path, &options)) {
            // We hold the directory: if the engine's files are locked, then by the rest of a store that was closed.
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
            .ok_or_else(|| EngineError::Damaged("the ledger cannot be read".to_owned())),
        None => Ok(Ledger::default()),
    }
}
