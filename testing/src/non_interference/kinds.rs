//! Kinds of principals.

use std::time::Duration;

use bytes::Bytes;

use crate::authorization::{Account, Caller, Directory, Role, Scope, names};
use crate::call::{ACT_FOR, ApiCall};
use crate::requests::{
    ADMIN, DAY, MEMBER, VIEWER, new_mcp_key, new_member, new_role, new_token, with,
};
use crate::seed::Seed;
use knowledge_core::Error;
use knowledge_core::access::{ActionSet, BaseRole, CredentialKind, RoleRef, Secret, TokenScope};
use knowledge_core::api::Authentication;
use knowledge_core::model::{MemberId, MemberKind, RoleActions, RoleId, WorkspaceId};
use knowledge_core::service::MemberAssignment;

/// Handle of the principal.
pub(super) const PAT: &str = "pat";
/// Workspace with most memories, and another.
pub(super) const WORKSPACES: [&str; 2] = ["main", "side"];

/// Kind of the principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Viewer,
    Member,
    TeamMember,
    /// Member with a custom role that adds and manages, but neither reviews nor shares.
    Custom,
    Admin,
    /// Administrator who is a viewer in `main`.
    RestrictedAdmin,
    /// Token of an administrator for `side`.
    OneWorkspace,
    /// Token of an administrator for a few actions.
    FewActions,
    /// Token of an administrator for a list of audience labels.
    AudienceList,
    /// MCP key of an administrator.
    McpKey,
    /// Token of a service account that acts for an administrator, and may do less.
    ServiceAccount,
}

const FEW_ACTIONS: [&str; 7] = [
    "memory:read",
    "memory:create",
    "memory:update",
    "memory:review",
    "recall:create",
    "chat:write",
    "dashboard:read",
];
const CUSTOM_ALLOW: [&str; 8] = [
    "memory:create",
    "memory:update",
    "memory:delete",
    "recall:create",
    "webhook:manage",
    "connector:manage",
    "mcp_key:manage",
    "citation_subscription:manage",
];
/// Actions that the service account has besides those of a member.
const ACTING_ALLOW: [&str; 3] = [
    "member:act_for",
    "memory:read_confidential",
    "memory:delete",
];
const LIST: [&str; 2] = ["workspace:main", "team:legal"];
const KEY_LABEL: &str = "workspace:main";
/// Lifetime of the tokens and the session, longer than the clock moves.
const LIFETIME: Duration = DAY.saturating_mul(300);

/// The principal with its credentials.
pub(super) struct Principal {
    pub(super) member: MemberId,
    pub(super) token: Secret,
    pub(super) session: Secret,
    /// Another token of the same member, of full scope.
    pub(super) full_token: Secret,
    /// The principal in terms of the documentation.
    pub(super) caller: Caller,
}

impl Principal {
    /// Returns the request of a call with a token, or with the session if the operation takes one.
    pub(super) fn request(&self, call: &ApiCall, token: &Secret) -> http::Request<Bytes> {
        let credential = match call.operation.spec().authentication {
            Authentication::Session => &self.session,
            _ => token,
        };
        let mut call = ApiCall {
            credential: Some(credential.clone()),
            ..call.clone()
        };
        if self.caller.via.is_some() && *credential == self.token {
            call.add_header(ACT_FOR, self.member.to_string());
        }
        call.request()
    }
}

fn actions(names: &[&str]) -> ActionSet {
    let actions = names.iter();
    actions
        .map(|name| name.parse().expect("an action"))
        .collect()
}

impl Kind {
    pub(super) const ALL: [Self; 11] = [
        Self::Viewer,
        Self::Member,
        Self::TeamMember,
        Self::Custom,
        Self::Admin,
        Self::RestrictedAdmin,
        Self::OneWorkspace,
        Self::FewActions,
        Self::AudienceList,
        Self::McpKey,
        Self::ServiceAccount,
    ];

    fn is_admin(self) -> bool {
        !matches!(
            self,
            Self::Viewer | Self::Member | Self::TeamMember | Self::Custom
        )
    }

    /// Returns true if the credential is limited to workspaces or audience labels.
    pub(super) fn is_limited(self) -> bool {
        matches!(self, Self::OneWorkspace | Self::AudienceList | Self::McpKey)
    }

    /// Returns the scope of the token, and the same in terms of the documentation.
    fn scopes(self, workspaces: [WorkspaceId; 2]) -> (TokenScope, Scope) {
        match self {
            Self::OneWorkspace => (
                TokenScope {
                    workspaces: Some(vec![workspaces[1]]),
                    ..TokenScope::default()
                },
                Scope {
                    workspaces: Some(names([WORKSPACES[1]])),
                    ..Scope::default()
                },
            ),
            Self::FewActions => (
                TokenScope {
                    actions: Some(actions(&FEW_ACTIONS)),
                    ..TokenScope::default()
                },
                Scope {
                    actions: Some(names(FEW_ACTIONS)),
                    ..Scope::default()
                },
            ),
            Self::AudienceList => (
                TokenScope {
                    audience: Some(LIST.map(|label| label.parse().expect("a label")).to_vec()),
                    ..TokenScope::default()
                },
                Scope {
                    audience: Some(names(LIST)),
                    ..Scope::default()
                },
            ),
            _ => (TokenScope::default(), Scope::default()),
        }
    }

    /// Creates the principal; its custom role is added to the directory.
    pub(super) async fn create(
        self,
        seed: &Seed,
        workspaces: [WorkspaceId; 2],
        directory: &mut Directory,
    ) -> Result<Principal, Error> {
        let mut role = match self {
            Self::Viewer => VIEWER,
            kind if kind.is_admin() => ADMIN,
            _ => MEMBER,
        };
        let mut caller = Caller::new(PAT, &role.to_string());
        if let Self::Custom = self {
            role = RoleRef::Custom(custom_role(seed, directory).await?);
            caller.role = "custom".to_owned();
        }
        let new = with(new_member(PAT, role), |new| {
            if let Self::TeamMember | Self::AudienceList = self {
                new.teams = vec!["legal".to_owned()];
            }
        });
        caller.teams = names(new.teams.iter().map(String::as_str));
        let member = seed.member(&new).await?.id;
        if let Self::RestrictedAdmin = self {
            let viewer = MemberAssignment::Workspace(workspaces[0], Some(VIEWER));
            seed.assign(member, viewer).await?;
            let there = (WORKSPACES[0].to_owned(), "viewer".to_owned());
            caller.workspace_roles.extend([there]);
        }
        let (scope, documented) = self.scopes(workspaces);
        caller.scope = documented;
        let issue = async |kind, scope| -> Result<Secret, Error> {
            let new = with(new_token(member, kind), |new| {
                new.scope = scope;
                new.lifetime = LIFETIME;
            });
            Ok(seed.issue(&new).await?.secret)
        };
        let full_token = issue(CredentialKind::Bearer, TokenScope::default()).await?;
        let mut token = issue(CredentialKind::Bearer, scope).await?;
        if let Self::McpKey = self {
            caller.scope = Scope::of_mcp_key(WORKSPACES[0], &[KEY_LABEL]);
            let service = &seed.service;
            let (by, key) = (seed.trusted(member), new_mcp_key(KEY_LABEL));
            let key = service.mcp_keys().create(&by, workspaces[0], &key);
            token = key.await?.secret.expect("a new key has a secret");
        }
        if let Self::ServiceAccount = self {
            let (account, acting) = service_account(seed, directory).await?;
            caller.via = Some(account);
            token = acting;
        }
        Ok(Principal {
            member,
            token,
            session: issue(CredentialKind::Session, TokenScope::default()).await?,
            full_token,
            caller,
        })
    }
}

/// Creates the service account, and returns its token; its role is added to the directory.
async fn service_account(
    seed: &Seed,
    directory: &mut Directory,
) -> Result<(Account, Secret), Error> {
    let new = with(new_role("acting"), |new| {
        new.base_role = BaseRole::Member;
        new.actions.allow = actions(&ACTING_ALLOW);
    });
    let documented = Role {
        base: "member".to_owned(),
        allow: names(ACTING_ALLOW),
        is_active: true,
        ..Role::default()
    };
    directory.roles.insert("acting".to_owned(), documented);
    let role = RoleRef::Custom(seed.role(&new).await?.id);
    let bot = with(new_member("bot", role), |new| {
        new.kind = MemberKind::ServiceAccount;
    });
    let bot = seed.member(&bot).await?.id;
    let token = with(new_token(bot, CredentialKind::Bearer), |new| {
        new.lifetime = LIFETIME;
    });
    let account = Account {
        role: "acting".to_owned(),
        ..Account::default()
    };
    Ok((account, seed.issue(&token).await?.secret))
}

/// Creates the custom role, and adds it to the directory.
async fn custom_role(seed: &Seed, directory: &mut Directory) -> Result<RoleId, Error> {
    let new = with(new_role("custom"), |new| {
        new.base_role = BaseRole::Viewer;
        new.actions = RoleActions {
            allow: actions(&CUSTOM_ALLOW),
            deny: ActionSet::EMPTY,
        };
    });
    let documented = Role {
        base: "viewer".to_owned(),
        allow: names(CUSTOM_ALLOW),
        is_active: true,
        ..Role::default()
    };
    directory.roles.insert("custom".to_owned(), documented);
    Ok(seed.role(&new).await?.id)
}
