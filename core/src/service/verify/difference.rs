//! Differences that verification reports.

use std::fmt;

use crate::store::Key;

crate::model::names::string_enum! {
    /// Kind of a difference.
    #[non_exhaustive]
    DifferenceCode {
        /// The key or the value is not one that this program writes.
        Unreadable = "unreadable",
        /// The family of the key is unknown to this program.
        UnknownFamily = "unknown_family",
        /// An entry is missing.
        Missing = "missing",
        /// An entry exists that must not exist.
        Unexpected = "unexpected",
        /// An entry contradicts its own key or another entry.
        Mismatch = "mismatch",
        /// A counter differs from the recount.
        Count = "count",
        /// Something expires or awaits processing, but has no scheduled task.
        NotDue = "not_due",
        /// A role that is held, or the target of a redirect, does not exist.
        UnknownRole = "unknown_role",
        /// A sealed secret cannot be opened.
        Sealed = "sealed",
        /// The identifiers of audit entries have a gap, or two entries share one.
        AuditSequence = "audit_sequence",
        /// The store is the result of an interrupted restore.
        Unfinished = "unfinished",
    }
}

/// An entry that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Kind of the difference.
    pub code: DifferenceCode,
    /// Key of the entry that is wrong or missing.
    pub key: Key,
    /// Key of the entry that requires it, if it is another one.
    pub because: Option<Key>,
    /// Expected state, for people.
    pub expected: String,
    /// Actual state, for people.
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
            Some(because) => write!(f, " (required by {because})"),
            None => Ok(()),
        }
    }
}
