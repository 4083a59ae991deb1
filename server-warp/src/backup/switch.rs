//! The switch from one directory of a store to another, which survives a crash between any two of its steps.
//!
//! | state | `DIR` | `DIR.compacting` | `DIR.before-compaction` | what the next start does |
//! | --- | --- | --- | --- | --- |
//! | 1, before | the old store | not there, half made or whole | not there | removes `DIR.compacting` |
//! | 2, between the renames | not there | the new store, whole | the old store | gives the new store its name, removes the old one |
//! | 3, after | the new store | not there | the old store, or what is left of it | removes it |
//!
//! The new store is whole, on the disk and compared with the old one before the first rename. With `--keep` the old store
//! goes to `DIR.old` instead, where nothing removes it. A lock beside the directory tells a compaction that goes on from
//! one that was ended.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::private_file::{sync_parent, with_suffix};

/// Why a directory is not ready to be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// Another process compacts the store.
    #[error("{} is being compacted: wait until that has ended", path.display())]
    UnderWay {
        /// The directory.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> SwitchError {
    move |source| SwitchError::Io {
        path: path.to_owned(),
        source,
    }
}

/// The places of a switch, beside the directory.
#[derive(Clone, Debug)]
pub struct Places {
    pub(super) directory: PathBuf,
    /// Where the new store is made.
    pub(super) new: PathBuf,
    /// Where the old store waits to be removed.
    pub(super) old: PathBuf,
    /// Where the old store is kept.
    pub(super) kept: PathBuf,
    lock: PathBuf,
}

/// One process switches a directory, or finishes the switch of one that was ended.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn take(places: &Places) -> Result<Self, SwitchError> {
        let path = places.lock.clone();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _file: file }),
            Err(TryLockError::WouldBlock) => Err(SwitchError::UnderWay {
                path: places.directory.clone(),
            }),
            Err(TryLockError::Error(error)) => Err(at(&path)(error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever takes a lock of this name from now on finds nothing left to settle.
        let _ = fs::remove_file(&self.path);
    }
}

impl Places {
    /// Those of a directory.
    #[must_use]
    pub fn of(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            new: with_suffix(directory, ".compacting"),
            old: with_suffix(directory, ".before-compaction"),
            kept: with_suffix(directory, ".old"),
            lock: with_suffix(directory, ".compaction.lock"),
        }
    }

    /// Finishes or undoes the switch of a process that was ended. Called before the directory is opened.
    ///
    /// # Errors
    /// [`SwitchError`], one by one.
    pub fn settle(&self) -> Result<(), SwitchError> {
        if !self.new.exists() && !self.old.exists() {
            return Ok(());
        }
        let _lock = Lock::take(self)?;
        self.settle_locked()
    }

    /// Begins a compaction: what another one left is settled.
    pub(super) fn claim(&self) -> Result<Lock, SwitchError> {
        let lock = Lock::take(self)?;
        self.settle_locked()?;
        Ok(lock)
    }

    fn settle_locked(&self) -> Result<(), SwitchError> {
        let is_between = !self.directory.exists() && (self.old.exists() || self.kept.exists());
        if is_between && self.new.exists() {
            tracing::warn!(directory = %self.directory.display(), "finishing the switch of an interrupted compaction");
            self.move_in()?;
        }
        if !self.directory.exists() {
            return Ok(()); // Somebody else moved it away: nothing here is ours to remove.
        }
        for left in [&self.new, &self.old] {
            if left.exists() {
                tracing::warn!(directory = %left.display(), "removing what an interrupted compaction left");
                fs::remove_dir_all(left).map_err(at(left))?;
            }
        }
        Ok(())
    }

    /// The first rename.
    pub(super) fn move_away(&self, keeps: bool) -> Result<(), SwitchError> {
        let to = if keeps { &self.kept } else { &self.old };
        self.rename(&self.directory, to)
    }

    /// The second rename.
    pub(super) fn move_in(&self) -> Result<(), SwitchError> {
        self.rename(&self.new, &self.directory)
    }

    pub(super) fn remove_old(&self) -> Result<(), SwitchError> {
        fs::remove_dir_all(&self.old).map_err(at(&self.old))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), SwitchError> {
        fs::rename(from, to).map_err(at(from))?;
        sync_parent(&self.directory).map_err(|error| at(&self.directory)(io::Error::other(error)))
    }
}
