//! Callers and their permissions.

use std::collections::BTreeSet;

use super::{Answer, Caller, Expected, Model, Org, Refusal};
use knowledge_core::access::{
    Action, BaseRole, BuiltInRole, Credential, CredentialKind, RoleRef, TokenScope,
};
use knowledge_core::model::{
    AudienceLabel, AudienceScope, CredentialId, CustomRole, MemberId, OrgId, Timestamp, WorkspaceId,
};

/// Issued credential.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) id: CredentialId,
    pub(super) kind: CredentialKind,
    pub(super) org: OrgId,
    pub(super) member: MemberId,
    pub(super) scope: TokenScope,
    pub(super) expires_at: Timestamp,
    pub(super) is_revoked: bool,
}

/// Authenticated caller.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) org: OrgId,
    pub(super) member: MemberId,
    pub(super) credential: Option<CredentialId>,
    pub(super) scope: TokenScope,
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
pub(super) fn custom_actions(role: &CustomRole) -> BTreeSet<Action> {
    let mut actions = builtin_actions(match role.base_role {
        BaseRole::Viewer => BuiltInRole::Viewer,
        BaseRole::Member => BuiltInRole::Member,
    });
    if role.is_active {
        actions.extend(role.actions.allow.iter());
    }
    for denied in role.actions.deny.iter() {
        actions.remove(&denied);
    }
    actions
}

impl Org {
    pub(super) fn role_actions(&self, role: RoleRef) -> BTreeSet<Action> {
        match role {
            RoleRef::BuiltIn(role) => builtin_actions(role),
            RoleRef::Custom(id) => custom_actions(&self.roles[&id]),
        }
    }

    /// Returns the actions of a caller for the organisation as a whole.
    pub(super) fn actions(&self, who: &Who) -> BTreeSet<Action> {
        if who.scope.workspaces.is_some() {
            return BTreeSet::new();
        }
        self.scoped(who, self.members[&who.member].role)
    }

    /// Returns the actions of a caller in a workspace.
    pub(super) fn actions_in(&self, who: &Who, workspace: WorkspaceId) -> BTreeSet<Action> {
        let scoped_to = who.scope.workspaces.as_ref();
        if scoped_to.is_some_and(|workspaces| !workspaces.contains(&workspace)) {
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

    /// Returns true if an audience includes a caller in a workspace.
    pub(super) fn is_covered(
        &self,
        who: &Who,
        label: &AudienceLabel,
        workspace: WorkspaceId,
    ) -> bool {
        if let Some(audience) = &who.scope.audience {
            return audience.contains(label);
        }
        let member = &self.members[&who.member];
        match label.scope() {
            AudienceScope::Org => label.name() == self.slug,
            AudienceScope::Workspace => label.name() == self.workspaces[&workspace].slug,
            AudienceScope::Team => member.teams.iter().any(|team| team == label.name()),
            AudienceScope::User => label.name() == member.handle,
        }
    }
}

impl Model {
    /// Authenticates a caller.
    pub(super) fn authenticate(
        &self,
        by: &Caller,
        wanted: CredentialKind,
        now: Timestamp,
    ) -> Result<Who, Refusal> {
        let who = match &by.credential {
            Credential::Trusted { org, member } => Who {
                org: *org,
                member: *member,
                credential: None,
                scope: TokenScope::default(),
            },
            Credential::Secret(secret) => {
                let token = self.tokens.get(secret.expose());
                let token = token
                    .filter(|token| {
                        token.kind == wanted && now < token.expires_at && !token.is_revoked
                    })
                    .ok_or(Refusal::Unauthenticated)?;
                Who {
                    org: token.org,
                    member: token.member,
                    credential: Some(token.id),
                    scope: Org::scope_of(Some(token)),
                }
            }
        };
        let is_member = self
            .orgs
            .get(&who.org)
            .is_some_and(|org| org.members.contains_key(&who.member));
        is_member.then_some(who).ok_or(Refusal::Unauthenticated)
    }

    /// Authenticates the bearer of a token and authorises `action` for the organisation as a whole.
    pub(super) fn bearer(
        &self,
        by: &Caller,
        action: Action,
        now: Timestamp,
    ) -> Result<Who, Refusal> {
        let who = self.authenticate(by, CredentialKind::Bearer, now)?;
        if self.org(who.org).actions(&who).contains(&action) {
            Ok(who)
        } else {
            Err(Refusal::Forbidden)
        }
    }

    /// Authenticates the bearer of a token and authorises `action` in a workspace.
    pub(super) fn authorize_in(
        &self,
        by: &Caller,
        workspace: WorkspaceId,
        action: Action,
        now: Timestamp,
    ) -> Result<Who, Refusal> {
        let who = self.authenticate(by, CredentialKind::Bearer, now)?;
        let org = self.org(who.org);
        if !org.workspaces.contains_key(&workspace) {
            return Err(Refusal::NotFound);
        }
        if org.actions_in(&who, workspace).contains(&action) {
            Ok(who)
        } else {
            Err(Refusal::Forbidden)
        }
    }

    /// Authenticates the holder of a session and authorises `action` in an organisation.
    pub(super) fn authorize_in_org(
        &self,
        by: &Caller,
        slug: &str,
        action: Action,
        now: Timestamp,
    ) -> Result<Who, Refusal> {
        let who = self.authenticate(by, CredentialKind::Session, now)?;
        let org = self.org(who.org);
        if org.slug != slug {
            return Err(Refusal::NotFound);
        }
        if org.actions(&who).contains(&action) {
            Ok(who)
        } else {
            Err(Refusal::Forbidden)
        }
    }

    pub(super) fn revoke(
        &mut self,
        org: OrgId,
        credential: CredentialId,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let token = self
            .tokens
            .values_mut()
            .find(|token| token.org == org && token.id == credential);
        match token {
            // An expired credential exists until it is purged, at an unspecified time.
            Some(token) if now < token.expires_at || learned.is_some() => {
                token.is_revoked = true;
                self.org_mut(org).mcp_keys.remove(&credential);
                Ok(Answer::Done)
            }
            _ => Err(vec![Refusal::NotFound]),
        }
    }
}
