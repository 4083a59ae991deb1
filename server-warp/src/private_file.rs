//! Small files that only their owner may read: keys and tokens.
//!
//! On Unix they are created with mode 0600, and a file that other users may read or that belongs to
//! another user is rejected. A file of root that is passed to this process, such as a credential of
//! systemd, may be readable by its group. On other platforms the permissions of the directory decide.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Maximum size of such a file.
const BYTES_MAX: u64 = 1024 * 1024;

/// Error of accessing such a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateFileError {
    /// Users other than the owner may read the file, or those other than this one if root owns it.
    #[error(
        "{} may be read by other users than its owner (mode {mode:04o}); run chmod 600 {}",
        path.display(), path.display()
    )]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Permissions of the file.
        mode: u32,
    },
    /// The file belongs to another user, who could change it or read it.
    #[error(
        "{} is owned by UID {owner}, and this process runs as UID {user}; run the command as its \
         owner, or change the owner of the file", path.display()
    )]
    OtherOwner {
        /// Path of the file.
        path: PathBuf,
        /// UID of the owner.
        owner: u32,
        /// UID of this process.
        user: u32,
    },
    /// The operating system reported an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file or its directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Returns a function for `map_err` that adds the path to an error of the operating system.
fn at(path: &Path) -> impl FnOnce(io::Error) -> PrivateFileError {
    move |source| PrivateFileError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Reads the file; `None` if it does not exist.
///
/// # Errors
/// [`PrivateFileError::Exposed`] if other users may read it; [`PrivateFileError::OtherOwner`] if it
/// belongs neither to this user nor to root; [`PrivateFileError::Io`], also if it is larger than
/// 1 MiB or not UTF-8.
pub fn read(path: &Path) -> Result<Option<String>, PrivateFileError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(path)(error)),
    };
    reject_exposed(&file, path)?;
    let mut text = String::new();
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    let length = read.map_err(at(path))?;
    if length as u64 > BYTES_MAX {
        let too_large = io::Error::from(io::ErrorKind::FileTooLarge);
        return Err(at(path)(too_large));
    }
    Ok(Some(text))
}

/// Reads a secret of one line, without the end of the line.
///
/// # Errors
/// The problem of the file: it is missing or empty, or [`read`] rejects it.
pub(crate) fn read_secret(path: &Path) -> Result<String, String> {
    let text = read(path).map_err(|error| error.to_string())?;
    let missing = || format!("{} does not exist", path.display());
    let text = text.ok_or_else(missing)?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("{} is empty", path.display())),
        secret => Ok(secret.to_owned()),
    }
}

/// Creates the file atomically and durably; an existing file is not changed.
///
/// # Errors
/// [`PrivateFileError::Io`], also if the file exists.
pub fn create(path: &Path, text: &str) -> Result<(), PrivateFileError> {
    if path.exists() {
        return Err(at(path)(io::ErrorKind::AlreadyExists.into()));
    }
    replace(path, text)
}

/// Writes a new file, which a crash may truncate.
fn write_new(path: &Path, text: &str) -> Result<(), PrivateFileError> {
    let written = private(OpenOptions::new().write(true).create_new(true))
        .open(path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
    written.map_err(at(path))?;
    sync_parent(path)
}

/// Replaces the contents of the file atomically and durably.
///
/// # Errors
/// [`PrivateFileError::Io`].
pub fn replace(path: &Path, text: &str) -> Result<(), PrivateFileError> {
    let new = with_suffix(path, ".new");
    // A file left by a crash may have other permissions.
    remove(&new)?;
    write_new(&new, text)?;
    fs::rename(&new, path).map_err(at(path))?;
    sync_parent(path)
}

/// Removes the file, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), PrivateFileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

/// Appends a suffix to the last component of a path: `data` and `.key` give `data.key`.
#[must_use]
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Opens an existing file for reading and writing, without following a link.
///
/// Returns `None` unless it is a regular file of this user, which no other user may access, under
/// no other name.
#[cfg(unix)]
pub(crate) fn open_own(path: &Path) -> Option<File> {
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{Mode, OFlags, open};

    // Without waiting for the other end of a pipe.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok()?;
    let user = rustix::process::geteuid().as_raw();
    let is_own = found.is_file() && found.uid() == user && found.mode() & 0o077 == 0;
    (is_own && found.nlink() == 1).then_some(file)
}

#[cfg(not(unix))]
pub(crate) fn open_own(path: &Path) -> Option<File> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let open = || OpenOptions::new().read(true).write(true).open(path).ok();
    is_file.then(open).flatten()
}

/// Restricts a new file to its owner.
#[cfg(unix)]
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn reject_exposed(file: &File, path: &Path) -> Result<(), PrivateFileError> {
    use std::os::unix::fs::MetadataExt;

    let metadata = file.metadata().map_err(at(path))?;
    let mode = metadata.mode() & 0o7777;
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    let path = || path.to_owned();
    if is_exposed(mode, owner, user) {
        return Err(PrivateFileError::Exposed { path: path(), mode });
    }
    if owner != user && owner != ROOT {
        let path = path();
        return Err(PrivateFileError::OtherOwner { path, owner, user });
    }
    Ok(())
}

#[cfg(unix)]
const ROOT: u32 = 0;

/// True if users other than the intended ones may read a file. A file that the system passes to
/// this process is owned by root and readable through its group or an access list, which shows as
/// the group's permission: this is how systemd and Kubernetes pass secrets.
#[cfg(unix)]
fn is_exposed(mode: u32, owner: u32, user: u32) -> bool {
    let is_passed_by_root = owner == ROOT && user != ROOT;
    let forbidden = if is_passed_by_root { 0o037 } else { 0o077 };
    mode & forbidden != 0
}

#[cfg(not(unix))]
fn reject_exposed(_file: &File, _path: &Path) -> Result<(), PrivateFileError> {
    Ok(())
}

/// Makes the directory entry of a file durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), PrivateFileError> {
    if cfg!(not(unix)) {
        return Ok(()); // Other platforms cannot sync a directory and order its changes themselves.
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(at(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_file_round_trips_and_is_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        assert_eq!(read(&path).unwrap(), None);
        create(&path, "one").unwrap();
        assert!(create(&path, "two").is_err());
        assert_eq!(read(&path).unwrap().as_deref(), Some("one"));
        replace(&path, "three").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("three"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn private_file_readable_by_others_is_rejected() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        create(&path, "one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("mode 0640"), "{error}");
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn own_file_is_opened_only_under_its_only_name() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let path = at("file");
        assert!(open_own(&path).is_none());
        create(&path, "one").unwrap();
        assert!(open_own(&path).is_some());
        symlink(&path, at("link")).unwrap();
        assert!(open_own(&at("link")).is_none());
        assert!(open_own(directory.path()).is_none());
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), 0o600.into()).unwrap();
        assert!(open_own(&at("pipe")).is_none());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(open_own(&path).is_none());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(&path, at("other")).unwrap();
        assert!(open_own(&path).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn private_file_of_root_may_be_group_readable() {
        let (root, user) = (0, 1_000);
        for (mode, owner, expected) in [
            (0o600, user, false),
            (0o400, user, false),
            (0o640, user, true),
            (0o604, user, true),
            (0o400, root, false),
            (0o440, root, false),
            (0o460, root, true),
            (0o444, root, true),
        ] {
            assert_eq!(
                is_exposed(mode, owner, user),
                expected,
                "{mode:o} of {owner}"
            );
        }
        assert!(is_exposed(0o440, root, root));
    }

    #[test]
    fn suffix_is_appended_to_last_path_component() {
        assert_eq!(
            with_suffix(Path::new("a/data"), ".key"),
            Path::new("a/data.key")
        );
        assert_eq!(
            with_suffix(Path::new("a/data/"), ".key"),
            Path::new("a/data.key")
        );
    }
}
