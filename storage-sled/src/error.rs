//! Why a store does not open, and what the engine's errors mean to a caller.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use knowledge_core::store::{StoreError, StoreErrorKind};

/// Why a store could not be opened. Nothing of its contents was changed by this crate; what sled itself does to a damaged
/// file when it opens it is told in the crate's documentation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another store has the directory open: end that process, or choose another directory. Without a known holder it
    /// may be what is left of a store that failed: end the process that had it.
    #[error("{} is in use by {}", path.display(), holder_name(*.holder))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that holds it, where its lock file tells.
        holder: Option<u32>,
    },
    /// The directory holds files, and they are not a store's: choose an empty or a new directory.
    #[error("{} holds files of another kind, for example {}: a store needs a directory of its own", path.display(), example.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The name of one file found in it.
        example: PathBuf,
    },
    /// The store was written by another version of this crate: open it with that version.
    #[error("{} has the storage format {found}, this program knows format {known}", path.display())]
    UnknownFormat {
        /// The directory.
        path: PathBuf,
        /// The number found.
        found: u64,
        /// The number that this crate writes.
        known: u64,
    },
    /// What is stored is damaged or not complete: restore a backup.
    #[error("the store in {} is damaged: {reason}", path.display())]
    Corrupt {
        /// The directory.
        path: PathBuf,
        /// What was found.
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
        None => "a process that is not known".to_owned(),
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
}

/// What went wrong inside sled: it tells of damage by an error or by a panic.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error("sled: {0}")]
    Sled(#[from] sled::Error),
    #[error("sled panicked: {0}")]
    Panicked(String),
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("a write does not end")]
    Hangs,
    #[error("{0}")]
    Closed(StoreError),
}

impl EngineError {
    pub(crate) fn is_corruption(&self) -> bool {
        match self {
            Self::Sled(sled::Error::Io(error)) | Self::Io(error) => {
                error.kind() == io::ErrorKind::UnexpectedEof
            }
            Self::Sled(_) | Self::Panicked(_) | Self::Damaged(_) => true,
            Self::Hangs | Self::Closed(_) => false,
        }
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

/// Calls into sled; a panic in there becomes an error.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    // What a panic leaves behind is sled's own; we keep nothing that it could have left half changed.
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
