//! The machine: its name, and whether something else runs on it.

use std::time::{Duration, Instant};

use crate::process;

/// Time over which the load is measured.
const MEASURED: Duration = Duration::from_secs(1);
/// Part of all processors up to which the machine counts as idle.
const IDLE_MAX: f64 = 0.1;
/// Duration of a tick of the kernel's accounting, in milliseconds.
const TICK_MS: f64 = 10.0;

/// Returns the name of the processor and the number of its cores.
pub(crate) fn description() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| {
        let (field, name) = line.split_once(':')?;
        (field.trim() == "model name").then(|| name.trim().to_owned())
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}, {cores} cores",
        name.as_deref().unwrap_or("unknown processor")
    )
}

/// Waits until the machine is idle, at most for this time; returns true if it is.
pub(crate) async fn wait_until_idle(at_most: Duration) -> bool {
    let began = Instant::now();
    loop {
        let load = load().await;
        if load <= IDLE_MAX {
            return true;
        }
        if began.elapsed() >= at_most {
            println!("the machine is not idle: {:.0} % busy", 100.0 * load);
            return false;
        }
    }
}

/// Returns the part of the processors that is busy; 0 if the system does not report it.
async fn load() -> f64 {
    let before = times();
    tokio::time::sleep(MEASURED).await;
    let (Some((busy, all)), Some((busy_before, all_before))) = (times(), before) else {
        return 0.0;
    };
    (busy - busy_before) / (all - all_before).max(1.0)
}

/// Use of the processors by programs that are not measured.
pub(crate) struct Others {
    own: Vec<u32>,
    times: Option<(f64, f64)>,
    own_ms: f64,
}

impl Others {
    /// Begins to watch all programs except these processes, this one, and their descendants.
    pub(crate) fn watch(mut own: Vec<u32>) -> Self {
        own.push(std::process::id());
        Self {
            times: times(),
            own_ms: process::cpu_ms_of(&own),
            own,
        }
    }

    /// Returns the part of all processors that the others have used; `None` if it is unknown.
    pub(crate) fn used(&self) -> Option<f64> {
        let ((busy_before, all_before), (busy, all)) = (self.times?, times()?);
        let own_ms = process::cpu_ms_of(&self.own);
        let others = TICK_MS * (busy - busy_before) - (own_ms - self.own_ms);
        Some((others / (TICK_MS * (all - all_before)).max(1.0)).max(0.0))
    }
}

/// Returns the busy time of all processors and their whole time, in ticks.
fn times() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
    let times: Vec<f64> = fields
        .split_whitespace()
        .take(8)
        .map_while(|field| field.parse().ok())
        .collect();
    let all: f64 = times.iter().sum();
    let idle = times.get(3)? + times.get(4)?;
    Some((all - idle, all))
}
