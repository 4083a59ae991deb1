//! The settings that fjall alone has.

/// The settings that fjall alone has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FjallSettings {}
