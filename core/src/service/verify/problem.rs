//! Problems of entries by themselves.

use super::difference::DifferenceCode;
use super::expectation::Expectation;

/// A problem of an entry by itself.
pub(super) struct Problem {
    pub(super) code: DifferenceCode,
    pub(super) expected: String,
    pub(super) found: String,
}

impl Problem {
    pub(super) fn new(
        code: DifferenceCode,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self {
            code,
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(super) fn unreadable(found: impl Into<String>) -> Self {
        let expected = "an entry that this program writes";
        Self::new(DifferenceCode::Unreadable, expected, found)
    }
}

/// Result of reading an entry.
pub(super) type Expectations = Result<Vec<Expectation>, Problem>;
