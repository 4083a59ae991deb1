//! The crash-safe swap of one store directory for another.
//!
//! | journal | `DIR` | `DIR.compacting` | `DIR.before-compaction` | action at the next start |
//! | --- | --- | --- | --- | --- |
//! | `copying` | the old store | missing, partial or complete | | removes `DIR.compacting` |
//! | `switching` | the old store | the new store, complete | missing | removes `DIR.compacting` |
//! | `switching` | missing or empty | the new store, complete | the old store | renames the new store to `DIR`, removes the old one |
//! | `switching` | the new store | missing | the old store, perhaps partial | removes the old store |
//! | empty | a store | | | none |
//!
//! Any other state is an error that the operator has to resolve. The new store is complete, on the
//! disk and compared with the old one before the first rename. With `--keep` the old store becomes
//! `DIR.old` instead, which is never removed.
//!
//! The journal is a file beside the directory, locked during a compaction. It records what an
//! interrupted compaction created; nothing else is ever removed. The file itself stays, so that no
//! process locks one that another is about to remove.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use knowledge_storage_embedded::{is_retired, reinstate_directory, remove_directory, store_kind};

use crate::private_file::{sync_parent, with_suffix};

/// Reason for a directory that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// Another process is compacting the store.
    #[error("{} is being compacted; wait until the compaction has finished", path.display())]
    InProgress {
        /// The directory.
        path: PathBuf,
    },
    /// A compaction was interrupted, and its directories have changed since.
    #[error(
        "a compaction of {} was interrupted, and its directories have changed since; inspect it, \
         {} and {}, and leave the intact store as {}",
        path.display(), new.display(), old.display(), path.display()
    )]
    Inconsistent {
        /// The directory.
        path: PathBuf,
        /// Directory of the new store.
        new: PathBuf,
        /// Directory of the old store after its rename.
        old: PathBuf,
    },
    /// The operating system reported an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> SwitchError {
    move |source| SwitchError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Limit of the wait for a process to remove the empty directory that it created.
const RENAME_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two attempts to rename.
const RENAME_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Journal entry before the new store is created.
const COPYING: &str = "copying\n";
/// Second entry, once the new store is complete.
const SWITCHING: &str = "switching\n";
/// Second entry if the old store is kept.
const SWITCHING_KEPT: &str = "switching, the old store is kept\n";

/// Progress of an interrupted compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Copying,
    Switching { keeps: bool },
}

/// Paths of a swap: the directory and its siblings.
#[derive(Clone, Debug)]
pub struct SwapPaths {
    pub(super) directory: PathBuf,
    /// Directory in which the new store is created.
    pub(super) new: PathBuf,
    /// Name of the old store until it is removed.
    pub(super) old: PathBuf,
    /// Name of the old store if it is kept.
    pub(super) kept: PathBuf,
    journal: PathBuf,
}

/// The locked journal: only one process swaps a directory or recovers from a swap.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    fn lock(paths: &SwapPaths) -> Result<Self, SwitchError> {
        let path = paths.journal.clone();
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, file }),
            Err(TryLockError::WouldBlock) => Err(SwitchError::InProgress {
                path: paths.directory.clone(),
            }),
            Err(TryLockError::Error(error)) => Err(at(&path)(error)),
        }
    }

    /// Records that `DIR.compacting`, which did not exist, belongs to the compaction.
    pub(super) fn copying(&mut self) -> Result<(), SwitchError> {
        self.note(COPYING)?;
        sync_parent(&self.path).map_err(|error| at(&self.path)(io::Error::other(error)))
    }

    /// Records that the new store is complete and the old one may be renamed.
    pub(super) fn switching(&mut self, keeps: bool) -> Result<(), SwitchError> {
        self.note(if keeps { SWITCHING_KEPT } else { SWITCHING })
    }

    /// Records that the compaction owns nothing any longer.
    pub(super) fn ended(&mut self) -> Result<(), SwitchError> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.sync_all());
        emptied.map_err(at(&self.path))
    }

    /// Returns the progress of an interrupted compaction, if there was one.
    fn progress(&mut self) -> Result<Option<Progress>, SwitchError> {
        let mut noted = String::new();
        let read = self.file.rewind();
        let read = read.and_then(|()| self.file.read_to_string(&mut noted));
        read.map_err(at(&self.path))?;
        // A line that a crash truncated was not acted upon.
        Ok(noted.strip_prefix(COPYING).map(|behind| match behind {
            SWITCHING => Progress::Switching { keeps: false },
            SWITCHING_KEPT => Progress::Switching { keeps: true },
            _ => Progress::Copying,
        }))
    }

    /// Appends a line, so that a crash leaves the earlier ones intact.
    fn note(&mut self, line: &str) -> Result<(), SwitchError> {
        let noted = self.file.write_all(line.as_bytes());
        let noted = noted.and_then(|()| self.file.sync_all());
        noted.map_err(at(&self.path))
    }
}

impl SwapPaths {
    /// Returns the paths for a directory.
    #[must_use]
    pub fn of(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            new: with_suffix(directory, ".compacting"),
            old: with_suffix(directory, ".before-compaction"),
            kept: with_suffix(directory, ".old"),
            journal: with_suffix(directory, ".compaction.lock"),
        }
    }

    /// Returns the paths that a recovery may rename, remove or write.
    #[must_use]
    pub fn all(&self) -> [&Path; 5] {
        let Self {
            directory,
            new,
            old,
            kept,
            journal,
        } = self;
        [directory, new, old, kept, journal]
    }

    /// Completes or undoes an interrupted swap. Called before the directory is opened.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn recover(&self) -> Result<(), SwitchError> {
        match fs::metadata(&self.journal) {
            Ok(journal) if journal.len() > 0 => self.recover_locked(&mut Journal::lock(self)?)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(at(&self.journal)(error));
            }
            _ => {}
        }
        // A missing journal must not cause an empty store to be created here.
        for old_path in [&self.old, &self.kept] {
            if !self.has_store()? && exists(&self.new)? && exists(old_path)? {
                return Err(self.inconsistent(old_path));
            }
        }
        Ok(())
    }

    /// Starts a compaction, after recovery from an interrupted one.
    pub(super) fn claim(&self) -> Result<Journal, SwitchError> {
        let mut journal = Journal::lock(self)?;
        self.recover_locked(&mut journal)?;
        Ok(journal)
    }

    fn recover_locked(&self, journal: &mut Journal) -> Result<(), SwitchError> {
        let Some(progress) = journal.progress()? else {
            return journal.ended();
        };
        let old_path = self.old_path(progress == Progress::Switching { keeps: true });
        let is_store = self.has_store()?;
        match (progress, is_store, exists(&self.new)?, exists(old_path)?) {
            (Progress::Copying, true, true, _)
            | (Progress::Switching { .. }, true, true, false) => {
                remove(&self.new)?;
                reinstate_directory(&self.directory).map_err(at(&self.directory))?;
            }
            (Progress::Switching { keeps }, false, true, true) => {
                tracing::warn!(
                    directory = %self.directory.display(),
                    "completing an interrupted compaction"
                );
                self.rename_new()?;
                self.discard_old(keeps)?;
            }
            (Progress::Switching { keeps }, true, false, true) => self.discard_old(keeps)?,
            (Progress::Copying, _, false, _) | (Progress::Switching { .. }, _, false, false) => {}
            _ => return Err(self.inconsistent(old_path)),
        }
        journal.ended()
    }

    /// Returns the name that the old store gets.
    pub(super) fn old_path(&self, keeps: bool) -> &Path {
        if keeps { &self.kept } else { &self.old }
    }

    fn inconsistent(&self, old: &Path) -> SwitchError {
        SwitchError::Inconsistent {
            path: self.directory.clone(),
            new: self.new.clone(),
            old: old.to_owned(),
        }
    }

    /// Returns a path that a compaction would create and must not remove, if it exists.
    pub(super) fn occupied_path(&self, keeps: bool) -> Result<Option<&Path>, SwitchError> {
        for place in [&self.new, self.old_path(keeps)] {
            if exists(place)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Renames the old store.
    ///
    /// If that fails, the swap is undone: the old store then opens without what is beside it, which
    /// a container may lose.
    pub(super) fn rename_old(&self, keeps: bool, journal: &mut Journal) -> Result<(), SwitchError> {
        let renamed = self.rename(&self.directory, self.old_path(keeps));
        if renamed.is_err() {
            let _ = self.recover_locked(journal);
        }
        renamed
    }

    /// Renames the new store.
    ///
    /// A process that looked before the first rename may have created an empty directory, which it
    /// removes once it has seen the journal.
    pub(super) fn rename_new(&self) -> Result<(), SwitchError> {
        let began = Instant::now();
        loop {
            match self.rename(&self.new, &self.directory) {
                Err(SwitchError::Io { source, .. })
                    if source.kind() == io::ErrorKind::DirectoryNotEmpty
                        && began.elapsed() < RENAME_TIMEOUT =>
                {
                    thread::sleep(RENAME_RETRY_INTERVAL);
                }
                renamed => return renamed,
            }
        }
    }

    /// Removes the old store of an interrupted compaction unless it is to be kept.
    fn discard_old(&self, keeps: bool) -> Result<(), SwitchError> {
        if keeps {
            // It stays marked as retired, so that no server opens it by mistake.
            return Ok(());
        }
        // A store that is not marked as retired was created by another process in between.
        let is_store = !matches!(store_kind(&self.old), Ok(None));
        if is_store && !is_retired(&self.old).map_err(at(&self.old))? {
            return Err(self.inconsistent(&self.old));
        }
        remove(&self.old)
    }

    fn has_store(&self) -> Result<bool, SwitchError> {
        // An unreadable marker counts as a store: opening it reports the problem.
        Ok(!matches!(store_kind(&self.directory), Ok(None)))
    }

    /// True if no compaction is running and none was interrupted.
    ///
    /// # Errors
    /// [`SwitchError::Io`].
    pub fn is_idle(&self) -> Result<bool, SwitchError> {
        match fs::metadata(&self.journal) {
            Ok(journal) => Ok(journal.len() == 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(at(&self.journal)(error)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), SwitchError> {
        fs::rename(from, to).map_err(at(from))?;
        sync_parent(&self.directory).map_err(|error| at(&self.directory)(io::Error::other(error)))
    }
}

fn exists(place: &Path) -> Result<bool, SwitchError> {
    place.try_exists().map_err(at(place))
}

/// Removes a directory that an interrupted compaction left.
fn remove(left: &Path) -> Result<(), SwitchError> {
    tracing::warn!(
        directory = %left.display(),
        "removing a directory that an interrupted compaction left"
    );
    remove_directory(left).map_err(at(left))
}
