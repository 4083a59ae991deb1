//! Parts for front ends that add paths of their own, such as those for signing in.
//!
//! Their requests are read, and their responses written, as those of the operations are.

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use serde::Serialize;

use super::client_scheme::ClientScheme;
use super::headers;
use super::query::Query;
use super::response::{ApiResponse, Challenge, error_response};
use super::{Authentication, ErrorStyle, KnownCaller};
use crate::access::{Credential, CredentialKind, Secret};
use crate::error::Error;
use crate::service::{KnowledgeService, PageRequest};

pub use super::headers::{SESSION_COOKIE, bearer, cookie};

/// Returns the session in the cookie of a request.
///
/// # Errors
/// [`Error::Unauthenticated`] if it is missing, malformed or repeated.
pub fn session(headers: &HeaderMap) -> Result<Secret, Error> {
    match headers::credential(headers, CredentialKind::Session)? {
        Credential::Secret(secret) => Ok(secret),
        Credential::Trusted { .. } => Err(Error::internal("headers vouch for nobody")),
    }
}

/// Rejects a request with an unsafe method that a page of another origin sent.
///
/// It is the rule of the operations with a session, except that no origin is trusted: a program,
/// whose requests have neither `Sec-Fetch-Site` nor `Origin`, is not rejected.
///
/// # Errors
/// [`Error::Forbidden`].
pub fn require_same_origin(
    headers: &HeaderMap,
    method: &Method,
    scheme: ClientScheme,
) -> Result<(), Error> {
    headers::reject_cross_site(headers, method, scheme, &[])
}

/// Rejects a body whose content type is not JSON.
///
/// # Errors
/// [`Error::UnsupportedMediaType`].
pub fn require_json(headers: &HeaderMap, body: &[u8]) -> Result<(), Error> {
    headers::require_json(headers, !body.is_empty())
}

/// Reads the query of a list: `limit` and `cursor`.
///
/// # Errors
/// [`Error::InvalidRequest`], also for other parameters.
pub fn page(uri: &Uri) -> Result<PageRequest, Error> {
    let mut query = Query::parse(uri);
    let page = query.page();
    query.finish(page)
}

/// Reads whether a request that ends a credential also ends what that created: the query parameter
/// `with_created`, false if it is absent.
///
/// # Errors
/// [`Error::InvalidRequest`] for another value or an unknown parameter.
pub fn with_created(uri: &Uri) -> Result<bool, Error> {
    let mut query = Query::parse(uri);
    let with_created = query.flag("with_created");
    query.finish(with_created.unwrap_or(false))
}

/// Identifies the caller of a session, as [`Api::identify`](super::Api::identify) does.
pub async fn identify(service: &KnowledgeService, session: Secret) -> Option<KnownCaller> {
    let credential = Credential::Secret(session);
    let (organization, member) = service
        .recognize(&credential, CredentialKind::Session)
        .await
        .ok()?;
    Some(KnownCaller {
        organization,
        principal: member.0,
        acts_for: None,
    })
}

/// Returns a JSON response, which nobody may store.
pub fn json<T: Serialize>(status: StatusCode, body: &T) -> Response<Bytes> {
    ApiResponse::json(status, body).into_response()
}

/// Returns the response to an error, with a JSON body and the challenge of a session.
#[must_use]
pub fn error(error: Error) -> Response<Bytes> {
    let error = &match error {
        Error::Conflict => Error::unavailable("contention"),
        error => error,
    };
    let challenge = Challenge {
        wanted: Authentication::Session,
        has_token: false,
    };
    error_response(error, ErrorStyle::Body, challenge)
}
