//! Limit on open file descriptors, of which each connection needs one.

/// File descriptors reserved for everything that a server opens besides client connections.
///
/// These are the database, the log and the runtime. Deliveries need more, see
/// [`open_files_max`](crate::deliveries::open_files_max).
pub const OPEN_FILES_RESERVED: usize = 256;

/// Returns the number of connections that can be open besides `reserved` other files.
///
/// It is `wanted`, or fewer if the process may not open as many. If it may open fewer than twice
/// `reserved`, connections get half of them. The process's soft limit is raised first, as far as
/// needed and as its hard limit permits.
pub(super) fn connections_max(wanted: usize, reserved: usize) -> usize {
    match raise_soft_limit(wanted.saturating_add(reserved)) {
        None => wanted,
        Some(files) => wanted.min(files - reserved.min(files / 2)).max(1),
    }
}

/// Raises the limit on open files to `wanted` if it can; returns the result, `None` if unlimited.
#[cfg(unix)]
fn raise_soft_limit(wanted: usize) -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let current = limit.current?;
    let target = (wanted as u64).min(limit.maximum.unwrap_or(u64::MAX));
    let raised = Rlimit {
        current: Some(target),
        maximum: limit.maximum,
    };
    let files = if target > current && setrlimit(Resource::Nofile, raised).is_ok() {
        target
    } else {
        current
    };
    Some(usize::try_from(files).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
fn raise_soft_limit(_wanted: usize) -> Option<usize> {
    None
}
