//! The switch from one directory of a store to another, which survives a crash between any two of its steps.
//!
//! | journal | `DIR` | `DIR.compacting` | `DIR.before-compaction` | what the next start does |
//! | --- | --- | --- | --- | --- |
//! | `copying` | the old store | not there, half made or whole | | removes `DIR.compacting` |
//! | `switching` | the old store | the new store, whole | not there | removes `DIR.compacting` |
//! | `switching` | missing or empty | the new store, whole | the old store | gives the new store its name, removes the old one |
//! | `switching` | the new store | not there | the old store, or what is left of it | removes it |
//! | empty | a store | | | nothing |
//!
//! Anything else is nobody's but the operator's to sort out, and refused. The new store is whole, on the disk and compared
//! with the old one before the first rename. With `--keep` the old store goes to `DIR.old` instead, where nothing removes
//! it. The journal is a file beside the directory. It is locked while a compaction goes on, and tells what a compaction that
//! was ended made: nothing else is ever removed. The file itself stays, so that nobody locks one that another process is
//! about to remove.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use knowledge_storage_embedded::{is_retired, reinstate_directory, remove_directory, store_kind};

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
    /// A compaction was interrupted, and the directories are not as it left them.
    #[error(
        "a compaction of {} was interrupted, and what is there now is not what it left: look into it, {} and {}, and leave \
         the store that is whole as {}",
        path.display(), new.display(), old.display(), path.display()
    )]
    Unclear {
        /// The directory.
        path: PathBuf,
        /// Where the new store was made.
        new: PathBuf,
        /// Where the old store waited.
        old: PathBuf,
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

/// The longest wait for a process that is about to remove the directory that it made.
const LETTING_GO_MAX: Duration = Duration::from_secs(2);
/// Time between two attempts.
const LETTING_GO_INTERVAL: Duration = Duration::from_millis(5);

/// What the journal has while the new store is made.
const COPYING: &str = "copying\n";
/// What it has behind that once the new store is whole.
const SWITCHING: &str = "switching\n";
/// The same where the old store is kept.
const SWITCHING_KEPT: &str = "switching, the old store is kept\n";

/// How far a compaction came that was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Copying,
    Switching { keeps: bool },
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
    journal: PathBuf,
}

/// The journal, locked: one process switches a directory, or finishes the switch of one that was ended.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    fn lock(places: &Places) -> Result<Self, SwitchError> {
        let path = places.journal.clone();
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, file }),
            Err(TryLockError::WouldBlock) => Err(SwitchError::UnderWay {
                path: places.directory.clone(),
            }),
            Err(TryLockError::Error(error)) => Err(at(&path)(error)),
        }
    }

    /// From here on `DIR.compacting` is the compaction's, and there was none before.
    pub(super) fn copying(&mut self) -> Result<(), SwitchError> {
        self.note(COPYING)?;
        sync_parent(&self.path).map_err(|error| at(&self.path)(io::Error::other(error)))
    }

    /// From here on the new store is whole, and the place of the old one is the compaction's.
    pub(super) fn switching(&mut self, keeps: bool) -> Result<(), SwitchError> {
        self.note(if keeps { SWITCHING_KEPT } else { SWITCHING })
    }

    /// From here on nothing is the compaction's.
    pub(super) fn ended(&mut self) -> Result<(), SwitchError> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.sync_all());
        emptied.map_err(at(&self.path))
    }

    /// How far the compaction came that was ended, if one was.
    fn progress(&mut self) -> Result<Option<Progress>, SwitchError> {
        let mut noted = String::new();
        let read = self.file.rewind();
        let read = read.and_then(|()| self.file.read_to_string(&mut noted));
        read.map_err(at(&self.path))?;
        // A line that a crash cut off was not acted on.
        Ok(noted.strip_prefix(COPYING).map(|behind| match behind {
            SWITCHING => Progress::Switching { keeps: false },
            SWITCHING_KEPT => Progress::Switching { keeps: true },
            _ => Progress::Copying,
        }))
    }

    /// Appends, so that a crash leaves what was noted before.
    fn note(&mut self, line: &str) -> Result<(), SwitchError> {
        let noted = self.file.write_all(line.as_bytes());
        let noted = noted.and_then(|()| self.file.sync_all());
        noted.map_err(at(&self.path))
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
            journal: with_suffix(directory, ".compaction.lock"),
        }
    }

    /// Finishes or undoes the switch of a process that was ended. Called before the directory is opened.
    ///
    /// # Errors
    /// [`SwitchError`], one by one.
    pub fn settle(&self) -> Result<(), SwitchError> {
        match fs::metadata(&self.journal) {
            Ok(journal) if journal.len() > 0 => self.settle_locked(&mut Journal::lock(self)?)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(at(&self.journal)(error));
            }
            _ => {}
        }
        // The journal is gone, or was never there: that must not make an empty store of it.
        for away in [&self.old, &self.kept] {
            if !self.has_store()? && there(&self.new)? && there(away)? {
                return Err(self.unclear(away));
            }
        }
        Ok(())
    }

    /// Begins a compaction: what another one left is settled.
    pub(super) fn claim(&self) -> Result<Journal, SwitchError> {
        let mut journal = Journal::lock(self)?;
        self.settle_locked(&mut journal)?;
        Ok(journal)
    }

    fn settle_locked(&self, journal: &mut Journal) -> Result<(), SwitchError> {
        let Some(progress) = journal.progress()? else {
            return journal.ended();
        };
        let away = self.away(progress == Progress::Switching { keeps: true });
        let is_store = self.has_store()?;
        match (progress, is_store, there(&self.new)?, there(away)?) {
            (Progress::Copying, true, true, _)
            | (Progress::Switching { .. }, true, true, false) => {
                remove(&self.new)?;
                reinstate_directory(&self.directory).map_err(at(&self.directory))?;
            }
            (Progress::Switching { keeps }, false, true, true) => {
                tracing::warn!(directory = %self.directory.display(), "finishing the switch of an interrupted compaction");
                self.move_in()?;
                self.let_go(keeps)?;
            }
            (Progress::Switching { keeps }, true, false, true) => self.let_go(keeps)?,
            (Progress::Copying, _, false, _) | (Progress::Switching { .. }, _, false, false) => {}
            _ => return Err(self.unclear(away)),
        }
        journal.ended()
    }

    /// The place to which the old store goes.
    pub(super) fn away(&self, keeps: bool) -> &Path {
        if keeps { &self.kept } else { &self.old }
    }

    fn unclear(&self, old: &Path) -> SwitchError {
        SwitchError::Unclear {
            path: self.directory.clone(),
            new: self.new.clone(),
            old: old.to_owned(),
        }
    }

    /// What stands where a compaction would put something, and is not for it to remove.
    pub(super) fn in_the_way(&self, keeps: bool) -> Result<Option<&Path>, SwitchError> {
        for place in [&self.new, self.away(keeps)] {
            if there(place)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// The first rename.
    pub(super) fn move_away(&self, keeps: bool) -> Result<(), SwitchError> {
        self.rename(&self.directory, self.away(keeps))
    }

    /// The second rename. A process that looked before the first one may have made an empty directory there, which it
    /// removes again once it has seen the journal.
    pub(super) fn move_in(&self) -> Result<(), SwitchError> {
        let began = Instant::now();
        loop {
            match self.rename(&self.new, &self.directory) {
                Err(SwitchError::Io { source, .. })
                    if source.kind() == io::ErrorKind::DirectoryNotEmpty
                        && began.elapsed() < LETTING_GO_MAX =>
                {
                    thread::sleep(LETTING_GO_INTERVAL);
                }
                renamed => return renamed,
            }
        }
    }

    /// Removes the old store that an interrupted compaction left, or lets others open the one that is kept.
    fn let_go(&self, keeps: bool) -> Result<(), SwitchError> {
        match keeps {
            // It stays marked as replaced: nobody shall serve it by mistake.
            true => Ok(()),
            // A store that is not marked as replaced was made by somebody who got in between.
            false
                if !matches!(store_kind(&self.old), Ok(None))
                    && !is_retired(&self.old).map_err(at(&self.old))? =>
            {
                Err(self.unclear(&self.old))
            }
            false => remove(&self.old),
        }
    }

    fn has_store(&self) -> Result<bool, SwitchError> {
        // A marker that cannot be understood is one: opening says what is wrong with it.
        Ok(!matches!(store_kind(&self.directory), Ok(None)))
    }

    /// True if no compaction is under way and none was interrupted.
    ///
    /// # Errors
    /// [`SwitchError::Io`].
    pub fn is_settled(&self) -> Result<bool, SwitchError> {
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

fn there(place: &Path) -> Result<bool, SwitchError> {
    place.try_exists().map_err(at(place))
}

/// Removes what an interrupted compaction made.
fn remove(left: &Path) -> Result<(), SwitchError> {
    tracing::warn!(directory = %left.display(), "removing what an interrupted compaction left");
    remove_directory(left).map_err(at(left))
}
