//! Errors of the service for operators.

use knowledge_core::Error;

/// An error of the service with everything that an operator may know, which is more than a client may.
pub(crate) fn explain(error: &Error) -> String {
    match error {
        Error::InvalidRequest { fields } => {
            let problems = fields
                .iter()
                .map(|problem| format!("{} {}", problem.path, problem.message));
            problems.collect::<Vec<_>>().join("; ")
        }
        Error::Internal { detail } | Error::Unavailable { detail, .. } => {
            format!("{error} ({detail})")
        }
        other => other.to_string(),
    }
}
