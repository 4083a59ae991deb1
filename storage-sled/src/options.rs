//! Settings specific to sled.

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
