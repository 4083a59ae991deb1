//! Login links of people whom a member added and who have no session or token yet.

use crate::access::CredentialRecord;
use crate::error::Error;
use crate::keys;
use crate::model::{MemberId, OrgId, Timestamp};
use crate::service::provision::{mark_revoked, place};
use crate::store::Transaction;

/// Revokes the login link of a person who has no session or token yet, if there is one, because
/// its role, a role in a workspace or its teams change.
///
/// Whoever created the link covered what the person could do then, and may still have it. Whoever
/// covers the person now can create another one.
///
/// # Errors
/// Those of the store.
pub(crate) async fn withdraw_link(
    transaction: &mut Transaction,
    org: OrgId,
    member: MemberId,
    now: Timestamp,
) -> Result<(), Error> {
    let mark = keys::invitation(org, member);
    let invited = transaction.get::<Option<String>>(&mark).await?;
    if let Some(hash) = invited.flatten() {
        revoke_link(transaction, &hash, now).await?;
        transaction.put(mark, &None::<String>);
    }
    Ok(())
}

/// Revokes the login link with this hash, if it is stored.
///
/// # Errors
/// Those of the store.
pub(crate) async fn revoke_link(
    transaction: &mut Transaction,
    hash: &str,
    now: Timestamp,
) -> Result<(), Error> {
    if let Some(key) = place(hash)
        && let Some(link) = transaction.get::<CredentialRecord>(&key).await?
    {
        mark_revoked(transaction, (key, &link), false, now).await?;
    }
    Ok(())
}

/// Returns the URL of a login link with this secret at a base URL.
///
/// The secret is in the fragment, which no browser sends.
#[must_use]
pub fn login_url(base_url: &str, secret: &str) -> String {
    format!("{}/#/login/{secret}", base_url.trim_end_matches('/'))
}
