//! Organisations, workspaces, members and sources.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::names::string_enum;
use super::{
    AudienceLabel, ErasureId, ErasureScope, MemberId, OrgId, SourceId, Timestamp, WorkspaceId,
};
use crate::access::RoleRef;

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Organization {
    /// Identifier of the organisation.
    pub id: OrgId,
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Slug for paths and `org:` labels; unique in the store.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub slug: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Erasures that are running. What they take away does not exist for anybody.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub erasing: BTreeMap<ErasureId, ErasureScope>,
    /// Removed workspaces whose contents are not removed yet; omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removing: Vec<WorkspaceId>,
    /// Private workspaces; omitted if there are none.
    ///
    /// The record of each says it too. Here it is part of what authenticates every caller, so that
    /// opening or closing a workspace cannot race with anything.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub private: BTreeSet<WorkspaceId>,
}

impl Organization {
    /// Returns true if a running erasure takes away what this member made.
    pub(crate) fn erases_member(&self, member: MemberId) -> bool {
        let mut scopes = self.erasing.values();
        scopes.any(|scope| scope.member_id == Some(member))
    }

    /// Returns true if a running erasure takes away memories from this source.
    pub(crate) fn erases_source(&self, source: SourceId) -> bool {
        let mut scopes = self.erasing.values();
        scopes.any(|scope| scope.source_id == Some(source))
    }
}

string_enum! {
    /// Access to a workspace: who its people are.
    WorkspaceAccess {
        /// Every member of the organisation.
        Open = "open",
        /// Members with a role in it, and owners. For everybody else it does not exist.
        Private = "private",
    }
}

/// A workspace of an organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Workspace {
    /// Identifier of the workspace.
    pub id: WorkspaceId,
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Slug for `workspace:` labels; unique in the organisation.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub slug: String,
    /// Audience label of the workspace and default of its new memories.
    pub audience: AudienceLabel,
    /// Access: its people are all members (`open`), or those with a role in it and owners
    /// (`private`).
    pub access: WorkspaceAccess,
    /// Time of creation.
    pub created_at: Timestamp,
}

string_enum! {
    /// Kind of a member.
    MemberKind {
        /// A person.
        User = "user",
        /// A program.
        ServiceAccount = "service_account",
    }
}

/// A member of an organisation.
///
/// It holds one role there. A role in a workspace, if it has one, replaces that role in the
/// workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Member {
    /// Identifier of the member.
    pub id: MemberId,
    /// Kind of the member: a person or a program.
    pub kind: MemberKind,
    /// Handle for `user:` labels; unique in the organisation.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub handle: String,
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Role in the organisation.
    pub role: RoleRef,
    /// Teams of the member; their `team:` labels cover it.
    #[cfg_attr(feature = "openapi", schemars(with = "Vec<crate::schema::Slug>"))]
    pub teams: Vec<String>,
    /// Time at which the member was added.
    pub created_at: Timestamp,
}

/// An origin of memories. Sources belong to the whole organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Source {
    /// Identifier of the source.
    pub id: SourceId,
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Kind of the system, for example `confluence`.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub kind: String,
    /// Time of creation.
    pub created_at: Timestamp,
}
