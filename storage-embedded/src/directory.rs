//! The directory of a store: its marker, and the record of a clean close.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::OpenError;
use crate::layout::{MARK, MARKER, MARKER_NEW, OPEN, sync_directory};
use crate::lock::DirectoryLock;
use crate::mark::Mark;

/// Engine and layout of a store, as recorded in its marker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreKind {
    /// Name of the engine.
    pub engine: String,
    /// Number of the engine's layout.
    pub format: u64,
    /// Package that created the store.
    pub written_by: String,
}

/// Returns the kind of the store in a directory; `None` if there is no complete store.
///
/// # Errors
/// [`OpenError::Corrupt`] if the marker is invalid, [`OpenError::Io`] if it cannot be read.
pub fn store_kind(path: impl AsRef<Path>) -> Result<Option<StoreKind>, OpenError> {
    let path = path.as_ref();
    match fs::read(path.join(MARKER)) {
        Ok(marker) => serde_json::from_slice(&marker).map(Some).map_err(|_| {
            OpenError::corrupt(
                path,
                format!("{MARKER} does not name an engine and a format"),
            )
        }),
        // A dangling link is an existing marker, not an empty directory.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && !path.join(MARKER).is_symlink() =>
        {
            Ok(None)
        }
        Err(error) => Err(OpenError::io(&path.join(MARKER))(error)),
    }
}

/// A store's directory, locked until it is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    lock: DirectoryLock,
    /// True if the store was closed cleanly before this opening.
    pub(crate) was_closed_cleanly: bool,
}

impl Directory {
    /// Opens the directory, and initialises it if it is empty.
    pub(crate) fn open<E: Engine>(lock: DirectoryLock) -> Result<Self, OpenError> {
        let path = lock.path().to_owned();
        match store_kind(&path)? {
            Some(kind) => check_kind::<E>(&path, &kind)?,
            None => initialize::<E>(&path).map_err(OpenError::io(&path))?,
        }
        let is_open = path.join(OPEN).try_exists();
        Ok(Self {
            lock,
            was_closed_cleanly: is_open.is_ok_and(|is_open| !is_open),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.lock.path()
    }

    pub(crate) fn open_mark(&self) -> Result<Mark, OpenError> {
        let path = self.path().join(MARK);
        match Mark::open(&path) {
            Ok(Some(mark)) => Ok(mark),
            Ok(None) => Err(OpenError::corrupt(
                self.path(),
                format!("{MARK} cannot be read"),
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OpenError::corrupt(
                self.path(),
                format!("{MARK} is missing"),
            )),
            Err(error) => Err(OpenError::io(&path)(error)),
        }
    }

    /// Records durably that the store is open.
    pub(crate) fn record_open(&self) -> Result<(), OpenError> {
        let path = self.path().join(OPEN);
        match File::create_new(&path) {
            // The file may belong to another user whose process was killed.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(OpenError::io(&path)(error));
            }
            _ => {}
        }
        sync_directory(self.path()).map_err(OpenError::io(self.path()))
    }

    /// Makes the file names in the directory durable.
    pub(crate) fn sync(&self) -> Result<(), OpenError> {
        sync_directory(self.path()).map_err(OpenError::io(self.path()))
    }

    /// Releases the store. A clean close is recorded, so that the next start skips the check.
    pub(crate) fn close(self, is_clean: bool) -> DirectoryLock {
        if is_clean {
            let path = self.path();
            let recorded = fs::remove_file(path.join(OPEN)).and_then(|()| sync_directory(path));
            if let Err(error) = recorded {
                tracing::warn!(%error, "failed to record the clean close; the next start will \
                                        check the store");
            }
        }
        self.lock
    }
}

/// Initialises the directory of a store.
///
/// The marker is written last and atomically: after an earlier crash the directory still counts as
/// empty.
fn initialize<E: Engine>(path: &Path) -> io::Result<()> {
    Mark::create(&path.join(MARK))?;
    let new = path.join(MARKER_NEW);
    let mut file = File::create(&new)?;
    let kind = StoreKind {
        engine: E::NAME.to_owned(),
        format: E::FORMAT,
        written_by: format!("knowledge-storage-{}", E::NAME),
    };
    writeln!(file, "{}", serde_json::to_string(&kind)?)?;
    file.sync_all()?;
    // The mark's name must be durable before the marker's.
    sync_directory(path)?;
    fs::rename(new, path.join(MARKER))?;
    sync_directory(path)
}

fn check_kind<E: Engine>(path: &Path, kind: &StoreKind) -> Result<(), OpenError> {
    let path = path.to_owned();
    if kind.engine != E::NAME {
        return Err(OpenError::OtherEngine {
            path,
            found: kind.engine.clone(),
            expected: E::NAME,
        });
    }
    if kind.format != E::FORMAT {
        return Err(OpenError::UnknownFormat {
            path,
            found: kind.format,
            known: E::FORMAT,
        });
    }
    Ok(())
}
