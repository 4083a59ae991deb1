//! The directory in which sled puts what is too large for its log, and which it never syncs.
//!
//! With segments of 16 MiB sled writes a page to a file of its own from 4 MiB on, and no page of ours comes near that: a leaf
//! has at most some tens of entries of 64 KiB. Should one do so all the same, its file is synced here before the group is
//! acknowledged: a page whose file is empty after a loss of power makes the whole store unreadable.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The blobs of a store.
#[derive(Debug)]
pub(crate) struct Blobs {
    path: PathBuf,
    /// The names of the files that are on the disk. sled writes each once and never changes it.
    synced: Mutex<HashSet<OsString>>,
}

impl Blobs {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            synced: Mutex::default(),
        }
    }

    /// Brings everything in the directory to the disk, and its names.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = HashSet::new();
        let mut is_changed = false;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if !synced.contains(&name) {
                // sled removes a file once its page is written anew.
                match File::open(entry.path()) {
                    Ok(file) => file.sync_all()?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
                tracing::warn!(file = %entry.path().display(), "sled wrote a page to a file of its own");
                is_changed = true;
            }
            found.insert(name);
        }
        if is_changed {
            #[cfg(unix)]
            File::open(&self.path)?.sync_all()?;
        }
        *synced = found;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_synced_once_and_forgotten_when_removed() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(directory.path().to_owned());
        blobs.sync().unwrap();
        assert!(blobs.synced.lock().unwrap().is_empty());
        let file = directory.path().join("1");
        fs::write(&file, "page").unwrap();
        blobs.sync().unwrap();
        assert!(blobs.synced.lock().unwrap().contains(&OsString::from("1")));
        fs::remove_file(&file).unwrap();
        blobs.sync().unwrap();
        assert!(blobs.synced.lock().unwrap().is_empty());
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Blobs::new(directory.path().join("gone")).sync().is_err());
    }
}
