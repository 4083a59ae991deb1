//! Settings specific to fjall.

/// Settings specific to fjall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FjallSettings {}
