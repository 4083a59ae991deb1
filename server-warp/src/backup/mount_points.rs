//! Directories that cannot be renamed, because a file system is mounted at them.

use std::io;
use std::path::Path;

/// List of the mounts of this process (`proc_pid_mountinfo(5)`).
#[cfg(target_os = "linux")]
const MOUNTS: &str = "/proc/self/mountinfo";

/// Returns true if something is mounted at a directory, whose path has no symlinks.
///
/// A mount has another device than its parent, except for a bind mount of a directory of the same
/// file system, such as a volume of a container: only the list of mounts has that.
///
/// # Errors
/// I/O errors.
#[cfg(unix)]
pub(super) fn is_mount_point(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let is_mount = std::fs::metadata(path)?.dev() != std::fs::metadata(parent)?.dev();
    #[cfg(target_os = "linux")]
    // Without the list, the device is all that is known.
    let is_mount = is_mount || is_listed(&std::fs::read(MOUNTS).unwrap_or_default(), path);
    Ok(is_mount)
}

#[cfg(not(unix))]
pub(super) fn is_mount_point(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Returns true if the list of mounts has the path. It is the fifth field of a line.
#[cfg(target_os = "linux")]
fn is_listed(mounts: &[u8], path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;

    let lines = mounts.split(|byte| *byte == b'\n');
    let mut points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.any(|point| unescaped(point) == path.as_os_str().as_bytes())
}

/// Returns a field of the list without its escapes: white space and backslashes are `\NNN`.
#[cfg(target_os = "linux")]
fn unescaped(mut field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    while let Some((first, rest)) = field.split_first() {
        let digits = rest.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        field = if escaped.is_some() { &rest[3..] } else { rest };
    }
    bytes
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Mounts of a container whose volumes are directories of one file system.
    const VOLUMES: &[u8] = b"\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
91 22 8:1 /volumes/a/_data /var/lib/knowledge rw,relatime shared:1 - ext4 /dev/sda1 rw
92 91 8:1 /volumes/b/_data /var/lib/knowledge/data rw,relatime - ext4 /dev/sda1 rw
93 22 8:1 /volumes/c /mnt/with\\040space\\134 rw,relatime - ext4 /dev/sda1 rw
";

    #[test]
    fn bind_mount_of_the_same_file_system_is_listed() {
        for path in [
            "/",
            "/var/lib/knowledge",
            "/var/lib/knowledge/data",
            "/mnt/with space\\",
        ] {
            assert!(is_listed(VOLUMES, Path::new(path)), "{path}");
        }
        for path in [
            "/var",
            "/var/lib/knowledge/data/store",
            "/volumes/a/_data",
            "/mnt/with",
            "",
        ] {
            assert!(!is_listed(VOLUMES, Path::new(path)), "{path}");
        }
        assert!(!is_listed(b"", Path::new("/data")));
    }

    #[test]
    fn mounts_of_this_process_are_found() {
        assert!(is_mount_point(Path::new("/proc")).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        assert!(!is_mount_point(&path).unwrap());
    }
}
