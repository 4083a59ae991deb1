//! Why an exchange came to no answer, in words for people. Nothing that the other side said is in them.

use std::error::Error;
use std::io;

use knowledge_core::model::{DeliveryFailure, DeliveryFailureCode as Code, RefusedUrl};
use tokio_rustls::rustls::{self, CertificateError};

use super::resolver::{NamedAddressRefused, NotResolvedInTime};

pub(super) fn failure(code: Code, message: impl Into<String>) -> DeliveryFailure {
    DeliveryFailure {
        code,
        message: message.into(),
    }
}

/// The URL, which [`RefusedUrl`] speaks of as a field of a request.
pub(super) fn refused_url(refused: RefusedUrl) -> DeliveryFailure {
    failure(Code::AddressRefused, format!("the URL {refused}"))
}

pub(super) fn timed_out() -> DeliveryFailure {
    failure(Code::TimedOut, "the exchange took too long")
}

/// What came in between before there was an answer.
pub(super) fn before_the_answer(error: &reqwest::Error) -> DeliveryFailure {
    if let Some(refused) = cause::<NamedAddressRefused>(error) {
        return failure(Code::AddressRefused, refused.to_string());
    }
    if let Some(late) = cause::<NotResolvedInTime>(error) {
        return failure(Code::DnsFailed, late.to_string());
    }
    if error.is_dns() {
        return failure(Code::DnsFailed, "the name could not be looked up");
    }
    if let Some(error) = cause::<rustls::Error>(error) {
        return failure(Code::TlsFailed, tls_problem(error));
    }
    if error.is_connect() {
        return match system_error(error) {
            // No system says this of a connection that does not come about: it is the handshake that ended early.
            Some(io::ErrorKind::UnexpectedEof) => failure(
                Code::TlsFailed,
                "the connection was closed in the handshake",
            ),
            Some(io::ErrorKind::ConnectionRefused) => {
                failure(Code::ConnectionFailed, "the connection was refused")
            }
            Some(io::ErrorKind::ConnectionReset) => {
                failure(Code::ConnectionFailed, "the connection was reset")
            }
            Some(io::ErrorKind::TimedOut) => {
                failure(Code::ConnectionFailed, "the host does not answer")
            }
            _ => failure(Code::ConnectionFailed, "the host could not be reached"),
        };
    }
    in_the_answer(error)
}

/// What came in between after the connection had come about.
pub(super) fn in_the_answer(error: &reqwest::Error) -> DeliveryFailure {
    let message = match cause::<hyper::Error>(error) {
        Some(error) if error.is_parse_too_large() => "the header of the answer is too large",
        Some(error) if error.is_parse() => "the answer is no HTTP",
        _ => "the connection was closed before the end of the answer",
    };
    failure(Code::AnswerBroken, message)
}

fn tls_problem(error: &rustls::Error) -> &'static str {
    let rustls::Error::InvalidCertificate(certificate) = error else {
        return "no TLS could be agreed upon";
    };
    match certificate {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no trusted authority vouches for the certificate"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for another host"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet"
        }
        CertificateError::Revoked => "the certificate is revoked",
        _ => "the certificate cannot be used",
    }
}

/// The first among the causes of an error that is of this type.
fn cause<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    causes(error).find_map(<dyn Error>::downcast_ref)
}

/// What the system said, behind whatever was wrapped around it.
fn system_error(error: &reqwest::Error) -> Option<io::ErrorKind> {
    let errors = causes(error).filter_map(<dyn Error>::downcast_ref::<io::Error>);
    errors.last().map(io::Error::kind)
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |error| cause_of(*error))
}

fn cause_of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    // What such an error carries is not among its sources, only what caused that.
    match error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(carried) => Some(carried),
        None => error.source(),
    }
}
