//! Roles of members: resolved through the redirects of deleted roles.

use serde::de::DeserializeOwned;

use crate::access::{ActionSet, BuiltInRole, RoleRef};
use crate::error::Error;
use crate::keys;
use crate::model::{CustomRole, OrgId, RoleId};
use crate::store::{Key, MaybeSend, StoreError, StoreErrorKind, StoreExt, Transaction};

/// Role of whom everything is permitted, in the whole organisation.
pub(crate) const OWNER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Owner);
/// Maximum length of a chain of redirects; a longer one is corruption.
pub(crate) const REDIRECTS_MAX: usize = 128;
/// Maximum number of reads of a holder before a missing role is corruption.
const HOLDER_READS_MAX: u32 = 4;

/// A role after following the redirects of deleted roles.
#[derive(Clone, Debug)]
pub(crate) enum ResolvedRole {
    /// A built-in role.
    BuiltIn(BuiltInRole),
    /// A custom role.
    Custom(Box<CustomRole>),
}

impl ResolvedRole {
    pub(crate) fn actions(&self) -> ActionSet {
        match self {
            Self::BuiltIn(role) => role.actions(),
            Self::Custom(role) => role.effective_actions(),
        }
    }

    /// Returns the actions that the role grants, or would grant if it were active.
    pub(crate) fn actions_if_active(&self) -> ActionSet {
        match self {
            Self::BuiltIn(role) => role.actions(),
            Self::Custom(role) => role.actions_if_active(),
        }
    }

    pub(crate) fn reference(&self) -> RoleRef {
        match self {
            Self::BuiltIn(role) => RoleRef::BuiltIn(*role),
            Self::Custom(role) => RoleRef::Custom(role.id),
        }
    }
}

/// Resolves the role that a record names; `found` was read under `key`.
///
/// A deleted role may be cleaned up between the two reads: the record is rewritten and the redirect
/// removed. The record is then read again, from the store; `None` if it is gone. The commit checks
/// its first version, so that it never succeeds with a mixed view.
pub(crate) async fn held_role<T: DeserializeOwned + MaybeSend>(
    transaction: &mut Transaction,
    org: OrgId,
    key: &Key,
    mut found: T,
    role: impl Fn(&T) -> RoleRef,
) -> Result<Option<(T, ResolvedRole)>, Error> {
    for _ in 0..HOLDER_READS_MAX {
        if let Some(resolved) = follow_role(transaction, org, role(&found)).await? {
            return Ok(Some((found, resolved)));
        }
        let current = transaction.unchecked().store().get_as::<T>(key).await?;
        found = match current {
            Some(current) => current.value,
            None => return Ok(None),
        };
    }
    let message = format!("{key} names a role that does not exist");
    Err(StoreError::new(StoreErrorKind::Corrupt, message).into())
}

/// Resolves a reference to a role; `None` if the role does not exist.
///
/// The commit checks every record on the way.
pub(crate) async fn follow_role(
    transaction: &mut Transaction,
    org: OrgId,
    mut role: RoleRef,
) -> Result<Option<ResolvedRole>, Error> {
    for _ in 0..=REDIRECTS_MAX {
        let id: RoleId = match role {
            RoleRef::BuiltIn(role) => return Ok(Some(ResolvedRole::BuiltIn(role))),
            RoleRef::Custom(id) => id,
        };
        if let Some(found) = transaction.get::<CustomRole>(&keys::role(org, id)).await? {
            return Ok(Some(ResolvedRole::Custom(Box::new(found))));
        }
        match transaction
            .get::<RoleRef>(&keys::role_redirect(org, id))
            .await?
        {
            Some(target) => role = target,
            None => return Ok(None),
        }
    }
    let message = format!("the chain of redirects from role {role} is too long");
    Err(StoreError::new(StoreErrorKind::Corrupt, message).into())
}
