//! Whole stores as files and directories: dump, restore and compaction.
//!
//! The format of a dump is defined in [`knowledge_core::dump`].

pub mod compaction;
mod copying;
mod dump_file;
mod lines;
mod mount_points;
#[cfg(unix)]
mod operation;
pub mod switch;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::dump::{
    CredentialPolicy, DumpError, ExportError, Header, Restore, RestoreError, RestoreReport, Summary,
};
use knowledge_core::store::{Store, StoreError};

pub use self::copying::{CopyPhase, copy_store, is_copy, summarize};
pub use self::dump_file::{DumpFile, Origin};
pub use self::lines::{CheckedDump, DumpLines, check};
#[cfg(unix)]
pub use self::operation::{BACKUP_PATH, Backup, ENTRIES_HEADER, PARTITION};

/// Reason for a failed dump, restore or compaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The operating system reported an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A dump is incomplete or corrupt.
    #[error("{}: {source}", path.display())]
    Dump {
        /// The file.
        path: PathBuf,
        /// The problem and its line.
        source: DumpError,
    },
    /// The store to dump is corrupt or failed.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The store does not accept the dump.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BackupError {
    /// Returns a mapper for `map_err` that adds the path to a system error.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// Restores a dump into an empty store, or resumes an interrupted restore of the same dump.
///
/// Resuming requires `expected`, the dump's summary. The store is read back and compared before it
/// can be opened. `progress` receives the number of bytes of the dump and of entries processed in
/// each phase.
///
/// # Errors
/// [`BackupError`].
pub async fn restore(
    mut lines: DumpLines,
    store: &Arc<dyn Store>,
    expected: Option<Summary>,
    policy: CredentialPolicy,
    mut progress: impl FnMut(CopyPhase, u64, u64),
) -> Result<(Option<Header>, RestoreReport), BackupError> {
    let mut restore = Restore::begin(Arc::clone(store), expected, policy).await?;
    while let Some(line) = lines.read()? {
        restore.take(line).await?;
        progress(CopyPhase::Writing, lines.bytes(), restore.entries());
    }
    while restore.compare().await? {
        progress(CopyPhase::Comparing, lines.bytes(), restore.compared());
    }
    let header = restore.header().cloned();
    Ok((header, restore.finish().await?))
}
