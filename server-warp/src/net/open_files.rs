//! How many files the process may open: a connection is one.

/// Files kept back for what every server has open that is not a client's connection: the database, the log, the runtime.
/// What deliveries need comes on top, see [`open_files_max`](crate::deliveries::open_files_max).
pub const OPEN_FILES_RESERVED: usize = 256;

/// The connections that can be held at once beside `reserved` other files: `wanted`, or fewer where the process may not
/// open as many. Where it may open fewer than twice what is reserved, half of them are for connections.
///
/// The process's soft limit is raised first, as far as needed and as its hard limit lets it.
pub(super) fn connections_max(wanted: usize, reserved: usize) -> usize {
    match raise_soft_limit(wanted.saturating_add(reserved)) {
        None => wanted,
        Some(files) => wanted.min(files - reserved.min(files / 2)).max(1),
    }
}

/// The files that the process may open, after trying to make that `wanted`; `None` where there is no limit.
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
