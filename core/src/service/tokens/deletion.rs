//! Deletion of tokens that have ended, or whose member is removed.

use crate::error::Error;
use crate::keys;
use crate::model::{CredentialId, MemberId, OrgId};
use crate::service::tokens::types::ApiToken;
use crate::store::{Key, Transaction};

/// Removes those of these credentials that are stored from the tokens of a member.
pub(in crate::service) async fn forget_tokens(
    transaction: &mut Transaction,
    org: OrgId,
    member: MemberId,
    forgotten: &[CredentialId],
) -> Result<(), Error> {
    let deleted = delete_tokens(transaction, org, member, forgotten).await?;
    transaction.add(keys::token_count(org, member), -deleted);
    Ok(())
}

/// Deletes those of these tokens of a member that are stored.
///
/// Returns their number, which the counter still includes.
pub(in crate::service) async fn delete_tokens(
    transaction: &mut Transaction,
    org: OrgId,
    member: MemberId,
    deleted: &[CredentialId],
) -> Result<i64, Error> {
    let records = deleted.iter().map(|id| keys::token(org, member, *id));
    let records: Vec<Key> = records.collect();
    let found = transaction.get_many::<ApiToken>(&records).await?;
    let mut count = 0;
    for (record, token) in records.into_iter().zip(found) {
        if let Some(token) = token {
            transaction.delete(record);
            let delegator = token.delegator();
            delegator.remove_from_index(transaction, org, token.id.0);
            count += 1;
        }
    }
    Ok(count)
}
