//! Files that this crate keeps in a store's directory, beside the engine's files.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::OpenError;

pub(crate) const MARKER: &str = "knowledge-store.json";
pub(crate) const MARKER_NEW: &str = "knowledge-store.json.new";
pub(crate) const MARK: &str = "knowledge-store.mark";
/// File that exists while a store is open, and after an unclean close.
pub(crate) const OPEN: &str = "knowledge-store.open";
/// Directory in the root of a new file system.
const LOST_AND_FOUND: &str = "lost+found";
pub(crate) const LOCK: &str = "knowledge-store.lock";
/// File that marks a directory as replaced by another one.
pub(crate) const REPLACED: &str = "knowledge-store.replaced";

/// Creates a directory and its missing parents, and syncs each of them. Returns true if it was
/// missing.
///
/// Only the owner may access the directory, because its contents are not encrypted.
///
/// # Errors
/// I/O errors.
pub(crate) fn create_directory(path: &Path) -> io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    if path.exists() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "not a directory",
        ));
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    create_parents(parent)?;
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        // Another process created it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        created => created.and_then(|()| sync_directory(parent)).map(|()| true),
    }
}

fn create_parents(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    create_parents(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created.and_then(|()| {
            if parent.as_os_str().is_empty() {
                sync_directory(Path::new("."))
            } else {
                sync_directory(parent)
            }
        }),
    }
}

#[cfg(unix)]
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
pub(crate) fn sync_directory(_path: &Path) -> io::Result<()> {
    // Other systems do not sync directories.
    Ok(())
}

pub(crate) fn reject_foreign(path: &Path) -> Result<(), OpenError> {
    let mut example = None;
    for entry in fs::read_dir(path).map_err(OpenError::io(path))? {
        let name = entry.map_err(OpenError::io(path))?.file_name();
        match name.to_str() {
            Some(MARKER) => return Ok(()),
            Some(MARKER_NEW | LOCK | MARK | OPEN | REPLACED | LOST_AND_FOUND) => {}
            _ => example = Some(PathBuf::from(name)),
        }
    }
    match example {
        None => Ok(()),
        Some(example) => Err(OpenError::Foreign {
            path: path.to_owned(),
            example,
        }),
    }
}
