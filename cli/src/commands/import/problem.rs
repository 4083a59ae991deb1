//! Reasons for which entries are not imported.

use std::fmt;

use crate::terminal::plain;

/// Reason for which an entry is rejected, or left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Reason, whose text is equal for all entries that have the same problem.
    pub(super) reason: String,
    /// Rest of the message, about this entry only.
    pub(super) detail: String,
    /// True if the entry is over in its own store, and left out for that.
    pub(super) is_past: bool,
}

impl Problem {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self::with(reason, String::new())
    }

    pub(super) fn with(reason: impl Into<String>, detail: impl Into<String>) -> Self {
        // They quote the input, such as the names of fields.
        Self {
            reason: plain(&reason.into()).into_owned(),
            detail: plain(&detail.into()).into_owned(),
            is_past: false,
        }
    }

    /// Creates the reason for which an entry that is over is left out.
    pub(super) fn past(reason: impl Into<String>) -> Self {
        Self {
            is_past: true,
            ..Self::new(reason)
        }
    }

    pub(super) fn not_utf8() -> Self {
        Self::new("is not UTF-8; choose its --encoding, for example windows-1252")
    }

    /// Converts the error of parsing an entry of a document.
    pub(super) fn of_entry(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let problem = text.rsplit_once(" at line ");
        let problem = problem.map_or(&*text, |(problem, _)| problem);
        if error.is_data() {
            return Self::new(problem);
        }
        Self::with("is invalid JSON", format!(": {problem}"))
    }

    /// Converts the error of parsing one line, whose line number is always 1.
    pub(super) fn of_json(error: &serde_json::Error) -> Self {
        let column = error.column();
        if !error.is_data() {
            return Self::with("is invalid JSON", format!(" at column {column}"));
        }
        let text = error.to_string();
        let problem = text.rsplit_once(" at line ");
        let reason = problem.map_or(&*text, |(problem, _)| problem);
        Self::with(reason, format!(" (column {column})"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.reason, self.detail)
    }
}
