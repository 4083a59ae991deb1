//! Caller of a request, as identified before it is handled.

use crate::service::VerifiedMessage;

/// Result of [`Api::identify`] for a request.
#[derive(Clone, Debug)]
pub(super) enum Identity {
    /// Its credential is known.
    Known,
    /// Its credential is not valid, for this reason.
    Unknown(&'static str),
    /// It is a message with a valid signature.
    Sender(Box<VerifiedMessage>),
}
