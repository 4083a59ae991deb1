//! Measured rows: what was measured, its reference in the same run, and the target.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Condition on a row.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "each benchmark uses some of them")]
pub(crate) enum Target {
    /// The value divided by the reference is at most this.
    RatioAtMost(f64),
    /// The value divided by the reference is at least this.
    RatioAtLeast(f64),
    /// The value itself is at most this.
    ValueAtMost(f64),
    /// None: the row gives the scale.
    None,
}

impl Target {
    fn holds(self, value: f64, ratio: f64) -> bool {
        match self {
            Self::RatioAtMost(bound) => ratio <= bound,
            Self::RatioAtLeast(bound) => ratio >= bound,
            Self::ValueAtMost(bound) => value <= bound,
            Self::None => true,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtMost(bound) => write!(f, "ratio at most {bound}"),
            Self::RatioAtLeast(bound) => write!(f, "ratio at least {bound}"),
            Self::ValueAtMost(bound) => write!(f, "value at most {bound}"),
            Self::None => f.write_str("none"),
        }
    }
}

/// One measurement of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) value: f64,
    pub(crate) reference: f64,
    /// Requests, calls or deliveries per second of the measured program.
    pub(crate) per_second: f64,
    /// Processor time of the measured program per request, in microseconds.
    pub(crate) cpu_us: f64,
    /// Processor time of the reference per request, in microseconds.
    pub(crate) reference_cpu_us: f64,
}

impl Sample {
    /// A sample without any figure.
    pub(crate) const UNKNOWN: Self = Self {
        value: f64::NAN,
        reference: f64::NAN,
        per_second: f64::NAN,
        cpu_us: f64::NAN,
        reference_cpu_us: f64::NAN,
    };

    /// Returns a sample of a value and its reference only.
    #[allow(dead_code, reason = "not every benchmark has such rows")]
    pub(crate) fn of(value: f64, reference: f64) -> Self {
        Self {
            value,
            reference,
            ..Self::UNKNOWN
        }
    }
}

/// A row of the results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Identifier of the group of rows.
    pub(crate) row: String,
    pub(crate) name: String,
    /// Median of the rounds.
    pub(crate) value: Option<f64>,
    pub(crate) unit: String,
    /// Median of the reference, in the same unit.
    pub(crate) reference: Option<f64>,
    /// Description of the reference.
    pub(crate) reference_name: String,
    /// Median of the ratios of the rounds.
    pub(crate) ratio: Option<f64>,
    pub(crate) target: String,
    pub(crate) holds: bool,
    pub(crate) per_second: Option<f64>,
    pub(crate) cpu_us: Option<f64>,
    pub(crate) reference_cpu_us: Option<f64>,
    pub(crate) rounds: usize,
    /// True if the machine was idle before the row was measured, and for the most part during it.
    pub(crate) idle: bool,
    /// Part of the processors that other programs used meanwhile, if that is known.
    pub(crate) others: Option<f64>,
}

impl Row {
    /// Creates a row from the samples of its rounds.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn new(row: &str, name: String, unit: &str, target: Target, of: &[Sample]) -> Self {
        let median_of = |get: fn(&Sample) -> f64| median(of.iter().map(get).collect());
        let value = median_of(|sample| sample.value);
        let ratio = median_of(|sample| sample.value / sample.reference);
        // JSON has no number that is not one.
        let known = |number: f64| number.is_finite().then_some(number);
        Self {
            row: row.to_owned(),
            name,
            value: known(value),
            unit: unit.to_owned(),
            reference: known(median_of(|sample| sample.reference)),
            reference_name: String::new(),
            ratio: known(ratio),
            target: target.to_string(),
            holds: target.holds(value, ratio),
            per_second: known(median_of(|sample| sample.per_second)),
            cpu_us: known(median_of(|sample| sample.cpu_us)),
            reference_cpu_us: known(median_of(|sample| sample.reference_cpu_us)),
            rounds: of.len(),
            idle: false,
            others: None,
        }
    }

    /// Sets the description of the reference.
    pub(crate) fn against(mut self, reference: &str) -> Self {
        reference.clone_into(&mut self.reference_name);
        self
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit, reference) = (&self.name, &self.unit, &self.reference_name);
        write!(f, "{name}: {} {unit}", number(self.value))?;
        if !reference.is_empty() {
            let (ratio, of) = (number(self.ratio), number(self.reference));
            write!(f, ", {ratio} times {of} ({reference})")?;
        }
        let holds = if self.holds { "holds" } else { "missed" };
        write!(f, "; {}: {holds}", self.target)
    }
}

/// Returns the middle of some numbers, or the lower one of two.
///
/// # Panics
/// If there are none.
pub(crate) fn median(numbers: Vec<f64>) -> f64 {
    quantile(numbers, 0.5)
}

/// Returns the smallest number that is at least as large as this part of all.
///
/// # Panics
/// If there are none.
pub(crate) fn quantile(mut numbers: Vec<f64>, part: f64) -> f64 {
    assert!(!numbers.is_empty(), "nothing was measured");
    numbers.sort_unstable_by(f64::total_cmp);
    let rank = (numbers.len() as f64 * part).ceil() as usize;
    numbers[rank.clamp(1, numbers.len()) - 1]
}

/// Formats a figure with three significant digits; a dash if it is unknown.
pub(crate) fn number(number: Option<f64>) -> String {
    let Some(number) = number else {
        return "–".to_owned();
    };
    let size = number.abs();
    match size {
        100.0.. => format!("{number:.0}"),
        10.0..100.0 => format!("{number:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{number:.2}"),
    }
}

/// Writes rows as a list of JSON objects.
pub(crate) fn write(path: &Path, rows: &[Row]) {
    let json = serde_json::to_vec_pretty(rows).expect("rows are JSON");
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).expect("the directory can be created");
    }
    std::fs::write(path, json).expect("the file can be written");
}
