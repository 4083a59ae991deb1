//! Limits of the fan-out.

/// Limits of one commit of the fan-out, and the number of commits of one call.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct FanOutLimits {
    /// Maximum number of commits of one call.
    pub steps: u32,
    /// Maximum number of deliveries.
    ///
    /// With related entries they stay far below the limits of a commit.
    pub deliveries: usize,
    /// Maximum number of recalls that are read.
    pub recalls: usize,
    /// Maximum number of memories and of citation entries that are examined, exceeded only by an
    /// event with more memories.
    pub looks: usize,
}

impl Default for FanOutLimits {
    fn default() -> Self {
        Self {
            steps: 16,
            deliveries: 200,
            recalls: 100,
            looks: 10_000,
        }
    }
}
