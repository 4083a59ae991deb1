//! Organisations, workspaces, members and sources.

use serde::{Deserialize, Serialize};

use super::names::string_enum;
use super::{AudienceLabel, MemberId, OrgId, SourceId, Timestamp, WorkspaceId};
use crate::access::RoleRef;

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// The identifier.
    pub id: OrgId,
    /// 1 to 128 characters.
    pub name: String,
    /// The name in paths and in `org:` labels; unique in the store.
    pub slug: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A workspace of an organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Workspace {
    /// The identifier.
    pub id: WorkspaceId,
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// The name in `workspace:` labels; unique in the organisation.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub slug: String,
    /// The audience that the workspace is for, and that its new memories have.
    pub audience: AudienceLabel,
    /// When it was made.
    pub created_at: Timestamp,
}

string_enum! {
    /// What kind of member acts.
    MemberKind {
        /// A person.
        User = "user",
        /// A program.
        ServiceAccount = "service_account",
    }
}

/// A member of an organisation. It holds one role there; a role in a workspace, where it has one, replaces that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Member {
    /// The identifier.
    pub id: MemberId,
    /// A person or a program.
    pub kind: MemberKind,
    /// The name in `user:` labels; unique in the organisation.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub handle: String,
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// The role in the organisation.
    pub role: RoleRef,
    /// The teams whose `team:` labels cover the member.
    #[cfg_attr(feature = "openapi", schemars(with = "Vec<crate::schema::Slug>"))]
    pub teams: Vec<String>,
    /// When the member was added.
    pub created_at: Timestamp,
}

/// Where memories come from. Sources belong to the organisation as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Source {
    /// The identifier.
    pub id: SourceId,
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// What it is, for example `confluence`.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub kind: String,
    /// When it was made.
    pub created_at: Timestamp,
}
