//! Directory of a store: its path without symlinks, and its lock.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use knowledge_storage_embedded::{DirectoryLock, store_kind};

use super::DataError;
use crate::backup::switch::{SwapPaths, SwitchError};

/// Maximum number of attempts to lock a directory that a compaction keeps replacing.
const LOCK_ATTEMPTS_MAX: usize = 8;

/// Locks a directory without an interrupted or running compaction.
///
/// An interrupted one is completed or rolled back. This is checked before and again under the lock,
/// because a compaction may have begun in between.
pub(super) fn lock(path: &Path) -> Result<DirectoryLock, DataError> {
    let paths = SwapPaths::of(path);
    for _ in 0..LOCK_ATTEMPTS_MAX {
        paths.recover()?;
        let lock = DirectoryLock::acquire(path)?;
        if paths.is_idle()? {
            return Ok(lock);
        }
        lock.abandon();
    }
    paths.recover()?;
    Err(SwitchError::InProgress {
        path: path.to_owned(),
    }
    .into())
}

/// Maximum number of symlinks on the way to a directory that does not exist.
const LINKS_MAX: usize = 16;

/// Resolves a directory to its path without symlinks. The part of the path that exists is resolved,
/// and a link to a missing directory is followed, because a compaction may be between its two
/// renames.
pub(super) fn resolved(directory: &Path) -> Result<PathBuf, DataError> {
    let unnamed = || DataError::Unnamed {
        path: directory.to_owned(),
    };
    let (mut missing, mut links) = (Vec::new(), 0);
    let mut existing = directory.to_owned();
    loop {
        if existing.as_os_str().is_empty() {
            existing.push(".");
        }
        if let Ok(mut path) = existing.canonicalize() {
            path.extend(missing.iter().rev());
            reject_nested(&path)?;
            return path
                .file_name()
                .is_some()
                .then_some(path)
                .ok_or_else(unnamed);
        }
        let parent = existing.parent().ok_or_else(unnamed)?.to_owned();
        match fs::read_link(&existing) {
            Ok(_) if links == LINKS_MAX => return Err(unnamed()),
            Ok(target) => {
                links += 1;
                existing = parent.join(target);
            }
            Err(_) => {
                missing.push(existing.file_name().ok_or_else(unnamed)?.to_owned());
                existing = parent;
            }
        }
    }
}

/// Rejects a store inside the directory of another one, with which it would be lost.
fn reject_nested(path: &Path) -> Result<(), DataError> {
    let outer = path.ancestors().skip(1);
    for outer in outer {
        if matches!(store_kind(outer), Ok(Some(_))) {
            return Err(DataError::Nested {
                path: path.to_owned(),
                outer: outer.to_owned(),
            });
        }
    }
    Ok(())
}

pub(super) fn is_missing_or_empty(directory: &Path) -> bool {
    match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        // Other errors are reported by opening the store.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests;
