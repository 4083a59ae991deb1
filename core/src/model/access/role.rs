//! Built-in roles, and references to roles.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Action, ActionSet};
use crate::model::RoleId;

crate::model::names::string_enum! {
    /// A built-in role, in ascending order of permissions.
    BuiltInRole {
        /// Reads public and internal memories.
        Viewer = "viewer",
        /// Works with memories: adds, changes and reviews them, reports syncs, writes chats,
        /// registers recalls and subscribes to their citations.
        Member = "member",
        /// Does everything except change owners and act for other members.
        Admin = "admin",
        /// Does everything.
        Owner = "owner",
    }
}

crate::model::names::string_enum! {
    /// Built-in role that a custom role extends; never an administrator.
    BaseRole {
        /// The built-in viewer.
        Viewer = "viewer",
        /// The built-in member.
        Member = "member",
    }
}

const VIEWER: ActionSet = ActionSet::of(&[
    Action::MemoryRead,
    Action::DashboardRead,
    Action::RecallCreate,
    Action::RoleRead,
]);

const MEMBER_ADDS: ActionSet = ActionSet::of(&[
    Action::MemoryCreate,
    Action::MemoryPropose,
    Action::MemoryUpdate,
    Action::MemoryReview,
    Action::ConnectorReport,
    Action::ChatWrite,
    Action::CitationSubscriptionManage,
]);

impl BuiltInRole {
    /// Returns the actions that the role grants.
    #[must_use]
    pub fn actions(self) -> ActionSet {
        match self {
            Self::Viewer => VIEWER,
            Self::Member => VIEWER | MEMBER_ADDS,
            Self::Admin => ActionSet::ALL - ActionSet::of(&[Action::MemberActFor]),
            // Changing owners is not an action, so that no custom role can grant it.
            Self::Owner => ActionSet::ALL,
        }
    }
}

impl BaseRole {
    /// Returns the actions that the base role grants.
    #[must_use]
    pub fn actions(self) -> ActionSet {
        match self {
            Self::Viewer => BuiltInRole::Viewer.actions(),
            Self::Member => BuiltInRole::Member.actions(),
        }
    }
}

/// A reference to a role: the name of a built-in role or the UUID of a custom one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoleRef {
    /// A built-in role.
    BuiltIn(BuiltInRole),
    /// A custom role of the member's organisation.
    Custom(RoleId),
}

/// Error of a text that names no role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be viewer, member, admin, owner or the UUID of a custom role")]
pub struct InvalidRoleRef;

impl fmt::Display for RoleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(role) => role.fmt(f),
            Self::Custom(id) => id.fmt(f),
        }
    }
}

impl FromStr for RoleRef {
    type Err = InvalidRoleRef;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(role) => Ok(Self::BuiltIn(role)),
            Err(_) => text.parse().map(Self::Custom).map_err(|_| InvalidRoleRef),
        }
    }
}

impl From<BaseRole> for RoleRef {
    fn from(role: BaseRole) -> Self {
        Self::BuiltIn(match role {
            BaseRole::Viewer => BuiltInRole::Viewer,
            BaseRole::Member => BuiltInRole::Member,
        })
    }
}

impl Serialize for RoleRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RoleRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_role_covers_weaker_roles() {
        for pair in BuiltInRole::ALL.windows(2) {
            assert!(pair[1].actions().covers(pair[0].actions()), "{pair:?}");
        }
    }

    #[test]
    fn member_role_lacks_declassification_and_administration() {
        let member = BuiltInRole::Member.actions();
        for action in [
            Action::MemoryDeclassify,
            Action::MemoryReadConfidential,
            Action::MemoryReadRestricted,
            Action::MemoryDelete,
            Action::RoleManage,
            Action::MemberManage,
            Action::WebhookManage,
            Action::AuditRead,
        ] {
            assert!(!member.contains(action), "{action}");
        }
    }
}
