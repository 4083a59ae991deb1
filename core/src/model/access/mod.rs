//! Access control: actions, roles, credentials and required permissions.

mod action;
mod credential;
mod member_ref;
mod permissions;
mod role;

pub use self::action::{Action, ActionSet};
pub use self::credential::{
    Credential, CredentialKind, CredentialRecord, InvalidSecret, Secret, SecretHash, TokenScope,
};
pub(crate) use self::credential::{IdleTimeout, USE_WINDOW_MS};
pub use self::member_ref::{InvalidMemberRef, MemberRef};
pub use self::permissions::{PermissionScope, RequiredPermission};
pub use self::role::{BaseRole, BuiltInRole, InvalidRoleRef, RoleRef};
