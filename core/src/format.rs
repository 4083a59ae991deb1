//! Schema numbers of the stored form.

/// Version of the stored form. A store of a later one is rejected; one of an earlier one is upgraded.
pub const SCHEMA: u32 = 4;

/// First version with the counters of quotas.
pub(crate) const USAGE_SCHEMA: u32 = 3;

/// Schema number of a store with an unfinished restore.
pub(crate) const UNFINISHED_SCHEMA: u32 = u32::MAX;
