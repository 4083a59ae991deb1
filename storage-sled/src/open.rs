//! Opening: what is recovered is compared with what was acknowledged, before anybody reads it.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::commit_thread::Committer;
use crate::directory::Directory;
use crate::error::{EngineError, OpenError, guarded};
use crate::options::{Mode, SledOptions};
use crate::record::{LEDGER_KEY, Ledger, decode, decode_key};
use crate::shared::Shared;
use crate::store::{Running, SledStore};

/// The most commits that wait for the commit thread; more are refused.
const COMMITS_WAITING_MAX: usize = 4_096;
/// How long a store that was closed in this process may take to let go of sled's file.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);

pub(crate) fn open(path: &Path, options: SledOptions) -> Result<SledStore, OpenError> {
    let directory = Directory::enter(path)?;
    let mut mark = directory.open_mark()?;
    let database_path = directory.database_path();
    if mark.version() > 0 && !database_path.exists() {
        return Err(OpenError::corrupt(path, "its file db is missing"));
    }
    let tree = open_engine(path, &options)?;
    let ledger = guarded(|| recover(&tree, &options)).map_err(damaged(path))?;
    if ledger.last_version < mark.version() {
        return Err(OpenError::corrupt(
            path,
            format!(
                "commit {} was acknowledged, but nothing after commit {} was found",
                mark.version(),
                ledger.last_version
            ),
        ));
    }
    // What a killed process had written but not synced is read from now on: it must be on the disk before.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&database_path)
        .map_err(OpenError::io(&database_path))?;
    make_durable(&tree, &file, &options).map_err(damaged(path))?;
    directory.sync()?;
    mark.advance(ledger.last_version)
        .and_then(|()| mark.sync())
        .map_err(OpenError::io(path))?;

    let shared = Arc::new(Shared::new(options.write_time_max, ledger));
    shared.meters.set_entries(ledger.entries);
    let (sender, requests) = sync_channel(COMMITS_WAITING_MAX);
    let committer = Committer {
        tree: tree.clone(),
        path: path.to_owned(),
        file: file.try_clone().map_err(OpenError::io(&database_path))?,
        sync: options.sync,
        free_bytes_min: options.free_bytes_min,
        free_bytes: Arc::clone(&options.free_bytes),
        is_full: false,
        mark,
        ledger,
        shared: Arc::clone(&shared),
    };
    let thread = thread::Builder::new()
        .name("knowledge-commit".to_owned())
        .spawn(move || committer.run(&requests))
        .map_err(OpenError::io(path))?;
    Ok(SledStore {
        shared,
        running: Some(Running {
            requests: sender,
            thread,
            tree,
        }),
        file,
        free_bytes: options.free_bytes,
        directory,
    })
}

/// For `map_err`: an error of sled's while the store opens.
fn damaged(path: &Path) -> impl FnOnce(EngineError) -> OpenError {
    move |error| match error {
        EngineError::Io(source) | EngineError::Sled(sled::Error::Io(source))
            if source.kind() != std::io::ErrorKind::UnexpectedEof =>
        {
            OpenError::io(path)(source)
        }
        error => OpenError::corrupt(path, error.to_string()),
    }
}

fn open_engine(path: &Path, options: &SledOptions) -> Result<sled::Tree, OpenError> {
    let config = sled::Config::new()
        .path(path)
        .cache_capacity(options.cache_capacity_bytes)
        .mode(match options.mode {
            Mode::HighThroughput => sled::Mode::HighThroughput,
            Mode::LowSpace => sled::Mode::LowSpace,
        })
        // The commit thread flushes; nothing happens behind its back.
        .flush_every_ms(None);
    let began = Instant::now();
    loop {
        match guarded(|| Ok(config.open()?)) {
            Ok(database) => return Ok((*database).clone()),
            // We hold the directory: if sled's file is locked, then by what is left of a store that was closed.
            Err(EngineError::Sled(sled::Error::Io(error)))
                if error.to_string().contains("could not acquire lock") =>
            {
                if began.elapsed() > RELEASE_TIME_MAX {
                    return Err(OpenError::InUse {
                        path: path.to_owned(),
                        holder: None,
                    });
                }
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(damaged(path)(error)),
        }
    }
}

/// Reads the ledger, and compares it with the entries.
fn recover(tree: &sled::Tree, options: &SledOptions) -> Result<Ledger, EngineError> {
    let ledger = match tree.get(LEDGER_KEY)? {
        Some(stored) => Ledger::decode(&stored)
            .ok_or_else(|| EngineError::Damaged("the ledger cannot be read".to_owned()))?,
        None => Ledger::default(),
    };
    if options.verifies_entries {
        let found = recount(tree, ledger.last_version)?;
        if found != ledger {
            return Err(EngineError::Damaged(format!(
                "{} entries should be there, {} are, or not as they were written",
                ledger.entries, found.entries
            )));
        }
    }
    Ok(ledger)
}

fn recount(tree: &sled::Tree, last_version: u64) -> Result<Ledger, EngineError> {
    let mut found = Ledger {
        last_version,
        ..Ledger::default()
    };
    for stored in tree.iter() {
        let (key, entry) = stored?;
        if key == LEDGER_KEY {
            continue;
        }
        let (key, entry) = (decode_key(&key)?, decode(&entry)?);
        if entry.version.get() > last_version {
            return Err(EngineError::Damaged(format!(
                "{key} is of a commit later than the last"
            )));
        }
        found.insert(&key, entry.version);
    }
    Ok(found)
}

fn make_durable(tree: &sled::Tree, file: &File, options: &SledOptions) -> Result<(), EngineError> {
    guarded(|| {
        tree.flush()?;
        (options.sync)(file)?;
        Ok(())
    })
}
