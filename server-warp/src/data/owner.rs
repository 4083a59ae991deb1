//! Owner of a data directory: no process writes to the directory of another user.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::DataError;
use crate::backup::switch::SwapPaths;

const ROOT: u32 = 0;
/// Directory in the root of a new file system, which belongs to root.
const LOST_AND_FOUND: &str = "lost+found";

/// Rejects a directory if it, a file in it or a directory of its compaction belongs to another user.
///
/// A directory of root may be used by another user, who was given access to it: a volume, for
/// example. Root creates no directory within that of another user.
pub(super) fn reject_other(path: &Path, user: u32) -> Result<(), DataError> {
    let mut is_missing = true;
    for place in SwapPaths::of(path).all() {
        if let Some(owner) = owner(place)? {
            is_missing = false;
            require(place, owner, &[user, ROOT], user)?;
        }
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        // Opening the store reports other problems better.
        Err(_) if !is_missing || user != ROOT => return Ok(()),
        Err(_) => return reject_parent(path, user),
    };
    for entry in entries {
        let entry = entry.map_err(at(path))?;
        let found = entry.path();
        if entry.file_name() != LOST_AND_FOUND
            && let Some(owner) = owner(&found)?
        {
            require(&found, owner, &[user], user)?;
        }
    }
    Ok(())
}

/// Rejects a missing directory that root would create within the directory of another user.
fn reject_parent(path: &Path, user: u32) -> Result<(), DataError> {
    for parent in path.ancestors().skip(1) {
        if let Some(owner) = owner(parent)? {
            return require(parent, owner, &[user], user);
        }
    }
    Ok(())
}

fn require(path: &Path, owner: u32, permitted: &[u32], user: u32) -> Result<(), DataError> {
    if permitted.contains(&owner) {
        return Ok(());
    }
    Err(DataError::OtherOwner {
        path: path.to_owned(),
        owner,
        user,
    })
}

/// Returns the owner of a file, of a link itself; `None` if there is no file.
fn owner(path: &Path) -> Result<Option<u32>, DataError> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.uid())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> DataError {
    move |source| DataError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_rejected_by_owner_of_any_part() {
        let scratch = tempfile::tempdir().unwrap();
        let own = fs::metadata(scratch.path()).unwrap().uid();
        let other = own + 1;
        let path = scratch.path().join("data");
        assert!(reject_other(&path, own).is_ok());
        assert!(reject_other(&path, other).is_ok(), "the system decides");

        let kept = scratch.path().join("data.old");
        fs::create_dir(&kept).unwrap();
        assert!(reject_other(&path, own).is_ok());
        if own != ROOT {
            let rejected = reject_other(&path, other);
            assert!(matches!(rejected, Err(DataError::OtherOwner { path, .. }) if path == kept));
        }

        fs::create_dir(&path).unwrap();
        fs::create_dir(path.join(LOST_AND_FOUND)).unwrap();
        fs::write(path.join("file"), "").unwrap();
        assert!(reject_other(&path, own).is_ok());
        let error = reject_other(&path, other).unwrap_err().to_string();
        let told = format!(
            "is owned by UID {own}, and this process runs as UID {other}; run the command as its \
             owner, for example with sudo -u '#{own}'"
        );
        assert!(error.ends_with(&told), "{error}");
    }
}
