//! Whole stores as files and directories: dumps, what is read back from them, and compaction.
//!
//! What a dump is, line by line, is in [`knowledge_core::dump`]; here is where the lines go to and come from.

pub mod compaction;
mod copying;
mod dump_file;
mod lines;
#[cfg(unix)]
mod operation;
pub mod switch;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::dump::{DumpError, ExportError, Header, Restore, RestoreError, Summary};
use knowledge_core::store::{Store, StoreError};

pub use self::copying::{compare, copy_store, summarize};
pub use self::dump_file::{DumpFile, Origin};
pub use self::lines::{Checked, DumpLines, check};
#[cfg(unix)]
pub use self::operation::{BACKUP_PATH, Backup, ENTRIES_HEADER};

/// Why a store was not dumped, restored or compacted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
    /// A dump is not whole, or was altered.
    #[error("{}: {source}", path.display())]
    Dump {
        /// The file.
        path: PathBuf,
        /// What is wrong with which line.
        source: DumpError,
    },
    /// The store that is to be dumped is not whole, or failed.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The dump is not taken by the store.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was written reads back as something else.
    #[error("what was written is not what was read: {read} was read, {written} was written")]
    Differs {
        /// The checksum of what was read.
        read: String,
        /// The checksum of what was written.
        written: String,
    },
}

impl BackupError {
    /// For `map_err`: an error of the operating system about `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// Restores the dump that is read from `lines` into an empty store, or goes on with an interrupted restore of the same
/// dump where it is known what it comes to. `progress` is told how many bytes and entries were read.
///
/// # Errors
/// [`BackupError`], one by one.
pub async fn restore(
    mut lines: DumpLines,
    store: &Arc<dyn Store>,
    expected: Option<Summary>,
    mut progress: impl FnMut(u64, u64),
) -> Result<(Option<Header>, Summary), BackupError> {
    let mut restore = Restore::begin(Arc::clone(store), expected).await?;
    while let Some(line) = lines.read()? {
        restore.take(line).await?;
        progress(lines.bytes(), restore.entries());
    }
    let header = restore.header().cloned();
    Ok((header, restore.finish().await?))
}
