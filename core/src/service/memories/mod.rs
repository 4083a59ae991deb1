//! Memories: reading, changes, ingestion, their sources, and the recalls that cite them.

pub(crate) mod access;
mod access_filter;
pub(crate) mod audiences;
pub(crate) mod bulk;
pub(crate) mod change;
pub(crate) mod change_log;
pub(crate) mod counts;
pub(crate) mod derived;
pub(crate) mod fair_queue;
pub(crate) mod ingest;
pub(crate) mod label_counts;
pub(crate) mod labels;
pub(crate) mod read;
pub(crate) mod recalls;
pub(crate) mod sources;
