//! What verification tells of something that is wrong.

use std::fmt;

use crate::store::Key;

crate::model::names::string_enum! {
    /// In what way something is not as it should be.
    #[non_exhaustive]
    DifferenceCode {
        /// The key or the value is not one that this program writes.
        Unreadable = "unreadable",
        /// The key is of no family that this program knows.
        UnknownFamily = "unknown_family",
        /// An entry is not there.
        Missing = "missing",
        /// An entry must not be there.
        Unexpected = "unexpected",
        /// An entry says something else than another one that it has to agree with, or than its own key.
        Mismatch = "mismatch",
        /// A counter says something else than a recount.
        Count = "count",
        /// Something expires, or waits to be done, and no due entry leads to it.
        NotDue = "not_due",
        /// A role is held or led to that does not exist.
        UnknownRole = "unknown_role",
        /// A sealed secret does not open.
        Sealed = "sealed",
        /// The identifiers of audit entries have a gap, or two entries share one.
        AuditSequence = "audit_sequence",
        /// The store is what an interrupted restore left.
        Unfinished = "unfinished",
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// In what way.
    pub code: DifferenceCode,
    /// The entry that is wrong, or missing.
    pub key: Key,
    /// The entry that wants it otherwise, where that is another one.
    pub because: Option<Key>,
    /// What should be there, for people.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            code,
            key,
            because,
            expected,
            found,
        } = self;
        write!(f, "{key}: {code}: expected {expected}, found {found}")?;
        match because {
            Some(because) => write!(f, " (because of {because})"),
            None => Ok(()),
        }
    }
}
