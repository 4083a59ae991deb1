//! Authenticated callers and their permissions.

use std::collections::{BTreeMap, HashMap};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::access::{
    Action, ActionSet, BuiltInRole, Credential, CredentialKind, CredentialRecord,
    RequiredPermission, RoleRef, TokenScope,
};
use crate::error::Error;
use crate::keys;
use crate::model::{
    AudienceLabel, AudienceScope, CredentialId, CustomRole, Member, MemberId, MemoryLabels, OrgId,
    Organization, RoleId, SensitivityLabel, Timestamp, Workspace, WorkspaceId,
};
use crate::store::{Key, MaybeSend, StoreError, StoreErrorKind, Transaction};

/// Maximum length of a chain of redirects; a longer one is corruption.
pub(crate) const REDIRECTS_MAX: usize = 128;
/// Maximum number of reads of a holder before a missing role is corruption.
const HOLDER_READS_MAX: u32 = 4;

/// An authenticated caller: a member of an organisation, possibly with a scoped credential.
///
/// The transaction read its credential, membership and role, and its commit checks them, so that a
/// change cannot race with a revocation.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Organisation of the member.
    pub org: Organization,
    /// Member that calls.
    pub member: Member,
    /// Token or session; `None` for a caller that the application vouches for.
    pub credential: Option<CredentialId>,
    scope: TokenScope,
    /// Actions of the member's role in the organisation.
    role_actions: ActionSet,
}

/// Reason for which a principal lacks permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denial {
    /// The role does not grant the action.
    #[serde(rename = "lacks")]
    MissingPermission(Action),
    /// The scope of the credential excludes the workspace or the organisation.
    #[serde(rename = "narrowed")]
    OutOfScope,
}

impl From<Denial> for Error {
    fn from(denial: Denial) -> Self {
        Self::forbidden(denial.to_string())
    }
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MissingPermission(action) => write!(f, "missing permission {action}"),
            Self::OutOfScope => f.write_str("outside the scope of this credential"),
        }
    }
}

impl Principal {
    /// Authenticates the caller.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a credential that is unknown, expired, revoked or not of the
    /// kind `wanted`.
    pub async fn authenticate(
        transaction: &mut Transaction,
        credential: &Credential,
        wanted: CredentialKind,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let (org, member, credential, scope) = match credential {
            Credential::Trusted { org, member } => (*org, *member, None, TokenScope::default()),
            Credential::Secret(secret) => {
                if secret.kind() != wanted {
                    return Err(wrong_kind(wanted));
                }
                let record: Option<CredentialRecord> =
                    transaction.read(&keys::credential(secret.hash())).await?;
                let record = record.filter(|record| record.is_valid_at(now)).ok_or(
                    Error::Unauthenticated {
                        reason: "the credential is unknown, expired or revoked",
                    },
                )?;
                (
                    record.org_id,
                    record.member_id,
                    Some(record.id),
                    record.scope,
                )
            }
        };
        let gone = Error::Unauthenticated {
            reason: "the member of the credential has been removed",
        };
        let key = keys::member(org, member);
        let held = held_role(transaction, org, &key, |member: &Member| member.role);
        let Some((member, role)) = held.await? else {
            return Err(gone);
        };
        // Only the name of an organisation ever changes, so the commit need not check it.
        let Some(org) = transaction
            .read_unchecked::<Organization>(&keys::org(org))
            .await?
        else {
            return Err(gone);
        };
        Ok(Self {
            org,
            member,
            credential,
            scope,
            role_actions: role.actions(),
        })
    }

    /// Returns the permitted actions on the organisation as a whole.
    ///
    /// There are none with a credential that is scoped to workspaces.
    #[must_use]
    pub fn org_actions(&self) -> ActionSet {
        if self.scope.workspaces.is_some() {
            ActionSet::EMPTY
        } else {
            self.scoped(self.role_actions)
        }
    }

    /// Checks a required permission on the organisation as a whole.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if the principal does not have it.
    pub fn require(&self, permission: RequiredPermission) -> Result<(), Error> {
        if self.scope.workspaces.is_some() {
            return Err(Denial::OutOfScope.into());
        }
        if self.org_actions().contains(permission.action) {
            Ok(())
        } else {
            Err(Denial::MissingPermission(permission.action).into())
        }
    }

    /// Returns the permitted actions in each of these workspaces.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn actions_in(
        &self,
        transaction: &mut Transaction,
        workspaces: &[WorkspaceId],
    ) -> Result<BTreeMap<WorkspaceId, ActionSet>, Error> {
        let overrides: Vec<_> = workspaces
            .iter()
            .map(|workspace| keys::workspace_role(self.org.id, self.member.id, *workspace))
            .collect();
        let roles: Vec<Option<RoleRef>> = transaction.read_many(&overrides).await?;
        let mut actions = BTreeMap::new();
        // A role that is held in several workspaces is read once.
        let mut known: HashMap<RoleRef, ActionSet> = HashMap::new();
        for ((workspace, key), role) in workspaces.iter().zip(&overrides).zip(roles) {
            let allowed = match role.map(|role| (role, known.get(&role))) {
                None => self.role_actions,
                Some((_, Some(actions))) => *actions,
                Some((role, None)) => {
                    let held = held_role(transaction, self.org.id, key, |role: &RoleRef| *role);
                    let allowed = held
                        .await?
                        .map_or(self.role_actions, |(_, role)| role.actions());
                    known.insert(role, allowed);
                    allowed
                }
            };
            let allowed = if self.scope.admits(*workspace) {
                self.scoped(allowed)
            } else {
                ActionSet::EMPTY
            };
            actions.insert(*workspace, allowed);
        }
        Ok(actions)
    }

    /// Returns true if the scope of the credential includes the workspace.
    #[must_use]
    pub fn works_in(&self, workspace: WorkspaceId) -> bool {
        self.scope.admits(workspace)
    }

    /// Reads a workspace and checks a required permission there.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the organisation has no such workspace, [`Error::Forbidden`] if the
    /// permission is missing.
    pub async fn authorize_in(
        &self,
        transaction: &mut Transaction,
        workspace: WorkspaceId,
        permission: RequiredPermission,
    ) -> Result<Workspace, Error> {
        let (found, _) = self
            .authorize_in_for_any(transaction, workspace, &[permission])
            .await?;
        Ok(found)
    }

    /// Reads a workspace and checks that one of several permissions is held there.
    ///
    /// Returns the permitted actions too.
    ///
    /// # Errors
    /// As [`Principal::authorize_in`], naming the first of the actions.
    pub async fn authorize_in_for_any(
        &self,
        transaction: &mut Transaction,
        workspace: WorkspaceId,
        permissions: &[RequiredPermission],
    ) -> Result<(Workspace, ActionSet), Error> {
        let found = transaction
            .read::<Workspace>(&keys::workspace(self.org.id, workspace))
            .await?;
        let found = found.ok_or(Error::NotFound { what: "workspace" })?;
        if !self.scope.admits(workspace) {
            return Err(Denial::OutOfScope.into());
        }
        let held = self.actions_in(transaction, &[workspace]).await?[&workspace];
        match permissions.first() {
            Some(first)
                if !permissions
                    .iter()
                    .any(|permission| held.contains(permission.action)) =>
            {
                Err(Denial::MissingPermission(first.action).into())
            }
            _ => Ok((found, held)),
        }
    }

    /// Checks that all of `needed` is permitted in one place: the organisation or a workspace.
    ///
    /// # Errors
    /// [`Error::Forbidden`] otherwise.
    pub async fn require_somewhere(
        &self,
        transaction: &mut Transaction,
        needed: ActionSet,
    ) -> Result<(), Error> {
        let missing = |held: ActionSet| (needed - held).iter().next();
        let Some(missing_action) = missing(self.scoped(self.role_actions)) else {
            return Ok(());
        };
        let held = transaction
            .scan_unchecked(&keys::workspace_roles(self.org.id, self.member.id))
            .await?;
        let workspaces: Vec<_> = held
            .iter()
            .filter_map(|found| keys::last_id(&found.key))
            .map(WorkspaceId)
            .collect();
        let actions = self.actions_in(transaction, &workspaces).await?;
        if actions.values().any(|held| missing(*held).is_none()) {
            Ok(())
        } else {
            Err(Denial::MissingPermission(missing_action).into())
        }
    }

    /// Returns true if the principal may know of a memory with this audience label.
    ///
    /// The label has to name the organisation, a workspace in the scope of the credential, a team
    /// of the member or the member itself. An MCP key has its own list of labels instead.
    #[must_use]
    pub fn is_covered_by(&self, label: &AudienceLabel, workspaces: &[Workspace]) -> bool {
        if let Some(audience) = &self.scope.audience {
            return audience.contains(label);
        }
        match label.scope() {
            AudienceScope::Org => label.name() == self.org.slug,
            AudienceScope::Workspace => workspaces
                .iter()
                .any(|workspace| workspace.slug == label.name() && self.scope.admits(workspace.id)),
            AudienceScope::Team => self.member.teams.iter().any(|team| team == label.name()),
            AudienceScope::User => label.name() == self.member.handle,
        }
    }

    /// Returns the first action that is missing to read a memory.
    ///
    /// `held` are the actions in its workspace.
    #[must_use]
    pub fn missing_for_reading(labels: &MemoryLabels, held: ActionSet) -> Option<Action> {
        let extra = match labels.sensitivity {
            SensitivityLabel::Public | SensitivityLabel::Internal => None,
            SensitivityLabel::Confidential => Some(Action::MemoryReadConfidential),
            SensitivityLabel::Restricted => Some(Action::MemoryReadRestricted),
        };
        [Some(Action::MemoryRead), extra]
            .into_iter()
            .flatten()
            .find(|action| !held.contains(*action))
    }

    /// Checks that the principal holds every action that it grants.
    ///
    /// # Errors
    /// [`Error::Forbidden`] naming the first action that it lacks.
    pub fn require_covers(&self, granted: ActionSet) -> Result<(), Error> {
        match (granted - self.org_actions()).iter().next() {
            None => Ok(()),
            Some(missing) => Err(Error::forbidden(format!(
                "cannot grant an action that the caller does not hold: {missing}"
            ))),
        }
    }

    /// Returns true if the principal is an owner of the organisation.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.member.role == RoleRef::BuiltIn(BuiltInRole::Owner)
    }

    /// Returns the identifier of the organisation.
    #[must_use]
    pub fn org_id(&self) -> OrgId {
        self.org.id
    }

    /// Returns the identifier of the member.
    #[must_use]
    pub fn member_id(&self) -> MemberId {
        self.member.id
    }

    /// Restricts actions to the scope of the credential.
    pub(crate) fn scoped(&self, actions: ActionSet) -> ActionSet {
        self.scope
            .actions
            .map_or(actions, |allowed| actions & allowed)
    }
}

fn wrong_kind(wanted: CredentialKind) -> Error {
    Error::Unauthenticated {
        reason: match wanted {
            CredentialKind::Bearer => {
                "this operation requires an access token; send Authorization: Bearer wkt_..."
            }
            CredentialKind::Session => {
                "this operation requires a session; send Cookie: service_session=wks_..."
            }
        },
    }
}

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

    pub(crate) fn reference(&self) -> RoleRef {
        match self {
            Self::BuiltIn(role) => RoleRef::BuiltIn(*role),
            Self::Custom(role) => RoleRef::Custom(role.id),
        }
    }
}

/// Reads the record under `key` and resolves the role that it names.
///
/// A deleted role may be cleaned up between the two reads: the record is rewritten and the redirect
/// removed. The record is then read again. The commit checks its first version, so that it never
/// succeeds with a mixed view.
pub(crate) async fn held_role<T: DeserializeOwned + MaybeSend>(
    transaction: &mut Transaction,
    org: OrgId,
    key: &Key,
    role: impl Fn(&T) -> RoleRef,
) -> Result<Option<(T, ResolvedRole)>, Error> {
    for _ in 0..HOLDER_READS_MAX {
        let Some(found) = transaction.read::<T>(key).await? else {
            return Ok(None);
        };
        if let Some(resolved) = follow_role(transaction, org, role(&found)).await? {
            return Ok(Some((found, resolved)));
        }
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
        if let Some(found) = transaction.read::<CustomRole>(&keys::role(org, id)).await? {
            return Ok(Some(ResolvedRole::Custom(Box::new(found))));
        }
        match transaction
            .read::<RoleRef>(&keys::role_redirect(org, id))
            .await?
        {
            Some(target) => role = target,
            None => return Ok(None),
        }
    }
    let message = format!("the chain of redirects from role {role} is too long");
    Err(StoreError::new(StoreErrorKind::Corrupt, message).into())
}
