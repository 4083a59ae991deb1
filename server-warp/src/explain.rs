//! Errors of the service, explained to operators.

use knowledge_core::Error;

/// Describes an error with its details, which operators may see and clients may not.
#[must_use]
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidRequest { fields } => {
            let problems = fields.iter().map(ToString::to_string);
            problems.collect::<Vec<_>>().join("; ")
        }
        Error::Internal { detail } | Error::Unavailable { detail, .. } => {
            format!("{error} ({detail})")
        }
        other => other.to_string(),
    }
}
