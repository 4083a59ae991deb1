//! Small files that their owner alone may read: keys and tokens.
//!
//! On Unix they are made with mode 0600, and one that others may read is refused; one of root's that is handed to this
//! process, as credentials of systemd are, may be read by its group too. Elsewhere the permissions of the
//! directory decide.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The largest such file that is read, in bytes.
const BYTES_MAX: u64 = 1024 * 1024;

/// Why such a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateFileError {
    /// Others may read it than its owner, or than this process where it is root's.
    #[error(
        "{} may be read by others than its owner (mode {mode:04o}): chmod 600 {}",
        path.display(), path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or its directory.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
}

/// For `map_err`: an error of the operating system about `path`.
fn at(path: &Path) -> impl FnOnce(io::Error) -> PrivateFileError {
    move |source| PrivateFileError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Reads the file; `None` where there is none.
///
/// # Errors
/// [`PrivateFileError::Exposed`] where others may read it; [`PrivateFileError::Io`], also for one of over 1 MiB or
/// one that is not text.
pub fn read(path: &Path) -> Result<Option<String>, PrivateFileError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(path)(error)),
    };
    refuse_exposed(&file, path)?;
    let mut text = String::new();
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    let length = read.map_err(at(path))?;
    if length as u64 > BYTES_MAX {
        let too_large = io::Error::from(io::ErrorKind::FileTooLarge);
        return Err(at(path)(too_large));
    }
    Ok(Some(text))
}

/// Makes the file, whole or not at all; one that is there stays as it is. It is on the disk when this returns.
///
/// # Errors
/// [`PrivateFileError::Io`], also where the file is there.
pub fn create(path: &Path, text: &str) -> Result<(), PrivateFileError> {
    if path.exists() {
        return Err(at(path)(io::ErrorKind::AlreadyExists.into()));
    }
    replace(path, text)
}

/// Writes a new file, which a crash may leave cut off.
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

/// Puts the text in place of what the file has, at once: readers find the one or the other. It is on the disk when
/// this returns.
///
/// # Errors
/// [`PrivateFileError::Io`].
pub fn replace(path: &Path, text: &str) -> Result<(), PrivateFileError> {
    let new = with_suffix(path, ".new");
    // One that was left by a crash may have other permissions.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&new)(error)),
        _ => {}
    }
    write_new(&new, text)?;
    fs::rename(&new, path).map_err(at(path))?;
    sync_parent(path)
}

/// The path with something behind its last name: `data` and `.key` make `data.key`.
#[must_use]
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Makes what these options make readable for its owner alone.
#[cfg(unix)]
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn refuse_exposed(file: &File, path: &Path) -> Result<(), PrivateFileError> {
    use std::os::unix::fs::MetadataExt;

    let metadata = file.metadata().map_err(at(path))?;
    let mode = metadata.mode() & 0o7777;
    let user = rustix::process::geteuid().as_raw();
    if !is_exposed(mode, metadata.uid(), user) {
        return Ok(());
    }
    Err(PrivateFileError::Exposed {
        path: path.to_owned(),
        mode,
    })
}

/// Whether others may read a file than those who own it. One that the system hands to this process is root's, and the
/// process reads it through its group or an access list, which shows as the group's permission: so systemd and
/// Kubernetes pass secrets on.
#[cfg(unix)]
fn is_exposed(mode: u32, owner: u32, user: u32) -> bool {
    const ROOT: u32 = 0;
    let is_handed_over = owner == ROOT && user != ROOT;
    let forbidden = if is_handed_over { 0o037 } else { 0o077 };
    mode & forbidden != 0
}

#[cfg(not(unix))]
fn refuse_exposed(_file: &File, _path: &Path) -> Result<(), PrivateFileError> {
    Ok(())
}

/// Makes the name of a file as durable as the file.
pub(crate) fn sync_parent(path: &Path) -> Result<(), PrivateFileError> {
    if cfg!(not(unix)) {
        return Ok(()); // Elsewhere a directory is no file; the system orders the names itself.
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
    fn what_is_written_is_read_and_belongs_to_its_owner() {
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
    fn a_file_that_others_may_read_is_refused() {
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
    fn only_what_root_hands_over_may_be_read_by_a_group() {
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
    fn a_suffix_stands_behind_the_last_name() {
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
