//! Bearer tokens that a front end has verified.

use std::time::Duration;

use bytes::Bytes;
use http::Request;

use super::headers;
use crate::access::{Credential, CredentialKind};
use crate::error::Error;
use crate::model::{MemberId, OrgId};

/// Bearer token of another issuer, as a front end has verified it: an extension of the request.
///
/// [`Api`](super::Api) takes it in place of the token in the header, for operations with a bearer
/// token only. A front end sets it for every request with such a token, valid or not, and never from
/// anything that a client states without proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifiedBearer {
    /// It is of this member. What the request creates belongs to the member and depends on no
    /// credential.
    Member {
        /// Organisation of the member.
        organization: OrgId,
        /// The member.
        member: MemberId,
    },
    /// It is not valid, for this reason.
    Invalid(&'static str),
    /// It could not be verified now.
    Unavailable,
}

/// Time after which a request can be repeated whose token could not be verified.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Returns the credential of a request, of the kind that the operation uses.
///
/// # Errors
/// [`Error::Unauthenticated`] if it is missing, malformed or not valid; [`Error::Unavailable`] if it
/// could not be verified.
pub(super) fn credential(
    request: &Request<Bytes>,
    kind: CredentialKind,
) -> Result<Credential, Error> {
    let verified = request.extensions().get::<VerifiedBearer>();
    match verified.filter(|_| kind == CredentialKind::Bearer) {
        None => headers::credential(request.headers(), kind),
        Some(VerifiedBearer::Member {
            organization,
            member,
        }) => Ok(Credential::Trusted {
            org: *organization,
            member: *member,
        }),
        Some(VerifiedBearer::Invalid(reason)) => Err(Error::Unauthenticated { reason }),
        Some(VerifiedBearer::Unavailable) => Err(Error::Unavailable {
            retry_after: RETRY_AFTER,
            detail: "the access token cannot be verified now".to_owned(),
        }),
    }
}
