//! Callers and their permissions.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{Caller, ErrorResponse, Model, Org};
use crate::client::REQUEST_ID;
use knowledge_core::access::{
    Action, BaseRole, BuiltInRole, Credential, CredentialKind, CredentialRecord, RoleRef,
    TokenScope,
};
use knowledge_core::model::{
    AudienceLabel, AudienceScope, CredentialId, CustomRole, InboundWebhookId, MemberId, OrgId,
    Timestamp, WorkspaceId,
};

/// Issued credential. Without a secret, the response that had it was lost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) record: CredentialRecord,
    pub(crate) secret: Option<String>,
}

/// Authenticated caller.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub(crate) org: OrgId,
    pub(crate) member: MemberId,
    pub(crate) credential: Option<CredentialId>,
    pub(crate) scope: TokenScope,
    /// Inbound webhook that acts on behalf of the member.
    pub(crate) webhook: Option<InboundWebhookId>,
    /// Identifier of the request; `None` for what follows it.
    pub(crate) request_id: Option<Uuid>,
}

/// Member and credential that created something or took it over.
pub(crate) type Owner = (MemberId, Option<CredentialId>);

impl Who {
    pub(crate) fn owner(&self) -> Owner {
        (self.member, self.credential)
    }
}

/// Returns the actions of a built-in role, according to the reference.
#[must_use]
pub fn builtin_actions(role: BuiltInRole) -> BTreeSet<Action> {
    let names: &[&str] = match role {
        BuiltInRole::Viewer => &["memory:read", "dashboard:read", "role:read"],
        BuiltInRole::Member => &[
            "memory:read",
            "dashboard:read",
            "role:read",
            "memory:create",
            "memory:update",
            "memory:review",
            "connector:report",
            "chat:write",
            "recall:create",
            "citation_subscription:manage",
        ],
        BuiltInRole::Admin | BuiltInRole::Owner => return Action::ALL.iter().copied().collect(),
    };
    let action = |name: &&str| name.parse().expect("the action exists");
    names.iter().map(action).collect()
}

/// Returns the actions of a custom role.
pub(crate) fn custom_actions(role: &CustomRole) -> BTreeSet<Action> {
    actions_of(role, role.is_active)
}

/// Returns the actions of a custom role as if it were active.
pub(crate) fn possible_actions(role: &CustomRole) -> BTreeSet<Action> {
    actions_of(role, true)
}

fn actions_of(role: &CustomRole, is_active: bool) -> BTreeSet<Action> {
    let mut actions = builtin_actions(match role.base_role {
        BaseRole::Viewer => BuiltInRole::Viewer,
        BaseRole::Member => BuiltInRole::Member,
    });
    if is_active {
        actions.extend(role.actions.allow.iter());
    }
    for denied in role.actions.deny.iter() {
        actions.remove(&denied);
    }
    actions
}

impl Org {
    pub(crate) fn role_actions(&self, role: RoleRef) -> BTreeSet<Action> {
        match role {
            RoleRef::BuiltIn(role) => builtin_actions(role),
            RoleRef::Custom(id) => custom_actions(&self.roles[&id]),
        }
    }

    /// Returns the actions of a caller for the organisation as a whole.
    pub(crate) fn actions(&self, who: &Who) -> BTreeSet<Action> {
        if who.scope.workspaces.is_some() {
            return BTreeSet::new();
        }
        self.scoped(who, self.members[&who.member].role)
    }

    /// Returns the actions of a caller in a workspace.
    pub(crate) fn actions_in(&self, who: &Who, workspace: WorkspaceId) -> BTreeSet<Action> {
        let scoped_to = who.scope.workspaces.as_ref();
        let is_outside = scoped_to.is_some_and(|workspaces| !workspaces.contains(&workspace));
        if is_outside || self.removing.includes(workspace) {
            return BTreeSet::new();
        }
        let own = self.members[&who.member].role;
        let role = self.overrides.get(&(who.member, workspace));
        self.scoped(who, *role.unwrap_or(&own))
    }

    fn scoped(&self, who: &Who, role: RoleRef) -> BTreeSet<Action> {
        let mut actions = self.role_actions(role);
        if let Some(scoped_to) = who.scope.actions {
            actions.retain(|action| scoped_to.contains(*action));
        }
        actions
    }

    /// Returns true if a credential works in a workspace.
    pub(crate) fn works_in(who: &Who, workspace: WorkspaceId) -> bool {
        let scoped_to = who.scope.workspaces.as_ref();
        scoped_to.is_none_or(|workspaces| workspaces.contains(&workspace))
    }

    /// Returns true if the actions are held in the organisation or in some workspace.
    pub(crate) fn allows_somewhere(&self, who: &Who, required: &BTreeSet<Action>) -> bool {
        let everywhere = Who {
            scope: TokenScope {
                workspaces: None,
                ..who.scope.clone()
            },
            ..who.clone()
        };
        let is_overridden =
            |workspace: &WorkspaceId| self.overrides.contains_key(&(who.member, *workspace));
        // Through a scoped credential, the role in the organisation counts where it is not replaced.
        let mut places = who.scope.workspaces.iter().flatten();
        let is_there = |place: &WorkspaceId| self.workspaces.contains_key(place);
        let counts = who.scope.workspaces.is_none()
            || places.any(|place| is_there(place) && !is_overridden(place));
        let mut overridden = self.workspaces.keys().filter(|place| is_overridden(place));
        counts && required.is_subset(&self.actions(&everywhere))
            || overridden.any(|workspace| required.is_subset(&self.actions_in(who, *workspace)))
    }

    /// Returns true if an audience includes a caller.
    ///
    /// `here` limits the workspaces that the label may name.
    pub(crate) fn is_covered(
        &self,
        who: &Who,
        label: &AudienceLabel,
        here: Option<WorkspaceId>,
    ) -> bool {
        let listed = who.scope.audience.as_ref();
        if listed.is_some_and(|audience| !audience.contains(label)) {
            return false;
        }
        let member = &self.members[&who.member];
        match label.scope() {
            AudienceScope::Org => label.name() == self.slug,
            AudienceScope::Workspace => self.workspaces.values().any(|workspace| {
                label.name() == workspace.slug
                    && here.is_none_or(|here| here == workspace.id)
                    && Self::works_in(who, workspace.id)
            }),
            AudienceScope::Team => member.teams.iter().any(|team| team == label.name()),
            AudienceScope::User => label.name() == member.handle,
        }
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
                webhook: None,
                request_id: Some(REQUEST_ID),
            },
            Credential::Secret(secret) => {
                let known =
                    |token: &&super::Token| token.secret.as_deref() == Some(secret.expose());
                let token = self.tokens.values().find(known).map(|token| &token.record);
                let is_backed = |token: &&CredentialRecord| {
                    token.created_with.is_none_or(|by| self.is_live(by, now))
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
                    webhook: None,
                    request_id: Some(REQUEST_ID),
                }
            }
        };
        let is_member = self
            .find_org(who.org)
            .is_some_and(|org| org.members.contains_key(&who.member));
        is_member
            .then_some(who)
            .ok_or(ErrorResponse::Unauthenticated)
    }

    /// Returns true if a credential is valid, apart from the one that it was created with.
    fn is_live(&self, credential: CredentialId, now: Timestamp) -> bool {
        let token = self.tokens.get(&credential).map(|token| &token.record);
        token.is_some_and(|token| now < token.expires_at && token.revoked_at.is_none())
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
    /// There is none once the member was removed or the credential is invalid.
    pub(crate) fn acting_for(
        &self,
        org: OrgId,
        (member, credential): Owner,
        now: Timestamp,
    ) -> Option<Who> {
        let scope = match credential {
            None => TokenScope::default(),
            Some(id) => {
                let token = self.tokens.get(&id).filter(|_| self.is_live(id, now))?;
                token.record.scope.clone()
            }
        };
        let is_member = self.org(org).members.contains_key(&member);
        is_member.then_some(Who {
            org,
            member,
            credential,
            scope,
            webhook: None,
            request_id: Some(REQUEST_ID),
        })
    }

    /// Checks that a caller holds what an owner may do now in a workspace, among these actions.
    pub(crate) fn require_covered(
        &self,
        who: &Who,
        workspace: WorkspaceId,
        owner: Owner,
        allowed: &BTreeSet<Action>,
        now: Timestamp,
    ) -> Result<(), ErrorResponse> {
        let org = self.org(who.org);
        let Some(acting) = self.acting_for(who.org, owner, now) else {
            return Ok(());
        };
        let theirs = org.actions_in(&acting, workspace);
        let own = org.actions_in(who, workspace);
        match theirs
            .intersection(allowed)
            .all(|action| own.contains(action))
        {
            true => Ok(()),
            false => Err(ErrorResponse::Forbidden),
        }
    }

    /// Authenticates the bearer of a token and authorises `action` for the organisation as a whole.
    pub(crate) fn bearer(
        &self,
        by: &Caller,
        action: Action,
        now: Timestamp,
    ) -> Result<Who, ErrorResponse> {
        let who = self.authenticate(by, CredentialKind::Bearer, now)?;
        if self.org(who.org).actions(&who).contains(&action) {
            Ok(who)
        } else {
            Err(ErrorResponse::Forbidden)
        }
    }

    /// Authenticates the bearer of a token and authorises `action` in a workspace.
    pub(crate) fn authorize_in(
        &self,
        by: &Caller,
        workspace: WorkspaceId,
        action: Action,
        now: Timestamp,
    ) -> Result<Who, ErrorResponse> {
        let who = self.authenticate(by, CredentialKind::Bearer, now)?;
        let org = self.org(who.org);
        if !org.workspaces.contains_key(&workspace) {
            return Err(ErrorResponse::NotFound);
        }
        if !Org::works_in(&who, workspace) {
            Err(ErrorResponse::NotFound)
        } else if org.actions_in(&who, workspace).contains(&action) {
            Ok(who)
        } else {
            Err(ErrorResponse::Forbidden)
        }
    }

    /// Authenticates the bearer of a token and returns its actions in a workspace.
    pub(crate) fn enter(
        &self,
        by: &Caller,
        workspace: WorkspaceId,
        now: Timestamp,
    ) -> Result<(Who, BTreeSet<Action>), ErrorResponse> {
        let who = self.authenticate(by, CredentialKind::Bearer, now)?;
        let org = self.org(who.org);
        if !org.workspaces.contains_key(&workspace) {
            return Err(ErrorResponse::NotFound);
        }
        if !Org::works_in(&who, workspace) {
            return Err(ErrorResponse::NotFound);
        }
        let held = org.actions_in(&who, workspace);
        Ok((who, held))
    }

    /// Authenticates the holder of a session and authorises `action` in an organisation.
    pub(crate) fn authorize_in_org(
        &self,
        by: &Caller,
        slug: &str,
        action: Action,
        now: Timestamp,
    ) -> Result<Who, ErrorResponse> {
        let who = self.authenticate(by, CredentialKind::Session, now)?;
        let org = self.org(who.org);
        if org.slug != slug {
            return Err(ErrorResponse::NotFound);
        }
        if org.actions(&who).contains(&action) {
            Ok(who)
        } else {
            Err(ErrorResponse::Forbidden)
        }
    }
}
