//! The files in which sled stores pages that are too large for its log, and which it never syncs.
//!
//! With segments of 16 MiB, sled writes pages of 4 MiB and more to separate files. No page of this
//! crate comes near that: a leaf has at most some tens of entries of 64 KiB. Should a file appear
//! nevertheless, it is synced here before its group is acknowledged. If a power loss left such a
//! file empty, the whole store would be unreadable.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Blob files of a store.
#[derive(Debug)]
pub(crate) struct Blobs {
    path: PathBuf,
    /// Names of the synced files. sled writes each file once and never changes it.
    synced: Mutex<HashSet<OsString>>,
}

impl Blobs {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            synced: Mutex::default(),
        }
    }

    /// Syncs all new files of the directory, and the directory.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = HashSet::new();
        let mut is_changed = false;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if !synced.contains(&name) {
                // sled removes a file once its page is rewritten.
                match File::open(entry.path()) {
                    Ok(file) => file.sync_all()?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
                tracing::warn!(file = %entry.path().display(), "sled wrote a page to a blob file");
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
    fn blob_is_synced_once_and_removed_with_its_file() {
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
    fn missing_blob_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Blobs::new(directory.path().join("gone")).sync().is_err());
    }
}
