//! Entries of an input, and what receives them.

use std::ops::ControlFlow;

use super::problem::Problem;
use super::record::Record;

/// One entry of the input.
#[derive(Debug)]
pub(super) struct Entry {
    /// Number of its first line, as an editor counts.
    pub(super) line: u64,
    /// Number of bytes read so far.
    pub(super) bytes: u64,
    pub(super) record: Result<Record, Problem>,
}

/// Message for the user about an input that cannot be read further.
#[derive(Debug)]
pub(super) struct Unreadable(pub(super) String);

/// Sink of entries. It breaks once they are not needed any more.
pub(super) type Sink<'s> = &'s mut dyn FnMut(Entry) -> ControlFlow<()>;

impl Unreadable {
    pub(super) fn at(line: u64, error: impl std::fmt::Display) -> Self {
        Self(format!("cannot read line {line}: {error}"))
    }
}
