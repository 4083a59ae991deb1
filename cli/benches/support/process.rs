//! Resources of a process, as Linux reports them; not a number elsewhere.

use std::collections::HashMap;
use std::iter::successors;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Duration of a tick of the kernel's accounting.
const TICK_MS: f64 = 10.0;

/// Beginning of a request that never ends, and occupies a connection of a server.
pub(crate) const HALF_A_HEADER: &[u8] = b"GET /v1/workspaces HTTP/1.1\r\nHost: lo";

/// Lets this program and those that it starts open as many files as the system allows.
///
/// Returns that number, unless there is no limit.
pub(crate) fn raise_open_files() -> Option<u64> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("the limit can be raised to its maximum");
    maximum
}

/// Returns the processor time of a process and its descendants so far.
pub(crate) fn cpu_ms(id: u32) -> f64 {
    cpu_ms_of(&[id])
}

/// Returns the processor time of processes and their descendants so far, each of which counts once.
///
/// Descendants that have ended count, as their parents have waited for them.
pub(crate) fn cpu_ms_of(ids: &[u32]) -> f64 {
    let processes = all();
    if !ids.iter().all(|id| processes.contains_key(id)) {
        return f64::NAN;
    }
    let parent = |id: &u32| processes.get(id).map(|process| process.parent);
    let is_measured = |id| successors(Some(id), parent).any(|one| ids.contains(&one));
    let measured = processes.iter().filter(|(id, _)| is_measured(**id));
    let ticks: f64 = measured.map(|(_, process)| process.ticks).sum();
    ticks * TICK_MS
}

/// A process and the children that it has waited for.
struct Process {
    parent: u32,
    ticks: f64,
}

/// Returns all processes by their identifiers.
fn all() -> HashMap<u32, Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        // None if it ends meanwhile.
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name in parentheses may contain spaces. After it: the state, the parent, and from the
        // twelfth field on `utime`, `stime`, `cutime` and `cstime`.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let times = fields.get(11..15)?.iter();
        let process = Process {
            parent: fields[1].parse().ok()?,
            ticks: times.map(|field| field.parse().unwrap_or(f64::NAN)).sum(),
        };
        Some((id, process))
    });
    processes.collect()
}

/// Returns the largest resident set of a process so far.
pub(crate) fn peak_mib(id: u32) -> f64 {
    status_mib(id, "VmHWM:")
}

/// Returns the resident set of a process.
pub(crate) fn resident_mib(id: u32) -> f64 {
    status_mib(id, "VmRSS:")
}

fn status_mib(id: u32, field: &str) -> f64 {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/status")) else {
        return f64::NAN;
    };
    let size = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = size.and_then(|size| size.trim().strip_suffix(" kB"));
    let kib: f64 = kib.expect("a size").parse().expect("kilobytes");
    kib / 1_024.0
}
