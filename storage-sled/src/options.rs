//! Settings specific to sled.

use std::fmt;

/// Settings specific to sled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SledSettings {
    /// Trade-off between speed and space.
    pub mode: Mode,
}

/// Trade-off between speed and space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Fast writes; overwrites let the file grow to several times its contents.
    #[default]
    HighThroughput,
    /// A smaller file at the cost of more writes.
    LowSpace,
}

impl Mode {
    /// Every mode.
    pub const ALL: &'static [Self] = &[Self::HighThroughput, Self::LowSpace];
}

/// Writes `high_throughput` or `low_space`.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HighThroughput => "high_throughput",
            Self::LowSpace => "low_space",
        })
    }
}
