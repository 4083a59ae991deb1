//! Metrics of this process from the operating system, under the names that every exporter uses.
//!
//! Read from `/proc`: on platforms other than Linux there are none. The collector of the crate
//! `prometheus` is not used: it reads the boot time from `/proc/stat`, which `ProcSubset=pid` in
//! `deploy/knowledge.service` hides, so that the start time would be 0; and it counts whole seconds
//! of processor time.

use super::catalogue::{
    BUILD_INFO, PROCESS_CPU, PROCESS_FDS, PROCESS_FDS_MAX, PROCESS_RESIDENT, PROCESS_START,
    PROCESS_VIRTUAL,
};
use super::scrape::{Samples, ScrapeCollector};

/// Returns a collector of this process's metrics.
pub(super) fn collector() -> ScrapeCollector {
    let descriptions = [
        BUILD_INFO,
        PROCESS_START,
        PROCESS_CPU,
        PROCESS_RESIDENT,
        PROCESS_VIRTUAL,
        PROCESS_FDS,
        PROCESS_FDS_MAX,
    ];
    ScrapeCollector::new(&descriptions, |samples| {
        samples.info(&BUILD_INFO, &[env!("CARGO_PKG_VERSION")]);
        read(samples);
    })
}

#[cfg(target_os = "linux")]
fn read(samples: &mut Samples) {
    use rustix::process::{Resource, getrlimit};

    let page_bytes = rustix::param::page_size() as u64;
    if let Some((pages, resident)) = linux::memory_pages() {
        samples.integer(&PROCESS_VIRTUAL, pages * page_bytes);
        samples.integer(&PROCESS_RESIDENT, resident * page_bytes);
    }
    if let Some(times) = linux::times() {
        samples.float(&PROCESS_CPU, times.cpu_seconds);
        samples.float(&PROCESS_START, times.started);
    }
    if let Some(files) = linux::open_files() {
        samples.integer(&PROCESS_FDS, files);
    }
    if let Some(files) = getrlimit(Resource::Nofile).current {
        samples.integer(&PROCESS_FDS_MAX, files);
    }
}

#[cfg(not(target_os = "linux"))]
fn read(_readings: &mut Samples) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::time::{SystemTime, UNIX_EPOCH};

    use rustix::time::{ClockId, clock_gettime};

    /// Field index of the user CPU time in `/proc/self/stat`, counted after the command name.
    const UTIME: usize = 11;
    /// Field index of the system CPU time.
    const STIME: usize = 12;
    /// Field index of the start time, in ticks since boot.
    const STARTTIME: usize = 19;

    pub(super) struct Times {
        pub(super) cpu_seconds: f64,
        pub(super) started: f64,
    }

    /// Returns the number of all pages and of those in RAM.
    pub(super) fn memory_pages() -> Option<(u64, u64)> {
        let text = fs::read_to_string("/proc/self/statm").ok()?;
        let mut pages = text.split_ascii_whitespace().map(|word| word.parse().ok());
        Some((pages.next()??, pages.next()??))
    }

    pub(super) fn times() -> Option<Times> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The command is in parentheses and may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
        #[expect(clippy::cast_precision_loss, reason = "a hundred or so")]
        let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
        // Computed back from now: in a sandbox that hides the rest of `/proc`, the file with the
        // boot time is missing.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()?
            .as_secs_f64();
        let up = clock_gettime(ClockId::Boottime);
        #[expect(clippy::cast_precision_loss, reason = "seconds of one boot")]
        let up = up.tv_sec as f64 + up.tv_nsec as f64 / 1e9;
        Some(Times {
            cpu_seconds: (ticks(UTIME)? + ticks(STIME)?) / ticks_per_second,
            started: now - up + ticks(STARTTIME)? / ticks_per_second,
        })
    }

    /// Returns the number of open files, without the directory that is open while it is read.
    pub(super) fn open_files() -> Option<u64> {
        let files = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
        Some(files.saturating_sub(1))
    }
}
