//! Socket paths, for which systems have a much lower length limit than for other paths.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum length of a socket's path in bytes, without the terminating zero.
const PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// A path short enough for a socket, and the open directory that it may refer to.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    _directory: Option<File>,
}

impl SocketPath {
    /// Returns the path, shortened if it is too long and the system has a way to do so.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidFilename`] if it is still too long; errors of opening its directory.
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

/// Refers to the directory by its open descriptor, whose path is short.
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
