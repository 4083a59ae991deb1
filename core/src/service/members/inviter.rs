//! Whether whoever created a login link could create it now.

use crate::access::{Action, CredentialRecord, SecretHash};
use crate::error::Error;
use crate::keys;
use crate::model::Timestamp;
use crate::service::access::principal::{Delegator, Principal, Resource};
use crate::service::members::change::{read_member, require_covered};
use crate::store::Transaction;

/// Returns true if a valid login link signs its person in: the operator issued it, or whoever
/// created it could create it now.
///
/// Whoever created it may have kept it, and must not become what it could not grant: by a change of
/// a role that the person holds, or because it may do less itself. Once the person has a session or
/// a token, the link would be a way into what belongs to the person.
///
/// # Errors
/// Those of the store.
pub(crate) async fn is_in_force(
    transaction: &mut Transaction,
    (link, hash): (&CredentialRecord, SecretHash),
    now: Timestamp,
) -> Result<bool, Error> {
    let Some(creator) = link.created_by else {
        return Ok(true);
    };
    let mark = keys::invitation(link.org_id, link.member_id);
    let invited = transaction.get::<Option<String>>(&mark).await?;
    if invited.flatten() != Some(hash.to_string()) {
        return Ok(false);
    }
    let creator = Delegator {
        credential: link.created_with,
        ..Delegator::member(creator)
    };
    match require_inviter(transaction, link, creator, now).await {
        Ok(()) => Ok(true),
        Err(Error::Unauthenticated { .. } | Error::Forbidden { .. } | Error::NotFound { .. }) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Checks that a member may create a login link for the person of this one.
///
/// # Errors
/// [`Error::Unauthenticated`] for a former member, or one whose credential was ended with what it
/// created; [`Error::Forbidden`] for one that may add nobody or does not cover the person;
/// [`Error::NotFound`] for a former person.
async fn require_inviter(
    transaction: &mut Transaction,
    link: &CredentialRecord,
    creator: Delegator,
    now: Timestamp,
) -> Result<(), Error> {
    let org = link.org_id;
    let creator = Principal::acting_for(transaction, org, (creator, None), now).await?;
    creator.authorize(Action::MemberManage, Resource::Organization)?;
    let (person, roles) = read_member(transaction, org, link.member_id).await?;
    require_covered(transaction, &creator, &person, &roles).await
}
