//! Messages of failed exchanges. They quote nothing that the peer sent.

use std::error::Error;
use std::io;

use knowledge_core::model::{DeliveryFailure, DeliveryFailureCode as Code, RejectedUrl};
use tokio_rustls::rustls;

use super::resolver::{AddressRejected, ResolutionTimedOut};
use crate::http_client::{cause, causes, tls_problem};

pub(super) fn failure(code: Code, message: impl Into<String>) -> DeliveryFailure {
    DeliveryFailure {
        code,
        message: message.into(),
    }
}

/// Converts a [`RejectedUrl`], whose message completes the name of a field.
pub(super) fn rejected_url(refused: RejectedUrl) -> DeliveryFailure {
    failure(Code::AddressRefused, format!("the URL {refused}"))
}

pub(super) fn timed_out() -> DeliveryFailure {
    failure(Code::TimedOut, "the request timed out")
}

/// Converts an error that occurred before the response.
pub(super) fn before_response(error: &reqwest::Error) -> DeliveryFailure {
    if let Some(refused) = cause::<AddressRejected>(error) {
        return failure(Code::AddressRefused, refused.to_string());
    }
    if let Some(late) = cause::<ResolutionTimedOut>(error) {
        return failure(Code::DnsFailed, late.to_string());
    }
    if error.is_dns() {
        return failure(Code::DnsFailed, "the name could not be resolved");
    }
    if let Some(error) = cause::<rustls::Error>(error) {
        return failure(Code::TlsFailed, tls_problem(error));
    }
    if error.is_connect() {
        return match system_error(error) {
            // The operating system never reports this for a connect: the handshake ended early.
            Some(io::ErrorKind::UnexpectedEof) => failure(
                Code::TlsFailed,
                "the connection was closed during the TLS handshake",
            ),
            Some(io::ErrorKind::ConnectionRefused) => {
                failure(Code::ConnectionFailed, "the connection was refused")
            }
            Some(io::ErrorKind::ConnectionReset) => {
                failure(Code::ConnectionFailed, "the connection was reset")
            }
            Some(io::ErrorKind::TimedOut) => {
                failure(Code::ConnectionFailed, "the connection timed out")
            }
            _ => failure(Code::ConnectionFailed, "the host could not be reached"),
        };
    }
    in_response(error)
}

/// Converts an error that occurred on an open connection.
pub(super) fn in_response(error: &reqwest::Error) -> DeliveryFailure {
    let message = match cause::<hyper::Error>(error) {
        Some(error) if error.is_parse_too_large() => "the header of the response is too large",
        Some(error) if error.is_parse() => "the response is not HTTP",
        _ => "the connection was closed before the end of the response",
    };
    failure(Code::AnswerBroken, message)
}

/// Returns the innermost error of the operating system.
fn system_error(error: &reqwest::Error) -> Option<io::ErrorKind> {
    let errors = causes(error).filter_map(<dyn Error>::downcast_ref::<io::Error>);
    errors.last().map(io::Error::kind)
}
