//! Compaction: a new store with the same contents takes the place of the old one, because sled does not shrink its file.
//!
//! The old directory stays locked until it is gone, and is retired before it gets another name: a server that comes
//! meanwhile, by whatever name of the directory, is refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::dump::Summary;
use knowledge_core::store::{Direction, KeyRange, Store, StoreExt};
use knowledge_storage_embedded::{DirectoryLock, remove_directory};

use super::switch::{Places, SwitchError};
use super::{BackupError, compare, copy_store};
use crate::data::{DataConfig, DataError};

/// How many entries are read at once where their sizes are summed up.
const PAGE_ENTRIES: usize = 1_024;

/// What a compaction is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It compares the entries of the old store with its own account of them.
    Checking,
    /// It sums up what the store holds.
    Measuring,
    /// It writes the new store.
    Copying,
    /// It reads the new store again.
    Comparing,
}

/// What a compaction has just done: where a crash can come in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A part of the new store is written.
    HalfCopied,
    /// The new store is whole and on the disk.
    Copied,
    /// The old store has another name, the new one not its own yet.
    MovedAway,
    /// The new store has its name.
    MovedIn,
    /// The old store is removed.
    Removed,
}

/// What a compaction came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// How many entries the store has, and their checksum.
    pub summary: Summary,
    /// The size of the old store, in bytes.
    pub bytes_before: u64,
    /// The size of the new store, in bytes.
    pub bytes_after: u64,
    /// Where the old store is, if it was kept.
    pub kept: Option<PathBuf>,
}

/// Why a store is not compacted. The old one is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// The store cannot be opened, for example because a server has it.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The store cannot be read, or the new one not be written.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The directories cannot be exchanged.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The directory cannot be renamed.
    #[error("{} cannot be compacted: {reason}", path.display())]
    Fixed {
        /// The directory.
        path: PathBuf,
        /// What is in the way.
        reason: String,
    },
    /// There is not enough room for both stores.
    #[error("{free} bytes are free beside {}, about {needed} are needed while both stores are there", path.display())]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// What is free.
        free: u64,
        /// What is needed.
        needed: u64,
    },
    /// The one who watches the steps ended it there.
    #[error("ended at a step")]
    Ended,
}

/// Watches a compaction.
pub trait Watcher: Send {
    /// So many entries are dealt with, of about so many.
    fn progress(&mut self, phase: Phase, entries: u64, of: u64);

    /// A step is done. An error ends the compaction as a crash would: nothing is cleaned up.
    ///
    /// # Errors
    /// [`CompactionError::Ended`], for tests.
    fn step(&mut self, step: Step) -> Result<(), CompactionError> {
        let _ = step;
        Ok(())
    }
}

/// Compacts the store of a directory that nobody has open. With `keeps` the old one stays beside it, as `DIR.old`.
///
/// # Errors
/// [`CompactionError`], one by one. Whenever it ends early, also by a crash, the next one who opens the directory finds the
/// old store or the new one, whole.
pub async fn compact(
    config: &DataConfig,
    keeps: bool,
    watcher: &mut dyn Watcher,
) -> Result<Compacted, CompactionError> {
    // Settles what another one left, and finds out whether a server has the directory.
    let config = &config.resolved()?;
    let old = config.open_store()?;
    let places = Places::of(&config.path()?);
    refuse_fixed(config, &places, keeps)?;
    let mut journal = places.claim()?;
    let stats = old.stats();
    let (bytes_before, entries, free) = (old.disk_bytes(), stats.entries, stats.disk_free_bytes);
    // What is missing would be missing in the new store too, and nothing would tell any more.
    let checked = old.check(&mut |read, of| watcher.progress(Phase::Checking, read, of));
    checked.map_err(BackupError::from)?;
    let engine = config.engine()?;
    let contents: Arc<dyn Store> = old.clone();
    let (total, content_bytes) = measure(&contents, entries, watcher).await?;
    if let Some(free) = free {
        let needed = content_bytes * engine.bytes_per_content_byte() + config.free_bytes_min;
        if free < needed {
            let path = places.directory;
            return Err(CompactionError::NoRoom { path, free, needed });
        }
    }
    journal.copying()?;
    let copied = copy(config, &places, &contents, total, watcher).await;
    let (summary, bytes_after) = match copied {
        Err(CompactionError::Ended) => return Err(CompactionError::Ended),
        Err(error) => {
            // The next one who opens the directory would remove it too.
            if remove_directory(&places.new).is_ok() {
                let _ = journal.ended();
            }
            return Err(error);
        }
        Ok(copied) => copied,
    };
    watcher.step(Step::Copied)?;
    journal.switching(keeps)?;
    drop(contents);
    let mut lock = old.close().map_err(BackupError::from)?;
    let retired = lock.retire();
    retired.map_err(BackupError::io(&places.directory))?;
    places.move_away(keeps)?;
    lock.moved_to(places.away(keeps));
    watcher.step(Step::MovedAway)?;
    places.move_in()?;
    watcher.step(Step::MovedIn)?;
    let away = lock.path().to_owned();
    if !keeps {
        lock.remove_directory().map_err(BackupError::io(&away))?;
    }
    watcher.step(Step::Removed)?;
    journal.ended()?;
    Ok(Compacted {
        summary,
        bytes_before,
        bytes_after,
        kept: keeps.then(|| places.kept.clone()),
    })
}

/// Writes the new store, and reads it again. It is closed when this returns.
async fn copy(
    config: &DataConfig,
    places: &Places,
    old: &Arc<dyn Store>,
    total: u64,
    watcher: &mut dyn Watcher,
) -> Result<(Summary, u64), CompactionError> {
    let io = |error| BackupError::io(&places.new)(error);
    fs::create_dir(&places.new).map_err(io)?;
    let permissions = fs::metadata(&places.directory).map(|found| found.permissions());
    permissions
        .and_then(|permissions| fs::set_permissions(&places.new, permissions))
        .map_err(io)?;
    let open = || {
        config
            .engine()?
            .open(DirectoryLock::acquire(&places.new)?, config)
            .map_err(DataError::from)
    };
    let new = open()?;
    let store: Arc<dyn Store> = new.clone();
    let copied = copy_store(old, &store, None, |entries| {
        watcher.progress(Phase::Copying, entries, total);
        watcher.step(Step::HalfCopied)
    });
    let summary = copied.await?;
    let of = summary.entries;
    compare(&store, &summary, |entries| {
        watcher.progress(Phase::Comparing, entries, of);
    })
    .await?;
    drop(store);
    let bytes = new.disk_bytes();
    Ok((summary, bytes))
}

/// How many entries there are, and how many bytes their keys and values have.
async fn measure(
    store: &Arc<dyn Store>,
    about: u64,
    watcher: &mut dyn Watcher,
) -> Result<(u64, u64), BackupError> {
    let (mut rest, mut entries, mut bytes) = (KeyRange::all(), 0, 0);
    loop {
        let page = store.scan(&rest, PAGE_ENTRIES, Direction::Forward).await?;
        entries += page.len() as u64;
        let sizes = page
            .iter()
            .map(|found| found.key.as_bytes().len() + found.entry.value.len());
        bytes += sizes.sum::<usize>() as u64;
        watcher.progress(Phase::Measuring, entries, about);
        match page.last() {
            Some(last) if page.len() == PAGE_ENTRIES => rest = rest.after(&last.key),
            _ => return Ok((entries, bytes)),
        }
    }
}

/// A directory that cannot get another name, or whose new one would not be its owner's.
fn refuse_fixed(config: &DataConfig, places: &Places, keeps: bool) -> Result<(), CompactionError> {
    let path = &places.directory;
    let fixed = |reason: String| CompactionError::Fixed {
        path: path.clone(),
        reason,
    };
    let found = fs::metadata(path).map_err(BackupError::io(path))?;
    if let Some(name) = config
        .engine()?
        .foreign_file(path)
        .map_err(BackupError::io(path))?
    {
        return Err(fixed(format!(
            "{} in it is not the store's, and would be removed with the old one: move it elsewhere",
            name.display()
        )));
    }
    if let Some(place) = places.in_the_way(keeps)? {
        let place = place.display();
        return Err(fixed(format!(
            "{place} is there, and no compaction made it: give it another name, or remove it"
        )));
    }
    refuse_foreign(path, &found).map_err(fixed)
}

#[cfg(unix)]
fn refuse_foreign(path: &Path, found: &fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let parent = fs::metadata(parent).map_err(|error: io::Error| error.to_string())?;
    if parent.dev() != found.dev() {
        return Err("it is a mount point: keep the store in a directory below it".to_owned());
    }
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        return Err(format!(
            "it belongs to the user {}, and the new one would belong to {own}: run this as that user",
            found.uid()
        ));
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_foreign(_path: &Path, _found: &fs::Metadata) -> Result<(), String> {
    Ok(())
}
