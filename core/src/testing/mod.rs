//! For those who test a storage backend, or an application that links this crate.

pub mod conformance;
pub mod faults;
pub mod fixture;
