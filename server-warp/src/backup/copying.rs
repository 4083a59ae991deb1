//! Copies of whole stores between any two engines.

use std::sync::Arc;

use knowledge_core::dump::{CredentialPolicy, Export, Restore, Summary};
use knowledge_core::store::Store;

use super::BackupError;

/// Phase of a copy or a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPhase {
    /// Writes the new store.
    Writing,
    /// Reads the new store back. Nothing opens it before it was compared.
    Comparing,
}

/// Reads a whole store and returns its entry count and checksum.
///
/// `progress` receives the number of entries read.
///
/// # Errors
/// [`BackupError::Export`], [`BackupError::Store`].
pub async fn summarize(
    store: &Arc<dyn Store>,
    mut progress: impl FnMut(u64),
) -> Result<Summary, BackupError> {
    let mut export = Export::begin(Arc::clone(store)).await?;
    let (mut lines, mut has_more) = (Vec::new(), true);
    while has_more {
        has_more = export.read(&mut lines).await?;
        lines.clear();
        progress(export.entries());
    }
    Ok(export.summary())
}

/// Copies every entry into an empty store, which replaces the source: credentials stay valid.
///
/// With the summary of the source, from [`summarize`], an interrupted copy of the same contents is
/// resumed. The new store is read back and compared before it can be opened. `step` receives the
/// number of entries processed after each part of a phase; its error ends the copy.
///
/// # Errors
/// [`BackupError`] and errors of `step`.
pub async fn copy_store<E: From<BackupError>>(
    source: &Arc<dyn Store>,
    target: &Arc<dyn Store>,
    expected: Option<Summary>,
    mut step: impl FnMut(CopyPhase, u64) -> Result<(), E>,
) -> Result<Summary, E> {
    let export = Export::begin(Arc::clone(source)).await;
    let mut export = export.map_err(BackupError::from)?;
    let restore = Restore::begin(Arc::clone(target), expected, CredentialPolicy::Keep).await;
    let mut restore = restore.map_err(BackupError::from)?;
    let (mut lines, mut has_more) = (Vec::new(), true);
    while has_more {
        has_more = export.read(&mut lines).await.map_err(BackupError::from)?;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            restore.take(line).await.map_err(BackupError::from)?;
        }
        lines.clear();
        step(CopyPhase::Writing, export.entries())?;
    }
    while restore.compare().await.map_err(BackupError::from)? {
        step(CopyPhase::Comparing, restore.compared())?;
    }
    let report = restore.finish().await.map_err(BackupError::from)?;
    Ok(report.store)
}

/// Reads a whole store and returns true if it has an expected summary.
///
/// # Errors
/// [`BackupError::Export`], [`BackupError::Store`].
pub async fn is_copy(store: &Arc<dyn Store>, expected: &Summary) -> Result<bool, BackupError> {
    Ok(summarize(store, |_| {}).await? == *expected)
}
