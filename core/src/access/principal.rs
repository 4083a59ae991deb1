//! The caller, recognised: who it is and what it may do where.

use std::collections::{BTreeMap, HashMap};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::access::{
    Action, ActionSet, BuiltInRole, Credential, CredentialKind, CredentialRecord, Narrowing, Need,
    RoleRef,
};
use crate::error::Error;
use crate::model::{
    AudienceLabel, AudienceScope, CredentialId, CustomRole, Member, MemberId, MemoryLabels, OrgId,
    Organization, RoleId, SensitivityLabel, Timestamp, Workspace, WorkspaceId,
};
use crate::keys;
use crate::store::{Key, MaybeSend, StoreError, StoreErrorKind, Transaction};

/// How many deleted roles may point at each other before the store counts as damaged.
pub(crate) const REDIRECTS_MAX: usize = 128;
/// How often a holder is read before a role that does not exist counts as damage.
const HOLDER_READS_MAX: u32 = 4;

/// Who calls: a member of an organisation, through a credential that may be narrowed.
///
/// Everything it was made from (credential, membership, role) was read by the transaction and is checked by its
/// commit, so that a revocation and a change cannot cross.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The organisation.
    pub org: Organization,
    /// The member.
    pub member: Member,
    /// The token or session; `None` for a caller that the application vouches for.
    pub credential: Option<CredentialId>,
    narrowing: Narrowing,
    /// What the member's role in the organisation allows.
    role_actions: ActionSet,
}

/// Why a principal may not do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denial {
    /// The action is missing.
    Lacks(Action),
    /// The credential does not work there.
    Narrowed,
}

impl From<Denial> for Error {
    fn from(denial: Denial) -> Self {
        Self::forbidden(denial.to_string())
    }
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lacks(action) => write!(f, "this needs the action {action}"),
            Self::Narrowed => f.write_str("this credential is narrowed to other workspaces"),
        }
    }
}

impl Principal {
    /// Recognises the caller.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a credential that is unknown, expired, revoked or not of the kind `wanted`.
    pub async fn recognise(
        transaction: &mut Transaction,
        credential: &Credential,
        wanted: CredentialKind,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let (org, member, credential, narrowing) = match credential {
            Credential::Trusted { org, member } => (*org, *member, None, Narrowing::default()),
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
                    record.narrowing,
                )
            }
        };
        let gone = Error::Unauthenticated {
            reason: "the credential's member is no longer there",
        };
        let key = keys::member(org, member);
        let held = held_role(transaction, org, &key, |member: &Member| member.role);
        let Some((member, role)) = held.await? else {
            return Err(gone);
        };
        // The organisation never changes but in its name: it is no condition of a commit.
        let Some(org) = transaction.peek::<Organization>(&keys::org(org)).await? else {
            return Err(gone);
        };
        Ok(Self {
            org,
            member,
            credential,
            narrowing,
            role_actions: role.actions(),
        })
    }

    /// What the principal may do for the organisation as a whole. A credential that is narrowed to workspaces does
    /// nothing there.
    #[must_use]
    pub fn org_actions(&self) -> ActionSet {
        if self.narrowing.workspaces.is_some() {
            ActionSet::EMPTY
        } else {
            self.narrowed(self.role_actions)
        }
    }

    /// Refuses the principal that may not do for the organisation as a whole what is needed.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub fn require(&self, need: Need) -> Result<(), Error> {
        if self.narrowing.workspaces.is_some() {
            return Err(Denial::Narrowed.into());
        }
        if self.org_actions().contains(need.action) {
            Ok(())
        } else {
            Err(Denial::Lacks(need.action).into())
        }
    }

    /// What the principal may do in each of these workspaces.
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
        // The same role in many workspaces is read once.
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
            let allowed = if self.narrowing.admits(*workspace) {
                self.narrowed(allowed)
            } else {
                ActionSet::EMPTY
            };
            actions.insert(*workspace, allowed);
        }
        Ok(actions)
    }

    /// Whether the credential works in the workspace at all.
    #[must_use]
    pub fn works_in(&self, workspace: WorkspaceId) -> bool {
        self.narrowing.admits(workspace)
    }

    /// Reads a workspace and refuses the principal that may not do there what is needed.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the organisation has no such workspace, [`Error::Forbidden`] where the action is
    /// missing.
    pub async fn enter(
        &self,
        transaction: &mut Transaction,
        workspace: WorkspaceId,
        need: Need,
    ) -> Result<Workspace, Error> {
        let (found, _) = self.enter_for_any(transaction, workspace, &[need]).await?;
        Ok(found)
    }

    /// The same where one of several needs is enough; with what the principal may do there.
    ///
    /// # Errors
    /// As [`Principal::enter`], naming the first of the actions.
    pub async fn enter_for_any(
        &self,
        transaction: &mut Transaction,
        workspace: WorkspaceId,
        needs: &[Need],
    ) -> Result<(Workspace, ActionSet), Error> {
        let found = transaction
            .read::<Workspace>(&keys::workspace(self.org.id, workspace))
            .await?;
        let found = found.ok_or(Error::NotFound { what: "workspace" })?;
        if !self.narrowing.admits(workspace) {
            return Err(Denial::Narrowed.into());
        }
        let held = self.actions_in(transaction, &[workspace]).await?[&workspace];
        match needs.first() {
            Some(first) if !needs.iter().any(|need| held.contains(need.action)) => {
                Err(Denial::Lacks(first.action).into())
            }
            _ => Ok((found, held)),
        }
    }

    /// Refuses the principal that may do none of `actions` anywhere: neither by its role in the organisation nor by
    /// one in a workspace.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub async fn require_somewhere(
        &self,
        transaction: &mut Transaction,
        needed: ActionSet,
    ) -> Result<(), Error> {
        let lacks = |held: ActionSet| (needed - held).iter().next();
        let Some(missing) = lacks(self.narrowed(self.role_actions)) else {
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
        if actions.values().any(|held| lacks(*held).is_none()) {
            Ok(())
        } else {
            Err(Denial::Lacks(missing).into())
        }
    }

    /// Whether the principal may know of a memory with this audience label: one of the organisation as a whole, of a
    /// workspace that the credential works in, of one of its teams or its own. An MCP key covers its own list.
    #[must_use]
    pub fn is_covered_by(&self, label: &AudienceLabel, workspaces: &[Workspace]) -> bool {
        if let Some(audience) = &self.narrowing.audience {
            return audience.contains(label);
        }
        match label.scope() {
            AudienceScope::Org => label.name() == self.org.slug,
            AudienceScope::Workspace => workspaces.iter().any(|workspace| {
                workspace.slug == label.name() && self.narrowing.admits(workspace.id)
            }),
            AudienceScope::Team => self.member.teams.iter().any(|team| team == label.name()),
            AudienceScope::User => label.name() == self.member.handle,
        }
    }

    /// What is missing to read the content of a memory, given what the principal may do in its workspace.
    #[must_use]
    pub fn reading_needs(labels: &MemoryLabels, held: ActionSet) -> Option<Action> {
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

    /// Refuses to hand out what the principal does not hold itself.
    ///
    /// # Errors
    /// [`Error::Forbidden`] naming the first action that it lacks.
    pub fn require_covers(&self, granted: ActionSet) -> Result<(), Error> {
        match (granted - self.org_actions()).iter().next() {
            None => Ok(()),
            Some(missing) => Err(Error::forbidden(format!(
                "nobody can grant what they do not hold: {missing}"
            ))),
        }
    }

    /// Whether the principal is an owner of the organisation.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.member.role == RoleRef::BuiltIn(BuiltInRole::Owner)
    }

    /// The organisation's identifier.
    #[must_use]
    pub fn org_id(&self) -> OrgId {
        self.org.id
    }

    /// The member's identifier.
    #[must_use]
    pub fn member_id(&self) -> MemberId {
        self.member.id
    }

    /// What the credential leaves of these actions.
    pub(crate) fn narrowed(&self, actions: ActionSet) -> ActionSet {
        self.narrowing
            .actions
            .map_or(actions, |narrowed| actions & narrowed)
    }
}

fn wrong_kind(wanted: CredentialKind) -> Error {
    Error::Unauthenticated {
        reason: match wanted {
            CredentialKind::Bearer => {
                "this operation takes an access token: Authorization: Bearer wkt_..."
            }
            CredentialKind::Session => {
                "this operation takes a session: Cookie: service_session=wks_..."
            }
        },
    }
}

/// A role as it is now, redirects of deleted roles followed.
#[derive(Clone, Debug)]
pub(crate) enum ResolvedRole {
    /// A role that every organisation has.
    BuiltIn(BuiltInRole),
    /// A custom role that exists.
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

/// The record under `key` with the role that it names, as that role is now.
///
/// Between the two reads a deleted role may be settled: the record rewritten, the redirect gone. Then it is read again;
/// the first version of it stands among the checks, so that what is committed rests on one reading.
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

/// Follows a reference to the role that it means now; `None` where it leads nowhere. Everything on the way is checked
/// by the commit.
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
    let message = format!("the redirects from role {role} do not end");
    Err(StoreError::new(StoreErrorKind::Corrupt, message).into())
}
