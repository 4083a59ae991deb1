//! Reasons for which sign-ins fail.

/// Reason for which a sign-in fails. The text is for the log; it contains nothing secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignInError {
    /// The browser has begun no such sign-in, or too long ago.
    #[error("no such sign-in was begun in this browser")]
    UnknownAttempt,
    /// The place to return to is not one of the console.
    #[error("the place to return to is not one of the console")]
    InvalidReturn,
    /// The provider, or the person there, has refused.
    #[error("the provider reports: {0}")]
    Refused(String),
    /// The provider does not accept the code, which is used up or not for this sign-in.
    #[error("the provider does not accept the code")]
    InvalidCode,
    /// A response of the provider cannot be trusted or understood.
    #[error("{0}")]
    InvalidResponse(String),
    /// The provider cannot be reached, or is in trouble.
    #[error("{0}")]
    Unavailable(String),
    /// The person is no member and does not become one.
    #[error("{0}")]
    NotMember(&'static str),
    /// The configuration does not fit the service.
    #[error("{0}")]
    Misconfigured(String),
    /// Error of the service.
    #[error(transparent)]
    Service(#[from] knowledge_core::Error),
}

/// Returns a short text of the provider or of the browser for a line of the log.
pub(super) fn for_log(text: &str) -> String {
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
    text.chars().filter(is_plain).take(64).collect()
}
