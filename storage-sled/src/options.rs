//! The settings that sled alone has.

/// The settings that sled alone has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SledSettings {
    /// The balance of speed and space.
    pub mode: Mode,
}

/// The balance of speed and space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Speed; the file grows to several times its contents under overwrites.
    #[default]
    HighThroughput,
    /// A smaller file, for more writing.
    LowSpace,
}
