//! Quotas: maximum numbers of records of an owner.
//!
//! A quota of an organisation is counted by additions, which do not conflict. While much of it is
//! left, its counter is read without a check. Otherwise the counter is a guard, so that of two
//! callers that take the last unit, one is rejected.

use std::time::Duration;

use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::Limits;
use crate::model::{OrgId, Quota, Timestamp};
use crate::store::{Key, Transaction};

/// Number of units left below which the counter of a quota is a guard.
///
/// The commits that are in progress at one time add fewer: that of an ingest adds 100 memories.
const UNITS_LEFT_MIN: u64 = 100_000;
/// The same for bytes of the audit log.
const AUDIT_BYTES_LEFT_MIN: u64 = 64 * 1024 * 1024;
/// Period of the quota of the audit log.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Limit on the number of records of one owner.
pub(crate) struct RecordLimit {
    owner: &'static str,
    records: &'static str,
    /// Field of the request that a rejection names.
    path: &'static str,
    maximum: fn(&Limits) -> u64,
}

/// Defines the limits: their records, owner, setting, and the field that a rejection names.
macro_rules! record_limits {
    ($(
        $name:ident: $records:literal of $owner:literal by $maximum:ident, names $path:literal;
    )+) => {
        impl RecordLimit {$(
            pub(crate) const $name: Self = Self {
                owner: $owner,
                records: $records,
                path: $path,
                maximum: |limits| limits.$maximum,
            };
        )+}
    };
}

record_limits! {
    CONNECTORS: "connectors" of "workspace" by connectors_per_workspace_max, names "body";
    CUSTOM_ROLES: "custom roles" of "organisation" by custom_roles_per_org_max, names "body";
    INBOUND_WEBHOOKS:
        "inbound webhooks" of "workspace" by inbound_webhooks_per_workspace_max, names "body";
    MCP_KEYS: "MCP keys" of "workspace" by mcp_keys_per_workspace_max, names "body";
    SUBSCRIPTIONS: "subscriptions" of "recall" by subscriptions_per_recall_max, names "recall_id";
    TOKENS: "API tokens" of "member" by tokens_per_member_max, names "body";
    WEBHOOKS: "webhooks" of "workspace" by webhooks_per_workspace_max, names "body";
}

impl RecordLimit {
    /// Checks that an owner with this number of records may have one more.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if it has the maximum.
    pub(crate) fn check(&self, count: i64, limits: &Limits) -> Result<(), Error> {
        let maximum = (self.maximum)(limits);
        if u64::try_from(count).is_ok_and(|count| count >= maximum) {
            let (owner, records) = (self.owner, self.records);
            let message = format!("the {owner} already has {maximum} {records}, the maximum");
            return Err(Error::invalid(
                self.path,
                ProblemCode::LimitReached,
                message,
            ));
        }
        Ok(())
    }
}

/// Returns the maximum of a quota.
fn maximum(limits: &Limits, quota: Quota) -> u64 {
    match quota {
        Quota::Memories => limits.memories_per_org_max,
        Quota::Recalls => limits.recalls_per_org_max,
        Quota::Chats => limits.chats_per_org_max,
        Quota::ChatMessages => limits.chat_messages_per_org_max,
        Quota::Sources => limits.sources_per_org_max,
        Quota::Members => limits.members_per_org_max,
        Quota::Endpoints => limits.endpoints_per_org_max,
        Quota::AuditBytes => limits.audit_bytes_per_day_max,
    }
}

/// Returns the sum of a counter and an addition to it.
fn total(used: i64, added: i64) -> u64 {
    u64::try_from(used.saturating_add(added)).unwrap_or(0)
}

/// Reserves units of a quota of an organisation.
///
/// An operation prefetches the counter ([`keys::usage`]).
///
/// # Errors
/// [`Error::QuotaExceeded`]; those of the store.
pub(crate) async fn reserve_units(
    transaction: &mut Transaction,
    limits: &Limits,
    org: OrgId,
    quota: Quota,
    units: usize,
) -> Result<(), Error> {
    let (counter, maximum) = (keys::usage(org, quota), maximum(limits, quota));
    let units = i64::try_from(units).unwrap_or(i64::MAX);
    if units == 0 {
        return Ok(());
    }
    let added = transaction.added(&counter).saturating_add(units);
    let used = transaction.unchecked().get(&counter).await?.unwrap_or(0);
    if total(used, added).saturating_add(UNITS_LEFT_MIN) > maximum {
        let used = transaction.get::<i64>(&counter).await?.unwrap_or(0);
        if total(used, added) > maximum {
            return Err(Error::QuotaExceeded {
                quota,
                maximum,
                retry_after: None,
            });
        }
    }
    transaction.add(counter, units);
    Ok(())
}

/// Releases a unit of a quota of an organisation.
pub(crate) fn release_unit(transaction: &mut Transaction, org: OrgId, quota: Quota) {
    release_units(transaction, org, quota, 1);
}

/// Releases units of a quota.
pub(crate) fn release_units(transaction: &mut Transaction, org: OrgId, quota: Quota, units: usize) {
    let units = i64::try_from(units).unwrap_or(i64::MAX);
    transaction.add(keys::usage(org, quota), -units);
}

/// Returns the beginning of the day (UTC).
pub(crate) fn day_of(at: Timestamp) -> Timestamp {
    let day = i64::try_from(DAY.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(at.as_millis().div_euclid(day) * day)
}

/// Returns the counter of the audit log on the day of `at`.
pub(crate) fn audit_counter(org: OrgId, at: Timestamp) -> Key {
    keys::audit_bytes(org, day_of(at))
}

/// Use of the quota of the audit log, which is read before anything is audited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AuditQuota {
    /// Bytes added on this day, if little of the quota is left.
    used: Option<i64>,
}

impl AuditQuota {
    /// Reads the counter, which was prefetched.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn read(
        transaction: &mut Transaction,
        limits: &Limits,
        org: OrgId,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let counter = audit_counter(org, now);
        let used = transaction.unchecked().get(&counter).await?.unwrap_or(0);
        let is_near = total(used, 0).saturating_add(AUDIT_BYTES_LEFT_MIN)
            > maximum(limits, Quota::AuditBytes);
        let used = if is_near {
            Some(transaction.get::<i64>(&counter).await?.unwrap_or(0))
        } else {
            None
        };
        Ok(Self { used })
    }

    /// Checks that what the transaction adds to the audit log does not exceed the quota.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`].
    pub(crate) fn check(
        self,
        transaction: &Transaction,
        limits: &Limits,
        org: OrgId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (quota, added) = (
            Quota::AuditBytes,
            transaction.added(&audit_counter(org, now)),
        );
        let maximum = maximum(limits, quota);
        match self.used {
            Some(used) if added > 0 && total(used, added) > maximum => {
                let left = day_of(now).plus(DAY).as_millis() - now.as_millis();
                let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
                Err(Error::QuotaExceeded {
                    quota,
                    maximum,
                    retry_after: Some(Duration::from_secs(left.as_secs() + 1)),
                })
            }
            _ => Ok(()),
        }
    }
}
