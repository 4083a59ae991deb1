//! The lock of a directory: one store of one process has it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::directory::{create_directory, refuse_foreign, sync_directory};
use crate::error::OpenError;

pub(crate) const LOCK: &str = "knowledge-store.lock";
/// The file that says that another directory took the place of this one.
pub(crate) const REPLACED: &str = "knowledge-store.replaced";

/// The longest wait for a lock without a named holder.
const LETTING_GO_MAX: Duration = Duration::from_secs(1);
/// Time between two attempts at it.
const LETTING_GO_INTERVAL: Duration = Duration::from_millis(5);
/// The most locks that turn out to be of a directory which was replaced meanwhile.
const REPLACEMENTS_MAX: usize = 16;

/// A directory that this process has for a store, until this is dropped.
///
/// While it is held, the directory is the one that its path names: the lock file is compared with the path, device and
/// inode, after it was locked. A program that replaces the directory of a store keeps the lock until the old directory
/// is gone, and [retires](Self::retire) it before it gets another name: whoever comes by another name of it, such as a
/// bind mount, is then told so.
#[derive(Debug)]
pub struct DirectoryLock {
    path: PathBuf,
    file: File,
    is_created: bool,
}

impl DirectoryLock {
    /// Locks the directory, which is created with everything above it if it is missing. What is created is synced.
    ///
    /// # Errors
    /// [`OpenError::InUse`], [`OpenError::Foreign`], [`OpenError::Replaced`], [`OpenError::Io`].
    pub fn acquire(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        for _ in 0..REPLACEMENTS_MAX {
            let is_created = create_directory(path).map_err(OpenError::io(path))?;
            let file = match refuse_foreign(path).and_then(|()| lock(path)) {
                // The directory was moved away or removed since.
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
                // Others may have put files there before it was locked.
                refuse_foreign(path)?;
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

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets go of the directory. One that was created for this lock is removed, if nothing else was put there; any
    /// other stays as it is, with its lock file.
    pub fn abandon(self) {
        if self.is_created {
            let _ = fs::remove_file(self.path.join(LOCK));
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Notes, durably, that another directory takes the place of this one. From then on nobody opens it, whatever
    /// name they have for it.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn retire(&self) -> io::Result<()> {
        File::create(self.path.join(REPLACED))?.sync_all()?;
        sync_directory(&self.path)
    }

    /// Follows the directory to another name that it got.
    pub fn moved_to(&mut self, path: impl Into<PathBuf>) {
        self.path = path.into();
    }

    /// Removes the directory. What keeps others out goes last, and the lock is held until then.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn remove_directory(self) -> io::Result<()> {
        remove_directory(&self.path)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // The file stays, so that nobody locks one that another process is about to remove.
        let _ = self.file.set_len(0);
    }
}

/// Takes back what [`DirectoryLock::retire`] noted, if it did.
///
/// # Errors
/// Those of the operating system.
pub fn reinstate_directory(path: &Path) -> io::Result<()> {
    match fs::remove_file(path.join(REPLACED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_directory(path)),
    }
}

/// True if [`DirectoryLock::retire`] noted that another directory took the place of this one.
///
/// # Errors
/// Those of the operating system.
pub fn is_retired(path: &Path) -> io::Result<bool> {
    path.join(REPLACED).try_exists()
}

/// Removes the directory of a store, what keeps others out of it last.
///
/// # Errors
/// Those of the operating system.
pub fn remove_directory(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == LOCK || name == REPLACED {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    for name in [REPLACED, LOCK] {
        match fs::remove_file(path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir(path)
}

/// True if the open file is the one that the path names.
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
    // Elsewhere a file that is open cannot be removed or renamed.
    path.exists()
}

/// The process that wrote itself into the lock file.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Locks the file in the directory. A lock without a named holder is waited for: its holder has just let go, and a
/// process that was being started at that moment has the file for as long as that takes; or its holder is about to
/// write its name.
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
                if holder.is_some() || began.elapsed() >= LETTING_GO_MAX {
                    let path = directory.to_owned();
                    return Err(OpenError::InUse { path, holder });
                }
                std::thread::sleep(LETTING_GO_INTERVAL);
            }
            Err(TryLockError::Error(error)) => return Err(OpenError::io(&path)(error)),
        }
    }
    let name_holder = |file: &mut File| {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        writeln!(file, "{}", std::process::id())
    };
    name_holder(&mut file).map_err(OpenError::io(&path))?;
    Ok(file)
}
