//! Service accounts that act for other members.
//!
//! Such a caller knows of what exists for the member, within the scope of the credential. It may do
//! what the roles of both permit, and manages nothing: see
//! [`FOR_MEMBERS`](crate::access::ActionSet::FOR_MEMBERS).

use crate::access::{Action, MemberRef};
use crate::error::Error;
use crate::keys;
use crate::model::{Member, MemberId, MemberKind, OrgId, WorkspaceId};
use crate::service::access::principal::{Denial, Principal, ServiceAccount, workspace_roles_read};
use crate::service::access::roles::{OWNER, ResolvedRole, follow_role, held_role};
use crate::service::operation::login::closed_places;
use crate::service::{Caller, KnowledgeService};
use crate::store::{Key, Transaction};

impl KnowledgeService {
    /// Returns the member that a service account acts for, if it has done so before.
    pub(crate) fn acted_for(
        &self,
        (org, account): (OrgId, MemberId),
        member: &MemberRef,
    ) -> Option<MemberId> {
        let known = &self.inner.acted_for;
        known.last(&(org, account, member.clone())).flatten()
    }

    /// Remembers for whom a service account acts, or that it may not act for this member any more.
    fn note_acting(
        &self,
        (org, account): (OrgId, MemberId),
        member: &MemberRef,
        found: Option<MemberId>,
    ) {
        let known = &self.inner.acted_for;
        let pair = (org, account, member.clone());
        if known.last(&pair).flatten() != found {
            known.keep_last(pair, found);
        }
    }

    /// Returns the principal of a caller as [`Principal::of_caller`] does, and remembers for whom
    /// it acts.
    ///
    /// # Errors
    /// Those of [`Principal::of_caller`].
    pub(crate) async fn principal_of(
        &self,
        transaction: &mut Transaction,
        principal: Principal,
        (caller, workspace): (&Caller, Option<WorkspaceId>),
    ) -> Result<Principal, Error> {
        let Some(member) = caller.acting_for() else {
            return Ok(principal);
        };
        let account = (principal.org_id(), principal.member_id());
        let acting = principal.of_caller(transaction, caller, workspace).await;
        match &acting {
            Ok(acting) => self.note_acting(account, member, Some(acting.member_id())),
            Err(Error::Forbidden { .. }) => self.note_acting(account, member, None),
            Err(_) => {}
        }
        acting
    }
}

/// One answer for every member that the account may not act for, known or unknown.
const REFUSED: &str = "the service account may not act for this member, or there is none";

impl Principal {
    /// Returns the principal of a caller with this credential: the member that it acts for, if it
    /// does, or else that of the credential.
    ///
    /// # Errors
    /// Those of [`Principal::for_member`].
    pub(crate) async fn of_caller(
        self,
        transaction: &mut Transaction,
        caller: &Caller,
        workspace: Option<WorkspaceId>,
    ) -> Result<Self, Error> {
        match caller.acting_for() {
            None => Ok(self),
            Some(member) => self.for_member(transaction, member, workspace).await,
        }
    }

    /// Returns the principal that acts for another member, as both are now.
    ///
    /// The commit checks the records that this depends on. What authorising it in a workspace
    /// reads is read along, if the workspace is known.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for a caller that is no service account, or does not hold
    /// `member:act_for` in the organisation; also for a member that does not exist, is an owner or
    /// a service account, or is in none of the teams that the role is limited to; those of the
    /// store.
    async fn for_member(
        mut self,
        transaction: &mut Transaction,
        wanted: &MemberRef,
        workspace: Option<WorkspaceId>,
    ) -> Result<Self, Error> {
        if self.member.kind != MemberKind::ServiceAccount {
            return Err(Error::forbidden("only service accounts act for members"));
        }
        let held = self.scoped(self.role_actions);
        if !held.contains(Action::MemberActFor) {
            return Err(Denial::MissingPermission(Action::MemberActFor).into());
        }
        let refused = || Error::forbidden(REFUSED);
        let id = match wanted {
            MemberRef::Id(id) => Some(*id),
            MemberRef::Handle(handle) => {
                let key = keys::member_handle(self.org.id, handle);
                transaction.get::<MemberId>(&key).await?
            }
        };
        let id = id.ok_or_else(refused)?;
        let key = keys::member(self.org.id, id);
        self.prefetch_member(transaction, &key, id, workspace)
            .await?;
        let member: Member = transaction.get(&key).await?.ok_or_else(refused)?;
        let role = |member: &Member| member.role;
        let found = held_role(transaction, self.org.id, &key, member, role).await?;
        let (member, role) = found.ok_or_else(refused)?;
        let teams = self.teams_to_act_for(transaction).await?;
        let is_in_reach = teams.is_none_or(|teams| {
            let mut own = member.teams.iter();
            own.any(|team| teams.contains(team))
        });
        if member.kind != MemberKind::User || member.role == OWNER || !is_in_reach {
            return Err(refused());
        }
        self.closed = closed_places(transaction, &member, &self.org).await?;
        self.via = Some(Box::new(ServiceAccount {
            id: self.member.id,
            role_actions: self.role_actions,
        }));
        self.member = member;
        self.role_actions = role.actions();
        Ok(self)
    }

    /// Prefetches the record of a member, and its roles where they decide something.
    async fn prefetch_member(
        &self,
        transaction: &mut Transaction,
        member: &Key,
        id: MemberId,
        workspace: Option<WorkspaceId>,
    ) -> Result<(), Error> {
        let org = self.org.id;
        let role = workspace.map(|place| keys::workspace_role(org, id, place));
        let records = [Some(member.clone()), role].into_iter().flatten();
        let has_private = !self.org.private.is_empty();
        let roles = has_private.then(|| workspace_roles_read(org, id));
        let roles = roles.into_iter().collect();
        Ok(transaction.prefetch(records.collect(), roles).await?)
    }

    /// Returns the teams that the role of the service account is limited to, if it is.
    async fn teams_to_act_for(
        &self,
        transaction: &mut Transaction,
    ) -> Result<Option<Vec<String>>, Error> {
        let role = follow_role(transaction, self.org.id, self.member.role).await?;
        Ok(match role {
            Some(ResolvedRole::Custom(role)) => role.act_for_teams,
            Some(ResolvedRole::BuiltIn(_)) | None => None,
        })
    }
}
