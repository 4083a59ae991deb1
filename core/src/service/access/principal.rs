//! Authenticated callers and their permissions.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::access::{Action, ActionSet, BuiltInRole, RoleRef, TokenScope};
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{
    AudienceLabel, AudienceScope, CredentialId, CustomRole, Member, MemberId, MemberKind,
    MemoryLabels, OrgId, Organization, SensitivityLabel, Timestamp, WorkspaceId,
};
use crate::service::access::roles::held_role;
use crate::store::{Entry, Key, RangeRead, Transaction};

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
    /// Token or session, of an access token its session; `None` for a caller that the application
    /// vouches for.
    pub credential: Option<CredentialId>,
    /// Credential that created it: the session of an API token.
    pub(crate) created_with: Option<CredentialId>,
    /// Time from which the credential, of an access token its session, is invalid.
    pub(crate) expires_at: Option<Timestamp>,
    /// True if the credential is valid only with another one.
    pub(crate) is_dependent: bool,
    pub(in crate::service) scope: TokenScope,
    /// Actions of the member's role in the organisation.
    pub(in crate::service) role_actions: ActionSet,
    /// Private workspaces that the member is not one of the people of: they do not exist for it.
    pub(in crate::service) closed: Vec<WorkspaceId>,
    /// Service account that acts for the member, whose credential this is.
    pub(in crate::service) via: Option<Box<ServiceAccount>>,
}

/// A service account that acts for another member.
#[derive(Clone, Debug)]
pub(in crate::service) struct ServiceAccount {
    pub(in crate::service) id: MemberId,
    /// Actions of its role in the organisation.
    pub(in crate::service) role_actions: ActionSet,
}

/// Member on whose behalf an MCP key, an endpoint or an inbound webhook acts, and the credential
/// that created it.
///
/// It never does or receives more than the member could at that time. What a scoped credential
/// creates has its scope and ends with it; everything else depends on the member only, unless it is
/// ended together with the credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Delegator {
    /// Member that created it or took it over.
    pub(crate) member: MemberId,
    /// Credential of the member; `None` for a caller that the application vouches for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) credential: Option<CredentialId>,
    /// Credential that created that one: the session of an API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_through: Option<CredentialId>,
    /// Expiry of the credential, if it is scoped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bound_until: Option<Timestamp>,
}

/// End of a credential, for what it created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndedCredential {
    /// Time of the revocation.
    pub(crate) ended_at: Timestamp,
    /// True if everything that it created ended with it, not only what was bound to its scope.
    pub(crate) is_with_created: bool,
}

impl Delegator {
    /// Returns a member without a credential, for records that name no credential.
    pub(crate) fn member(member: MemberId) -> Self {
        Self {
            member,
            credential: None,
            created_through: None,
            bound_until: None,
        }
    }

    /// Returns the credentials with which it ends on request: its own, and the one that created
    /// that.
    pub(crate) fn credentials(self) -> impl Iterator<Item = CredentialId> {
        [self.credential, self.created_through]
            .into_iter()
            .flatten()
    }

    /// Returns true if it ends with a credential on request.
    pub(crate) fn is_by(self, credential: CredentialId) -> bool {
        self.credentials().any(|id| id == credential)
    }

    /// Returns the scoped credential that has to be valid too.
    pub(crate) fn dependency(&self) -> Option<CredentialId> {
        self.credential.filter(|_| self.bound_until.is_some())
    }
}

/// Number of workspace roles of a member that are prefetched.
const WORKSPACE_ROLES_PREFETCHED: usize = 64;

/// Returns the read of the roles that a member holds in workspaces.
pub(crate) fn workspace_roles_read(org: OrgId, member: MemberId) -> RangeRead {
    RangeRead::first(
        keys::workspace_roles(org, member),
        WORKSPACE_ROLES_PREFETCHED,
    )
}

/// Resource that an action is performed on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource {
    /// The organisation as a whole.
    Organization,
    /// A workspace, in which the principal holds these actions.
    Workspace {
        /// Identifier of the workspace.
        id: WorkspaceId,
        /// Actions that the role of the principal permits there, within the scope of its credential.
        held: ActionSet,
    },
}

/// Reason for which a principal lacks permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denial {
    /// The role does not grant the action.
    MissingPermission(Action),
    /// The scope of the credential excludes the workspace or the organisation.
    OutOfScope,
    /// The memory does not exist for the caller.
    Invisible,
    /// The audience of the memory does not cover the caller.
    OutsideAudience,
    /// The caller decides the review of a memory whose audience does not cover it.
    UnreadReview,
    /// A program decides the review of what it added itself.
    OwnReview,
    /// A service account may not take the action for another member.
    NotForMembers(Action),
}

impl From<Denial> for Error {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::Invisible => Self::not_found(EntityKind::Memory),
            denial => Self::Forbidden {
                reason: denial.to_string(),
                permission: match denial {
                    Denial::MissingPermission(action) | Denial::NotForMembers(action) => {
                        Some(action)
                    }
                    _ => None,
                },
            },
        }
    }
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MissingPermission(action) => write!(f, "missing permission {action}"),
            Self::OutOfScope => f.write_str("outside the scope of this credential"),
            Self::Invisible => f.write_str("the memory does not exist for the caller"),
            Self::OutsideAudience => {
                f.write_str("only the audience of a memory may change its content")
            }
            Self::UnreadReview => {
                f.write_str("only the audience of a memory may approve or reject it")
            }
            Self::OwnReview => f.write_str(
                "a service account or an MCP key may not approve or reject what it added itself",
            ),
            Self::NotForMembers(action) => write!(f, "not permitted for another member: {action}"),
        }
    }
}

impl Principal {
    /// Returns the permitted actions on the organisation as a whole.
    ///
    /// There are none with a credential that is scoped to workspaces.
    #[must_use]
    pub fn org_actions(&self) -> ActionSet {
        if self.scope.workspaces.is_some() {
            ActionSet::EMPTY
        } else {
            self.scoped(self.role_actions_in_organization())
        }
    }

    /// Returns the actions of the role in the organisation, of a service account that acts for the
    /// member those of both roles that it may take for others.
    fn role_actions_in_organization(&self) -> ActionSet {
        let own = self.role_actions;
        self.via
            .as_ref()
            .map_or(own, |via| own & via.role_actions & ActionSet::FOR_MEMBERS)
    }

    /// Decides whether the principal may perform an action on a resource.
    ///
    /// Every operation asks here, so that this is the only place where permissions are decided.
    ///
    /// # Errors
    /// [`Denial`] with the reason.
    pub(crate) fn authorize(&self, action: Action, resource: Resource) -> Result<(), Denial> {
        let (is_in_scope, held) = match resource {
            Resource::Organization => (self.scope.workspaces.is_none(), self.org_actions()),
            Resource::Workspace { id, held } => (self.works_in(id), held),
        };
        if !is_in_scope {
            Err(Denial::OutOfScope)
        } else if held.contains(action) {
            Ok(())
        } else {
            Err(self.missing(action))
        }
    }

    /// Returns the denial of an action that the principal does not hold.
    fn missing(&self, action: Action) -> Denial {
        if self.via.is_some() && !ActionSet::FOR_MEMBERS.contains(action) {
            Denial::NotForMembers(action)
        } else {
            Denial::MissingPermission(action)
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
        let member = (self.member.id, self.role_actions);
        let mut actions = self.actions_of(transaction, member, workspaces).await?;
        if let Some(via) = &self.via {
            let account = (via.id, via.role_actions);
            let permitted = self.actions_of(transaction, account, workspaces).await?;
            for (workspace, held) in &mut actions {
                *held = *held & permitted[workspace] & ActionSet::FOR_MEMBERS;
            }
        }
        Ok(actions)
    }

    /// Returns the actions in each of these workspaces of a member with its actions in the
    /// organisation, within the scope of the credential.
    async fn actions_of(
        &self,
        transaction: &mut Transaction,
        (member, in_organization): (MemberId, ActionSet),
        workspaces: &[WorkspaceId],
    ) -> Result<BTreeMap<WorkspaceId, ActionSet>, Error> {
        let overrides: Vec<_> = workspaces
            .iter()
            .map(|workspace| keys::workspace_role(self.org.id, member, *workspace))
            .collect();
        let roles: Vec<Option<RoleRef>> = transaction.get_many(&overrides).await?;
        let mut actions = BTreeMap::new();
        // A role that is held in several workspaces is read once.
        let mut known: HashMap<RoleRef, ActionSet> = HashMap::new();
        for ((workspace, key), role) in workspaces.iter().zip(&overrides).zip(roles) {
            let allowed = match role.map(|role| (role, known.get(&role))) {
                None => in_organization,
                Some((_, Some(actions))) => *actions,
                Some((role, None)) => {
                    let held = held_role(transaction, self.org.id, key, role, |role| *role).await?;
                    let allowed = held.map_or(in_organization, |(_, role)| role.actions());
                    known.insert(role, allowed);
                    allowed
                }
            };
            let allowed = if self.works_in(*workspace) {
                self.scoped(allowed)
            } else {
                ActionSet::EMPTY
            };
            actions.insert(*workspace, allowed);
        }
        Ok(actions)
    }

    /// Returns true if the workspace exists for the principal: the scope of the credential includes
    /// it, it is open or the member is one of its people, and it is not removed.
    #[must_use]
    pub fn works_in(&self, workspace: WorkspaceId) -> bool {
        let is_there = self.knows(workspace) && !self.org.removing.contains(&workspace);
        self.scope.admits(workspace) && is_there
    }

    /// Returns true unless the workspace is private and the member is not one of its people.
    ///
    /// It does not depend on the credential, whose scope limits what is done and not what is known.
    pub(crate) fn knows(&self, workspace: WorkspaceId) -> bool {
        !self.closed.contains(&workspace)
    }

    /// Returns true unless the role is one of a workspace that does not exist for the member.
    pub(crate) fn knows_role(&self, role: &CustomRole) -> bool {
        role.workspace_id.is_none_or(|place| self.knows(place))
    }

    /// Returns true if a private workspace does not exist for the member.
    pub(crate) fn is_shut_out(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Checks that every workspace exists for the member: what it wants to do reaches all of them.
    ///
    /// # Errors
    /// [`Error::Forbidden`] otherwise. It tells that there is a private workspace, not which.
    pub(crate) fn require_every_workspace(&self) -> Result<(), Error> {
        if self.is_shut_out() {
            return Err(Error::forbidden(
                "reaches every workspace of the organisation, and some do not exist for the caller",
            ));
        }
        Ok(())
    }

    /// Returns the workspaces that the scope of the credential is limited to, if it is.
    pub(crate) fn workspaces(&self) -> Option<&[WorkspaceId]> {
        self.scope.workspaces.as_deref()
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
        let missing_action = missing(self.scoped(self.role_actions_in_organization()));
        if missing_action.is_none() && self.scope.workspaces.is_none() {
            return Ok(());
        }
        let holders = [Some(self.member.id), self.via.as_ref().map(|via| via.id)];
        let mut workspaces: Vec<WorkspaceId> = Vec::new();
        for holder in holders.into_iter().flatten() {
            let read = workspace_roles_read(self.org.id, holder);
            let held = transaction.scan(&RangeRead::all(read.range)).await?;
            let held = held.iter().filter_map(|found| keys::last_id(&found.key));
            workspaces.extend(held.map(WorkspaceId));
        }
        workspaces.sort_unstable();
        workspaces.dedup();
        // Through a scoped credential, the role in the organisation counts where it is not replaced.
        let admitted = self.scope.workspaces.iter().flatten();
        let is_elsewhere = |id: &&WorkspaceId| !workspaces.contains(id) && self.works_in(**id);
        let admitted = admitted.filter(|id| missing_action.is_none() && is_elsewhere(id));
        let admitted = admitted.map(|id| keys::workspace(self.org.id, *id));
        let admitted: Vec<Key> = admitted.collect();
        if !admitted.is_empty() {
            // A removed workspace is no place any more.
            let found = transaction.unchecked().get_many::<Entry>(&admitted).await?;
            if found.iter().any(Option::is_some) {
                return Ok(());
            }
        }
        let actions = self.actions_in(transaction, &workspaces).await?;
        let mut denials = actions.values().map(|held| missing(*held));
        if denials.any(|missing| missing.is_none()) {
            return Ok(());
        }
        let denial = missing_action.map(|action| self.missing(action));
        Err(denial.unwrap_or(Denial::OutOfScope).into())
    }

    /// Returns true if the credential does less than its member.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.scope != TokenScope::default()
    }

    /// Returns true if the principal erases what others made, given its actions in the workspace.
    ///
    /// A credential with a list of audience labels does not: it knows nothing of the rest.
    pub(crate) fn erases(&self, held: ActionSet) -> bool {
        held.contains(Action::ErasureManage) && !self.has_audience_list()
    }

    /// Returns true if a program acts: a service account, for itself or for another member, or an
    /// assistant with a list of audience labels, such as an MCP key.
    pub(crate) fn is_program(&self) -> bool {
        let is_account = self.member.kind == MemberKind::ServiceAccount;
        is_account || self.via.is_some() || self.has_audience_list()
    }

    /// Returns the service account that acts for the member, if one does.
    pub(crate) fn via(&self) -> Option<MemberId> {
        self.via.as_ref().map(|via| via.id)
    }

    /// Returns true if the scope of the credential is a list of audience labels.
    pub(crate) fn has_audience_list(&self) -> bool {
        self.scope.audience.is_some()
    }

    /// Returns true if a memory with this audience label covers the principal.
    ///
    /// The label has to name the organisation, a workspace that exists for the principal, a team of
    /// the member or the member itself. If the scope has a list of labels, the label has to be
    /// one of them too. `named` returns the workspace of a slug.
    #[must_use]
    pub(crate) fn is_covered_by(
        &self,
        label: &AudienceLabel,
        named: impl FnOnce(&str) -> Option<WorkspaceId>,
    ) -> bool {
        let audience = self.scope.audience.as_ref();
        if audience.is_some_and(|audience| !audience.contains(label)) {
            return false;
        }
        match label.scope() {
            AudienceScope::Org => label.name() == self.org.slug,
            AudienceScope::Workspace => named(label.name()).is_some_and(|id| self.works_in(id)),
            AudienceScope::Team => self.member.teams.iter().any(|team| team == label.name()),
            AudienceScope::User => label.name() == self.member.handle,
        }
    }

    /// Returns the first action that is missing to read a memory.
    ///
    /// `held` are the actions in its workspace.
    #[must_use]
    pub fn missing_for_reading(labels: &MemoryLabels, held: ActionSet) -> Option<Action> {
        Self::missing_for_sensitivity(labels.sensitivity, held)
    }

    /// Returns the first action that is missing to read memories of a sensitivity.
    pub(crate) fn missing_for_sensitivity(
        sensitivity: SensitivityLabel,
        held: ActionSet,
    ) -> Option<Action> {
        let extra = match sensitivity {
            SensitivityLabel::Public | SensitivityLabel::Internal => None,
            SensitivityLabel::Confidential => Some(Action::MemoryReadConfidential),
            SensitivityLabel::Restricted => Some(Action::MemoryReadRestricted),
        };
        [Some(Action::MemoryRead), extra]
            .into_iter()
            .flatten()
            .find(|action| !held.contains(*action))
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

    /// Returns the member, and the service account that acts for it, if one does.
    pub(crate) fn sender(&self) -> (MemberId, Option<MemberId>) {
        (self.member_id(), self.via())
    }

    /// Returns on whose behalf acts what the principal creates.
    pub(crate) fn delegator(&self) -> Delegator {
        let expires_at = self.expires_at.unwrap_or(Timestamp::MAX);
        Delegator {
            member: self.member_id(),
            credential: self.credential,
            created_through: self.created_with,
            bound_until: self.is_narrowed().then_some(expires_at),
        }
    }

    /// Restricts actions to the scope of the credential.
    pub(crate) fn scoped(&self, actions: ActionSet) -> ActionSet {
        self.scope
            .actions
            .map_or(actions, |allowed| actions & allowed)
    }
}
