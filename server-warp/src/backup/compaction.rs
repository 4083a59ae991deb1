//! Compaction: replaces a store by a new one with the same contents.
//!
//! sled never shrinks its file. The old directory stays locked until it is removed, and is marked
//! as retired before it is renamed: a server that opens it in the meantime is refused, whichever of
//! the names it uses.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::dump::Summary;
use knowledge_core::store::{Direction, KeyRange, Store, StoreExt};
use knowledge_storage_embedded::{DirectoryLock, remove_directory};

use super::mount_points::is_mount_point;
use super::switch::{SwapPaths, SwitchError};
use super::{BackupError, CopyPhase, copy_store};
use crate::data::{DataConfig, DataError, open_store};

/// Entries per read while sizes are summed.
const PAGE_ENTRIES: usize = 1_024;

/// Phase of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Compares the entries of the old store with its ledger.
    Checking,
    /// Sums the sizes of the entries.
    Measuring,
    /// Writes the new store.
    Copying,
    /// Reads the new store back.
    Comparing,
}

/// Completed step of a compaction, after which a crash may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Part of the new store is written.
    HalfCopied,
    /// The new store is complete and on the disk.
    Copied,
    /// The old store is renamed, the new one not yet.
    OldRenamed,
    /// The new store has the directory's name.
    NewRenamed,
    /// The old store is removed.
    Removed,
}

/// Result of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionReport {
    /// Number of entries and their checksum.
    pub summary: Summary,
    /// Space that the old store took on the disk, in bytes.
    pub bytes_before: u64,
    /// Space that the new store takes on the disk, in bytes.
    pub bytes_after: u64,
    /// Location of the old store if it was kept.
    pub kept: Option<PathBuf>,
}

/// Reason for a failed compaction; the old store is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// The store cannot be opened, for example because a server uses it.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The store cannot be read, or the new one cannot be written.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The directories cannot be swapped.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The directory cannot be replaced.
    #[error("{} cannot be compacted: {reason}", path.display())]
    NotReplaceable {
        /// The directory.
        path: PathBuf,
        /// The obstacle.
        reason: String,
    },
    /// The disk has no space for both stores.
    #[error(
        "not enough disk space to compact {}: {free} bytes are free, about {needed} are needed \
         while both stores exist", path.display()
    )]
    InsufficientSpace {
        /// The directory.
        path: PathBuf,
        /// Free bytes.
        free: u64,
        /// Required bytes.
        needed: u64,
    },
    /// The watcher stopped the compaction after a step.
    #[error("stopped after a step")]
    Stopped,
}

/// Observer of a compaction.
pub trait Watcher: Send {
    /// Reports the entries processed so far, of approximately `of`.
    fn progress(&mut self, phase: Phase, entries: u64, of: u64);

    /// Reports a completed step. An error stops the compaction as a crash would: without cleanup.
    ///
    /// # Errors
    /// [`CompactionError::Stopped`], in tests.
    fn step(&mut self, step: Step) -> Result<(), CompactionError> {
        let _ = step;
        Ok(())
    }
}

/// Compacts the store of a directory that no process has open.
///
/// With `keeps` the old store is kept as `DIR.old`. If the compaction fails or the process crashes,
/// the next process that opens the directory finds either the old or the new store, complete.
///
/// # Errors
/// [`CompactionError`].
pub async fn compact(
    config: &DataConfig,
    keeps: bool,
    watcher: &mut dyn Watcher,
) -> Result<CompactionReport, CompactionError> {
    let config = &config.resolved()?;
    let paths = SwapPaths::of(&config.path()?);
    paths.recover()?;
    // Both stores are measured while they are closed: sled allocates space on opening.
    let bytes_before = allocated_bytes(&paths.directory).unwrap_or(0);
    // Fails if the directory is missing or a server uses it.
    let old = config.open_store()?;
    reject_irreplaceable(config, &paths, keeps)?;
    let mut journal = paths.claim()?;
    let stats = old.stats();
    let (entries, free) = (stats.entries, stats.disk_free_bytes);
    // Entries lost here would be missing from the new store too, where nothing could detect it.
    let checked = old.check(&mut |read, of| watcher.progress(Phase::Checking, read, of));
    checked.map_err(BackupError::from)?;
    let engine = config.engine()?;
    let contents: Arc<dyn Store> = old.clone();
    let (total, content_bytes) = measure(&contents, entries, watcher).await?;
    if let Some(free) = free {
        let needed = content_bytes * engine.bytes_per_content_byte() + config.free_bytes_min;
        if free < needed {
            let path = paths.directory;
            return Err(CompactionError::InsufficientSpace { path, free, needed });
        }
    }
    journal.copying()?;
    let copied = copy(config, &paths, &contents, total, watcher).await;
    let summary = match copied {
        Err(CompactionError::Stopped) => return Err(CompactionError::Stopped),
        Err(error) => {
            // Otherwise the next process that opens the directory removes it.
            if remove_directory(&paths.new).is_ok() {
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
    retired.map_err(BackupError::io(&paths.directory))?;
    let bytes_after = allocated_bytes(&paths.new)?;
    paths.rename_old(keeps, &mut journal)?;
    lock.set_path(paths.old_path(keeps));
    watcher.step(Step::OldRenamed)?;
    paths.rename_new()?;
    watcher.step(Step::NewRenamed)?;
    let old_path = lock.path().to_owned();
    if !keeps {
        lock.remove_directory()
            .map_err(BackupError::io(&old_path))?;
    }
    watcher.step(Step::Removed)?;
    journal.ended()?;
    Ok(CompactionReport {
        summary,
        bytes_before,
        bytes_after,
        kept: keeps.then(|| paths.kept.clone()),
    })
}

/// Writes the new store and reads it back. The store is closed on return.
async fn copy(
    config: &DataConfig,
    paths: &SwapPaths,
    old: &Arc<dyn Store>,
    total: u64,
    watcher: &mut dyn Watcher,
) -> Result<Summary, CompactionError> {
    let io = |error| BackupError::io(&paths.new)(error);
    fs::create_dir(&paths.new).map_err(io)?;
    let permissions = fs::metadata(&paths.directory).map(|found| found.permissions());
    permissions
        .and_then(|permissions| fs::set_permissions(&paths.new, permissions))
        .map_err(io)?;
    let open = || {
        let lock = DirectoryLock::acquire(&paths.new)?;
        open_store(config.engine()?, lock, config).map_err(DataError::from)
    };
    let new = open()?;
    let store: Arc<dyn Store> = new.clone();
    let copied = copy_store(old, &store, None, |phase, entries| match phase {
        CopyPhase::Writing => {
            watcher.progress(Phase::Copying, entries, total);
            watcher.step(Step::HalfCopied)
        }
        CopyPhase::Comparing => {
            watcher.progress(Phase::Comparing, entries, total);
            Ok(())
        }
    });
    copied.await
}

/// Returns the space that the files of a directory take on the disk.
fn allocated_bytes(directory: &Path) -> Result<u64, BackupError> {
    let entries = fs::read_dir(directory).map_err(BackupError::io(directory))?;
    let mut bytes = 0;
    for entry in entries {
        let path = entry.map_err(BackupError::io(directory))?.path();
        bytes += if path.is_dir() {
            allocated_bytes(&path)?
        } else {
            file_bytes(&path).map_err(BackupError::io(&path))?
        };
    }
    Ok(bytes)
}

/// Returns the space that a file takes, which may be sparse. Some space is allocated by the sync.
fn file_bytes(path: &Path) -> io::Result<u64> {
    let file = fs::File::open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;

        file.sync_all()?;
        Ok(file.metadata()?.blocks() * 512)
    }
    #[cfg(not(unix))]
    Ok(file.metadata()?.len())
}

/// Returns the number of entries and the total size of their keys and values.
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

/// Rejects directories that cannot be renamed.
fn reject_irreplaceable(
    config: &DataConfig,
    paths: &SwapPaths,
    keeps: bool,
) -> Result<(), CompactionError> {
    let path = &paths.directory;
    let obstacle = |reason: String| CompactionError::NotReplaceable {
        path: path.clone(),
        reason,
    };
    if let Some(name) = config
        .engine()?
        .foreign_file(path)
        .map_err(BackupError::io(path))?
    {
        return Err(obstacle(format!(
            "it contains {}, which does not belong to the store and would be removed with it; move \
             the file elsewhere",
            name.display()
        )));
    }
    if let Some(place) = paths.occupied_path(keeps)? {
        return Err(obstacle(if keeps && place == paths.kept {
            format!(
                "{0} exists, perhaps the store that an earlier `knowledge compact --keep` kept; \
                 rename or remove {0}",
                place.display()
            )
        } else {
            format!(
                "{} exists and was not created by a compaction; rename or remove it",
                place.display()
            )
        }));
    }
    if is_mount_point(path).map_err(BackupError::io(path))? {
        let reason = "it is a mount point; keep the store in a directory below it";
        return Err(obstacle(reason.to_owned()));
    }
    Ok(())
}
