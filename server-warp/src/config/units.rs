//! Notation of sizes and times for people; formatting and parsing are exact inverses.

use std::time::Duration;

/// Units of a size, the largest first.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// Parses an integral number of bytes, with or without a unit: `512`, `32KiB`, `2 MB`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().ok()?;
    let unit = unit.trim_start();
    if unit.is_empty() {
        return Some(number);
    }
    let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

/// Formats a size in the largest binary unit that divides it: `1MiB`, and `1000` without a unit.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    let unit = SIZE_UNITS
        .iter()
        .filter(|(name, _)| name.ends_with("iB"))
        .find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) => format!("{}{name}", bytes / factor),
        None => bytes.to_string(),
    }
}

/// Parses a time with its units: `500ms`, `30s`, `1h 30m`.
pub(super) fn parse_time(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

/// Formats a time in the largest unit that divides it: `30s`, `24h`, `7d`.
#[must_use]
pub fn format_time(time: Duration) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let seconds = time.as_secs();
    match (time.subsec_nanos(), seconds) {
        (0, 0) => "0s".to_owned(),
        // One day is written in hours, as is usual.
        (0, _) if seconds > DAY && seconds.is_multiple_of(DAY) => format!("{}d", seconds / DAY),
        (0, _) if seconds.is_multiple_of(60 * 60) => format!("{}h", seconds / (60 * 60)),
        (0, _) if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        (0, _) => format!("{seconds}s"),
        (nanos, _) if nanos % 1_000_000 == 0 => format!("{}ms", time.as_millis()),
        _ => humantime::format_duration(time).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_round_trips_exactly() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1_000),
            ("1KiB", 1_024),
            ("1536B", 1_536),
            ("2 MB", 2_000_000),
            ("3GiB", 3 << 30),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(parse_size(&format_size(bytes)), Some(bytes), "{text}");
        }
        assert_eq!(format_size(1_536 * 1_024), "1536KiB");
        assert_eq!(format_size(2_000_000), "2000000");
        for wrong in [
            "",
            "KiB",
            "-1",
            "1.5KiB",
            "1kib",
            "1 K",
            "99999999TiB",
            "1KiB ",
        ] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn duration_round_trips_exactly() {
        for (time, text) in [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(1), "1ms"),
            (Duration::from_millis(1_500), "1500ms"),
            (Duration::from_secs(30), "30s"),
            (Duration::from_secs(90), "90s"),
            (Duration::from_secs(120), "2m"),
            (Duration::from_secs(24 * 60 * 60), "24h"),
            (Duration::from_secs(7 * 24 * 60 * 60), "7d"),
            (Duration::from_micros(1_500), "1ms 500us"),
        ] {
            assert_eq!(format_time(time), text);
            assert_eq!(parse_time(text), Some(time));
        }
        for wrong in ["", "30", "soon", "-1s"] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }
}
