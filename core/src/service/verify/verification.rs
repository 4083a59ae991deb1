//! Result of a verification.

use super::difference::Difference;

/// Maximum number of differences that are kept; further ones are only counted.
pub const DIFFERENCES_KEPT_MAX: usize = 1_000;

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Number of entries read.
    pub entries: u64,
    /// Number of sealed secrets opened; `None` without a sealing key.
    pub secrets: Option<u64>,
    /// Differences, at most [`DIFFERENCES_KEPT_MAX`]; empty for an intact store.
    pub differences: Vec<Difference>,
    /// Total number of differences, including those that are not kept.
    pub differences_total: u64,
}
