//! Paths of sockets, which systems take up to a length far below that of other paths.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The longest path that a socket's address has room for, in bytes, without the zero behind it.
const PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// A path as the system takes it for a socket. What it rests on stays open with it.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    _directory: Option<File>,
}

impl SocketPath {
    /// A path of any length where the system has a way to name it shortly.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidFilename`] for one that is too long; those of opening its directory.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        if is_short(path) {
            return Ok(Self {
                path: path.to_owned(),
                _directory: None,
            });
        }
        shortened(path)
    }

    pub(super) fn as_path(&self) -> &Path {
        &self.path
    }
}

fn is_short(path: &Path) -> bool {
    path.as_os_str().as_bytes().len() <= PATH_BYTES_MAX
}

/// Through the open directory: however deep it is, its number is short.
#[cfg(target_os = "linux")]
fn shortened(path: &Path) -> io::Result<SocketPath> {
    use std::os::fd::AsRawFd;

    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = File::open(parent)?;
    let through = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let short = through.join(path.file_name().unwrap_or_default());
    if !is_short(&short) {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    Ok(SocketPath {
        path: short,
        _directory: Some(directory),
    })
}

#[cfg(not(target_os = "linux"))]
fn shortened(_path: &Path) -> io::Result<SocketPath> {
    Err(io::ErrorKind::InvalidFilename.into())
}
