//! Callers of the operations, with real credentials.

use knowledge_core::access::{ActionSet, BaseRole, CredentialKind, RoleRef, Secret, TokenScope};
use knowledge_core::internals::keys;
use knowledge_core::model::MemberId;
use knowledge_core::service;
use knowledge_testing::seed::Seed;

use crate::make::{ADMIN, new_token};
use crate::world::World;
use knowledge_testing::requests::with;

/// A member with a token and a session.
pub(crate) struct Caller {
    pub(crate) member: MemberId,
    /// Credential of the member that the host vouches for.
    pub(crate) trusted: service::Caller,
    pub(crate) token: String,
    pub(crate) session: String,
}

impl Caller {
    /// Issues the credentials of a member of an organisation.
    pub(crate) async fn of(seed: &Seed, member: MemberId, scope: TokenScope) -> Self {
        let issue = async |kind, scope| {
            let new = with(new_token(member, kind), |new| new.scope = scope);
            let secret = seed.issue(&new).await.unwrap().secret;
            // Its first use in an hour is recorded by itself, apart from the operation.
            seed.service.note_use(&secret.clone().into()).await;
            secret.expose().to_owned()
        };
        Self {
            member,
            trusted: seed.trusted(member),
            token: issue(CredentialKind::Bearer, scope).await,
            session: issue(CredentialKind::Session, TokenScope::default()).await,
        }
    }

    /// Creates an administrator.
    pub(crate) async fn admin(world: &World) -> Self {
        let member = world.member(ADMIN).await;
        Self::of(world, member, TokenScope::default()).await
    }

    /// Returns the member with credentials that nobody issued.
    pub(crate) fn forged(&self, world: &World) -> Self {
        let forge = |kind| {
            let secret = Secret::generate(kind, world.org.id, world.service.env());
            secret.expose().to_owned()
        };
        Self {
            member: self.member,
            trusted: self.trusted.clone(),
            token: forge(CredentialKind::Bearer),
            session: forge(CredentialKind::Session),
        }
    }

    /// Returns the member with each credential in the place of the other kind.
    pub(crate) fn swapped(&self) -> Self {
        Self {
            member: self.member,
            trusted: self.trusted.clone(),
            token: self.session.clone(),
            session: self.token.clone(),
        }
    }

    /// Creates a member with all permissions by two custom roles: one in the organisation, and
    /// another in the workspace.
    pub(crate) async fn custom(world: &World) -> Self {
        let member = world.member(all_actions(world).await).await;
        let role = all_actions(world).await;
        let assigned = world.assign_in(member, world.workspace.id, Some(role));
        assigned.await.unwrap();
        Self::of(world, member, TokenScope::default()).await
    }

    /// Takes all permissions from the member.
    pub(crate) async fn disempower(&self, world: &World) {
        let nothing = world.role(BaseRole::Viewer, ActionSet::EMPTY, ActionSet::ALL);
        let nothing = RoleRef::Custom(nothing.await.id);
        world.assign(self.member, nothing).await.unwrap();
        if self.is_assigned(world).await {
            let (member, workspace) = (self.member, world.workspace.id);
            let assigned = world.assign_in(member, workspace, Some(nothing));
            assigned.await.unwrap();
        }
    }

    /// Returns true if the member holds a role in the workspace.
    pub(crate) async fn is_assigned(&self, world: &World) -> bool {
        let role = keys::workspace_role(world.org.id, self.member, world.workspace.id);
        world.read::<RoleRef>(&role).await.is_some()
    }
}

/// Creates a custom role with all actions.
async fn all_actions(world: &World) -> RoleRef {
    let role = world.role(BaseRole::Viewer, ActionSet::ALL, ActionSet::EMPTY);
    RoleRef::Custom(role.await.id)
}
