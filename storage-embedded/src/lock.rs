//! The lock of a store's directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::OpenError;
use crate::layout::{LOCK, REPLACED, create_directory, reject_foreign, sync_directory};

/// Longest wait for a lock whose holder is unknown.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(1);
/// Time between two attempts to lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of attempts to lock a directory that is being replaced.
const REPLACEMENTS_MAX: usize = 16;

/// Exclusive lock of a store's directory, held until it is dropped.
///
/// After locking, the device and inode of the lock file are compared with those at the path, so
/// that the locked directory is the one at the path.
///
/// A program that replaces a store's directory keeps the lock until the old directory is gone. It
/// [retires](Self::retire) the directory before renaming it, so that it cannot be opened under
/// another name, such as a bind mount. The last moment of its removal, in which the directory is
/// empty, has a lock of the directory itself: no store is created in it then.
#[derive(Debug)]
pub struct DirectoryLock {
    path: PathBuf,
    file: File,
    is_created: bool,
}

impl DirectoryLock {
    /// Locks the directory, after creating it and its missing parents durably.
    ///
    /// # Errors
    /// [`OpenError::InUse`], [`OpenError::Foreign`], [`OpenError::Replaced`], [`OpenError::Io`].
    pub fn acquire(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        for _ in 0..REPLACEMENTS_MAX {
            let is_created = create_directory(path).map_err(OpenError::io(path))?;
            let _kept = keep(path)?;
            let file = match reject_foreign(path).and_then(|()| lock(path)) {
                // The directory was renamed or removed meanwhile.
                Err(OpenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    continue;
                }
                locked => locked?,
            };
            let lock = Self {
                path: path.to_owned(),
                file,
                is_created,
            };
            if is_at(&lock.file, &path.join(LOCK)) {
                // Other files may have been added before the lock was taken.
                reject_foreign(path)?;
                if path.join(REPLACED).try_exists().unwrap_or(true) {
                    break;
                }
                return Ok(lock);
            }
        }
        Err(OpenError::Replaced {
            path: path.to_owned(),
        })
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Releases the directory, and removes it if this lock created it and it is still empty.
    pub fn abandon(self) {
        if self.is_created {
            let _ = fs::remove_file(self.path.join(LOCK));
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Marks the directory durably as replaced. It can then no longer be opened under any name.
    ///
    /// # Errors
    /// I/O errors.
    pub fn retire(&self) -> io::Result<()> {
        File::create(self.path.join(REPLACED))?.sync_all()?;
        sync_directory(&self.path)
    }

    /// Sets the path after the directory was renamed.
    pub fn set_path(&mut self, path: impl Into<PathBuf>) {
        self.path = path.into();
    }

    /// Removes the directory, its lock file last. The lock is held until then.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove_directory(self) -> io::Result<()> {
        remove_directory(&self.path)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // The file remains: otherwise another process could lock one that is about to be removed.
        let _ = self.file.set_len(0);
    }
}

/// Undoes [`DirectoryLock::retire`].
///
/// # Errors
/// I/O errors.
pub fn reinstate_directory(path: &Path) -> io::Result<()> {
    match fs::remove_file(path.join(REPLACED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_directory(path)),
    }
}

/// Returns true if the directory is marked as replaced, see [`DirectoryLock::retire`].
///
/// # Errors
/// I/O errors.
pub fn is_retired(path: &Path) -> io::Result<bool> {
    path.join(REPLACED).try_exists()
}

/// Removes the directory of a store, its lock file last.
///
/// # Errors
/// I/O errors.
pub fn remove_directory(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == LOCK || name == REPLACED {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    // Without these files the directory is an empty one, for which no lock file speaks.
    let directory = File::open(path);
    if let Ok(directory) = &directory {
        // Some file systems cannot lock directories.
        let _ = directory.lock();
    }
    for name in [REPLACED, LOCK] {
        match fs::remove_file(path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir(path)
}

/// Returns true if the open file is the one at the path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let (Ok(held), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (held.dev(), held.ino()) == (named.dev(), named.ino())
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    // On other systems an open file cannot be removed or renamed.
    path.exists()
}

/// Keeps a directory from being removed while the result exists.
///
/// Returns `None` if the directory is missing or cannot be locked.
///
/// # Errors
/// [`OpenError::Replaced`] while another process removes the directory.
fn keep(directory: &Path) -> Result<Option<File>, OpenError> {
    let Ok(file) = File::open(directory) else {
        return Ok(None);
    };
    let began = Instant::now();
    loop {
        match file.try_lock_shared() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_WAIT_MAX => {
                std::thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Replaced {
                    path: directory.to_owned(),
                });
            }
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

/// Returns the process id in the lock file.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Locks the lock file of a directory.
///
/// A lock without a known holder is retried: a new holder has not written its process id yet, or a
/// child process that is being started still has the file open.
fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(OpenError::io(&path))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&mut file);
                if holder.is_some() || began.elapsed() >= LOCK_WAIT_MAX {
                    let path = directory.to_owned();
                    return Err(OpenError::InUse { path, holder });
                }
                std::thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(TryLockError::Error(error)) => return Err(OpenError::io(&path)(error)),
        }
    }
    let write_holder = |file: &mut File| {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        writeln!(file, "{}", std::process::id())
    };
    write_holder(&mut file).map_err(OpenError::io(&path))?;
    Ok(file)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A directory whose last files are being removed has no lock file: another name of it, such as
    /// a bind mount, must not get a new store.
    #[test]
    fn directory_that_is_being_removed_is_not_locked() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("store");
        fs::create_dir(&path).unwrap();
        let removing = File::open(&path).unwrap();
        removing.lock().unwrap();
        let refused = DirectoryLock::acquire(&path);
        assert!(
            matches!(refused, Err(OpenError::Replaced { .. })),
            "{refused:?}"
        );
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        // The removal has failed.
        drop(removing);
        let lock = DirectoryLock::acquire(&path).unwrap();
        lock.remove_directory().unwrap();
        assert!(!path.exists());
    }

    /// The marks go last, and not while another process looks for them.
    #[test]
    fn removal_waits_for_those_that_look_at_the_marks() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("store");
        let lock = DirectoryLock::acquire(&path).unwrap();
        lock.retire().unwrap();
        let data = path.join("data");
        fs::write(&data, "1").unwrap();
        let looking = File::open(&path).unwrap();
        looking.lock_shared().unwrap();
        let removing = std::thread::spawn(move || lock.remove_directory());
        while data.exists() {
            std::thread::yield_now();
        }
        // Time for a removal that does not wait; one that does passes whatever the time.
        std::thread::sleep(10 * LOCK_RETRY_INTERVAL);
        assert!(is_retired(&path).unwrap());
        assert!(path.join(LOCK).exists());
        drop(looking);
        removing.join().unwrap().unwrap();
        assert!(!path.exists());
    }
}
