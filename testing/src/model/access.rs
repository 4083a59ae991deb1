//! Callers, and the translation of the model's state into questions to the oracle.
//!
//! The oracle is [`authorization`](crate::authorization), which decides who may do what by the tables
//! of the documentation.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{Caller, ErrorResponse, Model, Org};
use crate::authorization::{
    self, Access, Account, Actions, Change, Directory, Labels, Reference, Role, Scope, Use,
    Verdict, names,
};
use crate::client::REQUEST_ID;
use knowledge_core::access::{
    Action, ActionSet, BuiltInRole, Credential, CredentialKind, CredentialRecord, MemberRef,
    RoleRef, TokenScope,
};
use knowledge_core::api::Operation;
use knowledge_core::model::{
    AudienceLabel, AudienceScope, CredentialId, CustomRole, EndedReason, InboundWebhookId,
    MemberId, MemberKind, MemoryChange, MemoryId, MemoryLabels, OrgId, ResourceState,
    ResourceStatus, Timestamp, Workspace, WorkspaceAccess, WorkspaceId,
};

/// Issued credential. Without a secret, the response that had it was lost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) record: CredentialRecord,
    pub(crate) secret: Option<String>,
    /// Time at which it was ended with everything that it created.
    pub(crate) ended_at: Option<Timestamp>,
}

/// Authenticated caller.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub(crate) org: OrgId,
    pub(crate) member: MemberId,
    pub(crate) credential: Option<CredentialId>,
    pub(crate) scope: TokenScope,
    /// Service account that acts for the member.
    pub(crate) via: Option<MemberId>,
    /// Inbound webhook that acts on behalf of the member.
    pub(crate) webhook: Option<InboundWebhookId>,
    /// Identifier of the request; `None` for what follows it.
    pub(crate) request_id: Option<Uuid>,
}

/// Operation that a caller asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'c> {
    pub(crate) by: &'c Caller,
    pub(crate) operation: Operation,
}

/// Member and credential that created something or took it over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Owner {
    pub(crate) member: MemberId,
    pub(crate) credential: Option<CredentialId>,
    /// True if the credential was scoped: what it created has its scope and ends with it.
    pub(crate) is_bound: bool,
}

impl Who {
    pub(crate) fn owner(&self) -> Owner {
        Owner {
            member: self.member,
            credential: self.credential,
            is_bound: self.credential.is_some() && self.scope != TokenScope::default(),
        }
    }
}

/// Returns a custom role as the oracle knows it.
fn role_of(role: &CustomRole) -> Role {
    let listed = |actions: ActionSet| names(actions.iter().map(Action::as_str));
    Role {
        base: role.base_role.as_str().to_owned(),
        allow: listed(role.actions.allow),
        deny: listed(role.actions.deny),
        is_active: role.is_active,
    }
}

/// Returns the actions of a custom role as if it were active.
pub(crate) fn possible_actions(role: &CustomRole) -> Actions {
    let role = Role {
        is_active: true,
        ..role_of(role)
    };
    Reference::read().custom_actions(&role)
}

/// Returns a change of a memory as the oracle knows it.
pub(crate) fn change_of(change: &MemoryChange, rewrites: bool) -> Change {
    Change {
        audience: change.audience_tag.as_ref().map(ToString::to_string),
        sensitivity: change.sensitivity_label.map(|label| label.to_string()),
        review: change.review_status.map(|status| status.to_string()),
        moves: change.source_id.is_some(),
        rewrites,
    }
}

/// The rules for a caller, which the oracle knows: it is asked with names.
pub(crate) struct Rules<'o> {
    org: &'o Org,
    who: &'o Who,
    access: Access<'static>,
}

impl Org {
    pub(crate) fn role_actions(&self, role: RoleRef) -> Actions {
        match role {
            RoleRef::BuiltIn(role) => Reference::read().built_in_actions(role.as_str()).clone(),
            RoleRef::Custom(id) => Reference::read().custom_actions(&role_of(&self.roles[&id])),
        }
    }

    /// Returns the name of a workspace: its slug, or its identifier if it was removed.
    fn name_of(&self, workspace: WorkspaceId) -> String {
        let found = self.workspaces.get(&workspace);
        found.map_or_else(|| workspace.to_string(), |found| found.slug.clone())
    }

    /// Returns a service account as it acts for another member, if it may.
    fn acted_for(&self, account: &Who, wanted: &MemberRef) -> Option<Who> {
        let held = &self.members[&account.member];
        let actions = account.scope.actions;
        let may_act = self.role_actions(held.role).contains("member:act_for")
            && actions.is_none_or(|actions| actions.contains(Action::MemberActFor));
        let mut members = self.members.values();
        let member = members.find(|member| match wanted {
            MemberRef::Id(id) => member.id == *id,
            MemberRef::Handle(handle) => member.handle == *handle,
        })?;
        let teams = match held.role {
            RoleRef::Custom(role) => self.roles[&role].act_for_teams.as_ref(),
            RoleRef::BuiltIn(_) => None,
        };
        let is_in_reach =
            teams.is_none_or(|teams| member.teams.iter().any(|team| teams.contains(team)));
        let owner = RoleRef::BuiltIn(BuiltInRole::Owner);
        let is_person = member.kind == MemberKind::User && member.role != owner;
        let is_permitted = held.kind == MemberKind::ServiceAccount && may_act;
        (is_permitted && is_person && is_in_reach).then(|| Who {
            member: member.id,
            via: Some(account.member),
            ..account.clone()
        })
    }

    /// Returns the rules for a caller.
    pub(crate) fn rules<'o>(&'o self, who: &'o Who) -> Rules<'o> {
        let member = &self.members[&who.member];
        let workspaces = self.workspaces.values();
        let mut directory = Directory {
            slug: self.slug.clone(),
            workspaces: workspaces.map(|place| place.slug.clone()).collect(),
            private: self.private.iter().map(|id| self.name_of(*id)).collect(),
            ..Directory::default()
        };
        let mut name_of_role = |role: RoleRef| match role {
            RoleRef::BuiltIn(role) => role.as_str().to_owned(),
            RoleRef::Custom(id) => {
                let role = role_of(&self.roles[&id]);
                directory.roles.insert(id.to_string(), role);
                id.to_string()
            }
        };
        let mut roles_of = |holder: MemberId| {
            let least = (holder, WorkspaceId(Uuid::nil()));
            let held = self.overrides.range(least..);
            let held = held.take_while(|((member, _), _)| *member == holder);
            let held = held.map(|((_, place), role)| (self.name_of(*place), name_of_role(*role)));
            let there: BTreeMap<String, String> = held.collect();
            (name_of_role(self.members[&holder].role), there)
        };
        let (role, workspace_roles) = roles_of(who.member);
        let via = who.via.map(|account| {
            let (role, workspace_roles) = roles_of(account);
            Account {
                role,
                workspace_roles,
            }
        });
        let caller = authorization::Caller {
            handle: member.handle.clone(),
            is_service_account: member.kind == MemberKind::ServiceAccount,
            teams: member.teams.iter().cloned().collect(),
            role,
            workspace_roles,
            scope: self.scope_of(&who.scope),
            via,
        };
        Rules {
            org: self,
            who,
            access: Reference::read().access_in(directory, caller),
        }
    }

    fn scope_of(&self, scope: &TokenScope) -> Scope {
        let workspaces = scope.workspaces.as_ref().map(|workspaces| {
            let workspaces = workspaces.iter();
            workspaces.map(|place| self.name_of(*place)).collect()
        });
        let audience = scope.audience.as_ref();
        Scope {
            workspaces,
            actions: scope
                .actions
                .map(|actions| names(actions.iter().map(Action::as_str))),
            audience: audience.map(|labels| labels.iter().map(ToString::to_string).collect()),
        }
    }
}

/// Private workspaces, which exist for their people only.
impl Org {
    /// Adds a workspace, or replaces it.
    pub(crate) fn put_workspace(&mut self, workspace: Workspace) {
        match workspace.access {
            WorkspaceAccess::Open => self.private.remove(&workspace.id),
            WorkspaceAccess::Private => self.private.insert(workspace.id),
        };
        self.workspaces.insert(workspace.id, workspace);
    }

    /// Returns the private workspaces that do not exist for a caller.
    pub(crate) fn closed_to(&self, who: &Who) -> BTreeSet<WorkspaceId> {
        if self.private.is_empty() {
            return BTreeSet::new();
        }
        let rules = self.rules(who);
        let places = self.private.iter().copied();
        let is_closed = |id: &WorkspaceId| !rules.access.is_one_of_the_people(&self.name_of(*id));
        places.filter(is_closed).collect()
    }

    /// Returns true if a workspace, or a role of one, exists for a caller, as far as it is private.
    pub(crate) fn knows(&self, who: &Who, workspace: Option<WorkspaceId>) -> bool {
        workspace.is_none_or(|id| !self.closed_to(who).contains(&id))
    }
}

impl Rules<'_> {
    /// Returns the actions of the caller for the organisation as a whole.
    pub(crate) fn actions(&self) -> Actions {
        self.access.actions()
    }

    /// Returns the actions of the caller in a workspace.
    pub(crate) fn actions_in(&self, workspace: WorkspaceId) -> Actions {
        self.access.actions_in(self.org.name_of(workspace).as_str())
    }

    pub(crate) fn holds(&self, action: Action, workspace: WorkspaceId) -> bool {
        self.actions_in(workspace).contains(action.as_str())
    }

    /// Returns true if the credential works in a workspace.
    pub(crate) fn works_in(&self, workspace: WorkspaceId) -> bool {
        self.access.works_in(self.org.name_of(workspace).as_str())
    }

    /// Returns true if the caller may do an operation, by what that always requires.
    ///
    /// `None` for an operation of the organisation.
    pub(crate) fn operation(
        &self,
        operation: Operation,
        workspace: Option<WorkspaceId>,
    ) -> Result<(), ErrorResponse> {
        let place = workspace.map(|workspace| self.org.name_of(workspace));
        let place = place.unwrap_or_default();
        done(self.access.operation(&operation.id(), &place))
    }

    /// Returns true if the caller may do an operation of a workspace under a condition of the table.
    pub(crate) fn may(
        &self,
        operation: Operation,
        condition: &str,
        workspace: WorkspaceId,
    ) -> bool {
        let place = self.org.name_of(workspace);
        let verdict = self.access.operation_if(&operation.id(), condition, &place);
        verdict == Verdict::Everything
    }

    /// Returns true unless the caller lacks everywhere what a bulk update requires.
    pub(crate) fn may_begin(&self, change: &MemoryChange) -> bool {
        self.access.may_begin(&change_of(change, false))
    }

    /// Returns true if an audience includes the caller.
    pub(crate) fn is_covered(&self, label: &AudienceLabel) -> bool {
        self.access.is_covered(&label.to_string())
    }

    /// Returns true if an audience that names no other workspace includes the caller.
    pub(crate) fn is_covered_in(&self, workspace: WorkspaceId, label: &AudienceLabel) -> bool {
        let here = self.org.name_of(workspace);
        let names_other = label.scope() == AudienceScope::Workspace && label.name() != here;
        !names_other && self.is_covered(label)
    }

    /// Returns a memory with these labels, present or earlier ones, as the oracle knows it.
    fn labels_of(&self, id: MemoryId, labels: &MemoryLabels) -> Labels {
        let memory = self.org.memories.get(&id);
        let is_own = memory.is_some_and(|memory| memory.content.created_by == self.who.member);
        let is_edited = memory.is_some_and(|memory| memory.is_written_by(self.who));
        let handle = |is_theirs: bool| {
            if is_theirs {
                self.access.caller.handle.as_str()
            } else {
                ""
            }
        };
        let known = Labels::new(
            &self.org.name_of(labels.workspace_id),
            &labels.audience.to_string(),
            labels.sensitivity.as_str(),
            labels.review.as_str(),
            handle(is_own),
        );
        Labels {
            editor: handle(is_edited).to_owned(),
            ..known
        }
    }

    /// Returns true if a memory exists for the caller: if it may know that there is such a memory.
    pub(crate) fn exists(&self, id: MemoryId, labels: &MemoryLabels) -> bool {
        self.access.exists(&self.labels_of(id, labels))
    }

    /// Returns the decision on a use of a memory.
    pub(crate) fn verdict(&self, id: MemoryId, labels: &MemoryLabels, wanted: &Use) -> Verdict {
        self.access.verdict(&self.labels_of(id, labels), wanted)
    }

    /// Returns the part of a memory that the caller sees.
    pub(crate) fn sight(&self, id: MemoryId, labels: &MemoryLabels) -> Verdict {
        self.verdict(id, labels, &Use::Check)
    }
}

/// Returns the error that stands for a decision.
pub(crate) fn done(verdict: Verdict) -> Result<(), ErrorResponse> {
    match verdict {
        Verdict::Unknown => Err(ErrorResponse::NotFound),
        Verdict::Forbidden => Err(ErrorResponse::Forbidden),
        Verdict::Labels | Verdict::Everything => Ok(()),
    }
}

impl Model {
    /// Authenticates a caller.
    pub(crate) fn authenticate(
        &self,
        by: &Caller,
        wanted: CredentialKind,
        now: Timestamp,
    ) -> Result<Who, ErrorResponse> {
        let who = match &by.credential {
            Credential::Trusted { org, member } => Who {
                org: *org,
                member: *member,
                credential: None,
                scope: TokenScope::default(),
                via: None,
                webhook: None,
                request_id: Some(REQUEST_ID),
            },
            Credential::Secret(secret) => {
                let known =
                    |token: &&super::Token| token.secret.as_deref() == Some(secret.expose());
                let token = self.tokens.values().find(known).map(|token| &token.record);
                let is_backed = |token: &&CredentialRecord| {
                    let is_backing = |by: CredentialId| {
                        self.ended_at(by).is_none()
                            && (!token.is_dependent || self.is_live(by, now))
                    };
                    token.created_with.is_none_or(is_backing)
                };
                let token = token
                    .filter(|token| token.kind == wanted && self.is_live(token.id, now))
                    .filter(is_backed);
                let token = token.ok_or(ErrorResponse::Unauthenticated)?;
                Who {
                    org: token.org_id,
                    member: token.member_id,
                    credential: Some(token.id),
                    scope: token.scope.clone(),
                    via: None,
                    webhook: None,
                    request_id: Some(REQUEST_ID),
                }
            }
        };
        let is_member = self
            .find_org(who.org)
            .is_some_and(|org| org.members.contains_key(&who.member));
        if !is_member {
            return Err(ErrorResponse::Unauthenticated);
        }
        match &by.acting_for {
            None => Ok(who),
            Some(member) => {
                let member = self.org(who.org).acted_for(&who, member);
                member.ok_or(ErrorResponse::Forbidden)
            }
        }
    }

    /// Returns true if a credential is valid, apart from the one that it was created with.
    fn is_live(&self, credential: CredentialId, now: Timestamp) -> bool {
        let token = self.tokens.get(&credential).map(|token| &token.record);
        token.is_some_and(|token| now < token.expires_at && token.revoked_at.is_none())
    }

    /// Returns the time at which a credential, or the one that created it, was ended with everything
    /// that it created.
    pub(crate) fn ended_at(&self, credential: CredentialId) -> Option<Timestamp> {
        let token = self.tokens.get(&credential)?;
        let creator = token.record.created_with;
        token.ended_at.or_else(|| self.ended_at(creator?))
    }

    /// Returns the credential that created the one of a caller.
    pub(crate) fn created_through(&self, who: &Who) -> Option<CredentialId> {
        self.record(who.credential?)?.created_with
    }

    /// Returns the record of a credential.
    pub(crate) fn record(&self, credential: CredentialId) -> Option<&CredentialRecord> {
        let token = self.tokens.get(&credential);
        token.map(|token| &token.record)
    }

    /// Returns the time from which a credential is invalid.
    pub(crate) fn expiry(&self, credential: CredentialId) -> Option<Timestamp> {
        let token = self.tokens.get(&credential);
        token.map(|token| token.record.expires_at)
    }

    /// Returns the caller on whose behalf something that it created acts.
    ///
    /// There is none once the member was removed, the scoped credential is invalid, or the
    /// credential was ended with what it created.
    pub(crate) fn acting_for(&self, org: OrgId, owner: Owner, now: Timestamp) -> Option<Who> {
        let (member, credential) = (owner.member, owner.credential);
        let scope = match credential {
            Some(id) if self.ended_at(id).is_some() => return None,
            Some(id) if owner.is_bound => {
                let token = self.tokens.get(&id).filter(|_| self.is_live(id, now))?;
                token.record.scope.clone()
            }
            _ => TokenScope::default(),
        };
        let is_member = self.org(org).members.contains_key(&member);
        is_member.then_some(Who {
            org,
            member,
            credential,
            scope,
            via: None,
            webhook: None,
            request_id: Some(REQUEST_ID),
        })
    }

    /// Returns the status of something in a workspace that is in a `state` unless it has ended, or
    /// its owner lacks the action that it needs.
    pub(crate) fn status_of(
        &self,
        org: OrgId,
        owner: Owner,
        (workspace, needed): (WorkspaceId, Option<Action>),
        state: ResourceState,
        now: Timestamp,
    ) -> ResourceStatus {
        let (state, ended_reason, ended_at) = match self.acting_for(org, owner, now) {
            None => {
                let (reason, at) = self.end_of(org, owner, now);
                (ResourceState::Ended, Some(reason), at)
            }
            Some(who) => {
                let rules = self.org(org).rules(&who);
                let is_permitted = match needed {
                    Some(action) => rules.holds(action, workspace),
                    None => rules.works_in(workspace),
                };
                if !is_permitted {
                    let reason = EndedReason::PermissionMissing;
                    (ResourceState::Suspended, Some(reason), None)
                } else {
                    (state, None, None)
                }
            }
        };
        ResourceStatus {
            state,
            ended_reason,
            ended_at,
        }
    }

    /// Returns the reason and the time of the end of what an owner created.
    fn end_of(&self, org: OrgId, owner: Owner, now: Timestamp) -> (EndedReason, Option<Timestamp>) {
        let org = self.org(org);
        if !org.members.contains_key(&owner.member) {
            let at = org.former_members.get(&owner.member).copied();
            return (EndedReason::MemberRemoved, at);
        }
        let token = owner.credential.and_then(|id| self.tokens.get(&id));
        let Some(token) = token else {
            return (EndedReason::CredentialRevoked, None);
        };
        let (record, expires_at) = (&token.record, token.record.expires_at);
        let revoked_at = record.revoked_at.filter(|at| *at < expires_at);
        match (self.ended_at(record.id), revoked_at) {
            (Some(at), _) => (EndedReason::EndedWithCredential, Some(at)),
            (None, None) if expires_at <= now => (EndedReason::CredentialExpired, Some(expires_at)),
            (None, revoked_at) => (EndedReason::CredentialRevoked, revoked_at),
        }
    }

    /// Checks that a caller holds what an owner may do now in a workspace, among these actions.
    pub(crate) fn require_covered(
        &self,
        who: &Who,
        workspace: WorkspaceId,
        owner: Owner,
        allowed: &Actions,
        now: Timestamp,
    ) -> Result<(), ErrorResponse> {
        let org = self.org(who.org);
        let Some(acting) = self.acting_for(who.org, owner, now) else {
            return Ok(());
        };
        let theirs = org.rules(&acting).actions_in(workspace);
        let own = org.rules(who).actions_in(workspace);
        let mut needed = theirs.intersection(allowed);
        if needed.all(|action| own.contains(action)) {
            Ok(())
        } else {
            Err(ErrorResponse::Forbidden)
        }
    }

    /// Authenticates the bearer of a token and authorises its operation of the organisation.
    pub(crate) fn authorize(&self, asked: Asked<'_>, now: Timestamp) -> Result<Who, ErrorResponse> {
        let who = self.authenticate(asked.by, CredentialKind::Bearer, now)?;
        self.org(who.org)
            .rules(&who)
            .operation(asked.operation, None)?;
        Ok(who)
    }

    /// Authenticates the bearer of a token and authorises its operation of a workspace.
    pub(crate) fn authorize_in(
        &self,
        asked: Asked<'_>,
        workspace: WorkspaceId,
        now: Timestamp,
    ) -> Result<Who, ErrorResponse> {
        let who = self.authenticate(asked.by, CredentialKind::Bearer, now)?;
        let rules = self.org(who.org).rules(&who);
        rules.operation(asked.operation, Some(workspace))?;
        Ok(who)
    }

    /// Authenticates the bearer of a token that works in a workspace.
    pub(crate) fn enter(
        &self,
        by: &Caller,
        workspace: WorkspaceId,
        now: Timestamp,
    ) -> Result<Who, ErrorResponse> {
        let who = self.authenticate(by, CredentialKind::Bearer, now)?;
        let works = self.org(who.org).rules(&who).works_in(workspace);
        works.then_some(who).ok_or(ErrorResponse::NotFound)
    }

    /// Authenticates the holder of a session and authorises its operation of an organisation.
    pub(crate) fn authorize_in_org(
        &self,
        asked: Asked<'_>,
        slug: &str,
        now: Timestamp,
    ) -> Result<Who, ErrorResponse> {
        let who = self.authenticate(asked.by, CredentialKind::Session, now)?;
        let org = self.org(who.org);
        if org.slug != slug {
            return Err(ErrorResponse::NotFound);
        }
        org.rules(&who).operation(asked.operation, None)?;
        Ok(who)
    }
}
