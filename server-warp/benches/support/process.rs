//! Resources of a process, as Linux reports them; not a number elsewhere.

/// Duration of a tick of the kernel's accounting.
const TICK_MS: f64 = 10.0;

/// Returns the processor time of a process so far.
pub(crate) fn cpu_ms(id: u32) -> f64 {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else {
        return f64::NAN;
    };
    // The name in parentheses may contain spaces; `utime` and `stime` are the fields 14 and 15.
    let fields = stat.rsplit_once(") ").expect("a name").1;
    let times = fields.split(' ').skip(11).take(2);
    let ticks: f64 = times
        .map(|field| field.parse::<f64>().expect("ticks"))
        .sum();
    ticks * TICK_MS
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
