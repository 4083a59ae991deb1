//! Reasons why a store does not open, and the meaning of an engine's errors to a caller.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use knowledge_store::{StoreError, StoreErrorKind};

/// A store that could not be opened. This crate changed nothing of its contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another store has the directory open: end that process, or choose another directory. Without a known holder it
    /// may be the remains of a store that failed: end the process that had it.
    #[error("{} is in use by {}", path.display(), holder_name(*.holder))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that holds it, if its lock file names one.
        holder: Option<u32>,
    },
    /// The directory holds files of another kind: choose an empty or a new directory.
    #[error("{} holds files of another kind, for example {}: a store needs a directory of its own", path.display(), example.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The name of one file found in it.
        example: PathBuf,
    },
    /// The store was written by another engine: open it with that one.
    #[error("{} holds a store of the engine {found}, not of {expected}: open it as {found}:{}", path.display(), path.display())]
    OtherEngine {
        /// The directory.
        path: PathBuf,
        /// The engine that wrote it.
        found: String,
        /// The engine that was to open it.
        expected: &'static str,
    },
    /// The store has an older layout, which can be copied but not served.
    #[error(
        "{} has the old storage format {found}, which a loss of power can destroy: carry it over with `knowledge copy --from \
         {engine}:{} --to {engine}:NEW-DIR`, and use NEW-DIR from then on",
        path.display(), path.display()
    )]
    OldFormat {
        /// The directory.
        path: PathBuf,
        /// The engine that wrote it.
        engine: &'static str,
        /// The number found.
        found: u64,
    },
    /// The store was written by a newer version of this crate: open it with that version.
    #[error("{} has the storage format {found}, this program knows format {known}", path.display())]
    UnknownFormat {
        /// The directory.
        path: PathBuf,
        /// The number found.
        found: u64,
        /// The number that this crate writes.
        known: u64,
    },
    /// The store was moved elsewhere, or is being removed: open the directory that took its place.
    #[error("the store in {} was replaced by another one: open that one; to open this one all the same, remove knowledge-store.replaced in it", path.display())]
    Replaced {
        /// The directory.
        path: PathBuf,
    },
    /// The stored data is damaged or incomplete: restore a backup.
    #[error("the store in {} is damaged: {reason}", path.display())]
    Corrupt {
        /// The directory.
        path: PathBuf,
        /// The damage found.
        reason: String,
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

fn holder_name(holder: Option<u32>) -> String {
    match holder {
        Some(pid) => format!("process {pid}"),
        None => "an unknown process".to_owned(),
    }
}

impl OpenError {
    pub(crate) fn corrupt(path: &Path, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    /// For `map_err`: an error of the operating system about `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// For `map_err`: an error of the engine while the store opens.
    pub(crate) fn engine(path: &Path) -> impl FnOnce(EngineError) -> Self {
        move |error| match error {
            EngineError::Io(source) => Self::io(path)(source),
            error => Self::corrupt(path, error.to_string()),
        }
    }
}

/// A failure inside an engine, which reports damage by an error or by a panic.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Stored data is not as it was written.
    #[error("{0}")]
    Damaged(String),
    /// The engine panicked, as some do over damage.
    #[error("the engine panicked: {0}")]
    Panicked(String),
    /// The operating system or the device failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Another instance of the engine has its files.
    #[error("the engine's files are locked")]
    Locked,
    /// A write exceeded its time.
    #[error("a write timed out")]
    TimedOut,
    /// The store was closed before the write began.
    #[error("{0}")]
    Closed(StoreError),
    /// The store was closed during the write, for a reason of its own.
    #[error("the store closed itself during the write: {0}")]
    Overtaken(String),
}

impl EngineError {
    /// True if the error tells of the data, not of the device.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::Panicked(_))
    }

    /// True if the process, or the system, may open no further file. That passes, and says nothing of the device.
    pub(crate) fn is_shortage_of_files(&self) -> bool {
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        let Self::Io(error) = self else { return false };
        cfg!(unix) && matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
    }

    /// The error of a read.
    pub(crate) fn to_read_error(&self) -> StoreError {
        let kind = match self.is_corruption() {
            true => StoreErrorKind::Corrupt,
            false => StoreErrorKind::Unavailable,
        };
        StoreError::new(kind, format!("a read failed: {self}"))
    }
}

/// Calls an engine; a panic in there becomes an error.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    // A panic leaves behind the engine's own state; nothing of ours can be half changed.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(|message| (*message).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Err(EngineError::Panicked(message.unwrap_or_default()))
    })
}

/// The answer of a store that closed itself.
pub(crate) fn closed(reason: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        format!("the store closed itself and has to be opened again: {reason}"),
    )
}
