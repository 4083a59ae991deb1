//! Schema numbers of the stored form.

/// Version of the stored form. Stores and dumps of another one are rejected.
///
/// The first change of the stored form after a release raises it, and adds an upgrade to
/// [`KnowledgeService::open`](crate::service::KnowledgeService::open),
/// with a test in `core/tests/stored.rs`.
pub const SCHEMA: u32 = 1;

/// Schema number of a store with an unfinished restore.
pub(crate) const UNFINISHED_SCHEMA: u32 = u32::MAX;
