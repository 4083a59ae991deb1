//! Quotas: maximum numbers of records of an owner.

use crate::error::{Error, ProblemCode};
use crate::store::{Key, Transaction};

/// Reserves one unit of the quota that `counter` counts.
///
/// The counter is a guard: of two callers that reserve the last unit, one is rejected.
///
/// # Errors
/// [`Error::InvalidRequest`] if the quota is exhausted.
pub(crate) async fn reserve_quota(
    transaction: &mut Transaction,
    counter: Key,
    limit: u64,
    path: &str,
    (owner, things): (&str, &str),
) -> Result<(), Error> {
    let taken = transaction.guard(&counter).await? + transaction.added(&counter);
    if u64::try_from(taken).is_ok_and(|taken| taken >= limit) {
        let message = format!("the {owner} already has {limit} {things}, the maximum");
        return Err(Error::invalid(path, ProblemCode::LimitReached, message));
    }
    transaction.add(counter, 1);
    Ok(())
}
