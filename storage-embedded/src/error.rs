//! Errors of opening a store, and the mapping of engine errors.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use knowledge_store::{StoreError, StoreErrorKind};

/// Failure to open a store, which this crate has left unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another store has the directory open: end that process, or choose another directory.
    ///
    /// Without a known holder, the files may still belong to a failed store: end its process.
    #[error("{} is in use by {}", path.display(), holder_name(*.holder))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Process that holds it, if the lock file names one.
        holder: Option<u32>,
    },
    /// The directory contains other files: choose an empty or a new directory.
    #[error(
        "{} contains other files, for example {}; choose an empty or a new directory",
        path.display(),
        example.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Name of one of the files.
        example: PathBuf,
    },
    /// The store belongs to another engine: open it with that one.
    #[error(
        "{} contains a {found} store, not a {expected} store; open it as {found}:{}",
        path.display(),
        path.display()
    )]
    OtherEngine {
        /// The directory.
        path: PathBuf,
        /// The engine that wrote it.
        found: String,
        /// Engine that was requested.
        expected: &'static str,
    },
    /// The store was written by another version of this crate: open it with that version.
    #[error(
        "{} has storage format {found}, but this program supports only {known}; use the version \
         that wrote it",
        path.display()
    )]
    UnknownFormat {
        /// The directory.
        path: PathBuf,
        /// The number found.
        found: u64,
        /// Format that this crate writes.
        known: u64,
    },
    /// The store was replaced, or is being removed: open the directory that replaced it.
    #[error(
        "the store in {} was replaced; open the directory that replaced it, or remove \
         knowledge-store.replaced to open this one",
        path.display()
    )]
    Replaced {
        /// The directory.
        path: PathBuf,
    },
    /// The stored data is corrupt or incomplete: restore a backup.
    #[error("the store in {} is corrupt: {reason}", path.display())]
    Corrupt {
        /// The directory.
        path: PathBuf,
        /// Description of the corruption.
        reason: String,
    },
    /// The operating system reported an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Error of the operating system.
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

    /// Returns a function for `map_err` that attributes an I/O error to `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// Returns a function for `map_err` that converts an engine error during opening.
    pub(crate) fn engine(path: &Path) -> impl FnOnce(EngineError) -> Self {
        move |error| match error {
            EngineError::Io(source) => Self::io(path)(source),
            error => Self::corrupt(path, error.to_string()),
        }
    }
}

/// Failure of an engine, which reports corruption by an error or a panic.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Stored data is not as it was written.
    #[error("{0}")]
    Corrupt(String),
    /// The engine panicked, as some do on corrupt data.
    #[error("the engine panicked: {0}")]
    Panicked(String),
    /// The operating system or the device failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Another instance of the engine holds its files.
    #[error("the engine's files are locked")]
    Locked,
    /// A write exceeded its time limit.
    #[error("a write timed out")]
    TimedOut,
    /// The store was closed before the write began.
    #[error("{0}")]
    Closed(StoreError),
    /// The store was closed during the write, for another reason.
    #[error("the store was closed during the write: {0}")]
    ClosedDuringWrite(String),
}

impl EngineError {
    /// True if the data is at fault, not the device.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::Panicked(_))
    }

    /// True if the process or the system has too many open files.
    ///
    /// This is temporary, and no sign of a failing device.
    pub(crate) fn is_shortage_of_files(&self) -> bool {
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        let Self::Io(error) = self else { return false };
        cfg!(unix) && matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
    }

    /// Returns the error of a failed read.
    pub(crate) fn to_read_error(&self) -> StoreError {
        let kind = if self.is_corruption() {
            StoreErrorKind::Corrupt
        } else {
            StoreErrorKind::Unavailable
        };
        StoreError::new(kind, format!("a read failed: {self}"))
    }
}

/// Calls an engine and turns a panic into an error.
pub(crate) fn catch_panic<T>(
    call: impl FnOnce() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    // Only the engine's own state can be inconsistent after a panic.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(|message| (*message).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Err(EngineError::Panicked(message.unwrap_or_default()))
    })
}

/// Returns the error of every call to a store that has closed.
pub(crate) fn closed_error(reason: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        format!("the store closed after a failure and must be reopened: {reason}"),
    )
}
