//! The audit log: how it is written, stored and read.

pub(crate) mod denied;
pub(crate) mod entry;
pub(crate) mod log;
pub(crate) mod pages;
pub(crate) mod runs;
pub(crate) mod write;
pub(crate) mod written_in_hour;
