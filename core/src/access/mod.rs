//! Who may do what: actions, roles, credentials and the principal that they make.

mod action;
mod credential;
pub mod needs;
mod principal;
mod role;

pub use self::action::{Action, ActionSet};
pub use self::credential::{
    Credential, CredentialKind, CredentialRecord, InvalidSecret, Narrowing, Secret, SecretHash,
};
pub use self::needs::{NEEDS, Need, Place};
pub use self::principal::{Denial, Principal};
pub(crate) use self::principal::{REDIRECTS_MAX, ResolvedRole, follow_role};
pub use self::role::{BaseRole, BuiltInRole, InvalidRoleRef, RoleRef};
