//! What the operating system tells of this process, under the names that every exporter gives it.
//!
//! Read from `/proc`: elsewhere than on Linux there is nothing of it.

use super::catalogue::{
    BUILD_INFO, PROCESS_CPU, PROCESS_FDS, PROCESS_FDS_MAX, PROCESS_RESIDENT, PROCESS_START,
    PROCESS_VIRTUAL,
};
use super::scraped::{Readings, Scraped};

/// The metrics of this process.
pub(super) fn scraped() -> Scraped {
    let descriptions = [
        BUILD_INFO,
        PROCESS_START,
        PROCESS_CPU,
        PROCESS_RESIDENT,
        PROCESS_VIRTUAL,
        PROCESS_FDS,
        PROCESS_FDS_MAX,
    ];
    Scraped::new(&descriptions, |readings| {
        readings.fact(&BUILD_INFO, &[env!("CARGO_PKG_VERSION")]);
        read(readings);
    })
}

#[cfg(target_os = "linux")]
fn read(readings: &mut Readings) {
    use rustix::process::{Resource, getrlimit};

    let page_bytes = rustix::param::page_size() as u64;
    if let Some((pages, resident)) = linux::memory_pages() {
        readings.number(&PROCESS_VIRTUAL, pages * page_bytes);
        readings.number(&PROCESS_RESIDENT, resident * page_bytes);
    }
    if let Some(times) = linux::times() {
        readings.real(&PROCESS_CPU, times.cpu_seconds);
        readings.real(&PROCESS_START, times.started);
    }
    if let Some(files) = linux::open_files() {
        readings.number(&PROCESS_FDS, files);
    }
    if let Some(files) = getrlimit(Resource::Nofile).current {
        readings.number(&PROCESS_FDS_MAX, files);
    }
}

#[cfg(not(target_os = "linux"))]
fn read(_readings: &mut Readings) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::time::{SystemTime, UNIX_EPOCH};

    use rustix::time::{ClockId, clock_gettime};

    /// In `/proc/self/stat`, counted from behind the command: time in the process itself.
    const UTIME: usize = 11;
    /// Time in the system for it.
    const STIME: usize = 12;
    /// When it started, since the machine did.
    const STARTTIME: usize = 19;

    pub(super) struct Times {
        pub(super) cpu_seconds: f64,
        pub(super) started: f64,
    }

    /// All pages, and those in RAM.
    pub(super) fn memory_pages() -> Option<(u64, u64)> {
        let text = fs::read_to_string("/proc/self/statm").ok()?;
        let mut pages = text.split_ascii_whitespace().map(|word| word.parse().ok());
        Some((pages.next()??, pages.next()??))
    }

    pub(super) fn times() -> Option<Times> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The command stands in parentheses and may have anything in it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
        #[expect(clippy::cast_precision_loss, reason = "a hundred or so")]
        let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
        // Reckoned back from now: where a unit hides the rest of /proc, the file with the time of the boot is not there.
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

    /// The directory is open while it is counted.
    pub(super) fn open_files() -> Option<u64> {
        let files = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
        Some(files.saturating_sub(1))
    }
}
