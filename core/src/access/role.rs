//! The roles that everybody has, and references to roles.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Action, ActionSet};
use crate::model::RoleId;

crate::model::names::string_enum! {
    /// A role that every organisation has, from the weakest to the strongest.
    BuiltInRole {
        /// Reads what is public or internal.
        Viewer = "viewer",
        /// Works with the knowledge: adds, changes, reviews, reports, writes chats, registers recalls and subscriptions.
        Member = "member",
        /// Does everything but change owners.
        Admin = "admin",
        /// Does everything.
        Owner = "owner",
    }
}

crate::model::names::string_enum! {
    /// What a custom role can begin with: never an administrator.
    BaseRole {
        /// The built-in viewer.
        Viewer = "viewer",
        /// The built-in member.
        Member = "member",
    }
}

const VIEWER: ActionSet =
    ActionSet::of(&[Action::MemoryRead, Action::DashboardRead, Action::RoleRead]);

const MEMBER_ADDS: ActionSet = ActionSet::of(&[
    Action::MemoryCreate,
    Action::MemoryUpdate,
    Action::MemoryReview,
    Action::ConnectorReport,
    Action::ChatWrite,
    Action::RecallCreate,
    Action::CitationSubscriptionManage,
]);

impl BuiltInRole {
    /// What holders may do.
    #[must_use]
    pub fn actions(self) -> ActionSet {
        match self {
            Self::Viewer => VIEWER,
            Self::Member => VIEWER | MEMBER_ADDS,
            // An owner may also change owners: that is no action, so that no custom role can hold it.
            Self::Admin | Self::Owner => ActionSet::ALL,
        }
    }
}

impl BaseRole {
    /// What a custom role on this base begins with.
    #[must_use]
    pub fn actions(self) -> ActionSet {
        match self {
            Self::Viewer => BuiltInRole::Viewer.actions(),
            Self::Member => BuiltInRole::Member.actions(),
        }
    }
}

/// A role that a member holds: a built-in one, or a custom one by its identifier. Written as the name or the UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoleRef {
    /// A role that every organisation has.
    BuiltIn(BuiltInRole),
    /// A custom role of the member's organisation.
    Custom(RoleId),
}

/// A text that names no role.
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
    fn each_role_covers_the_weaker_ones() {
        for pair in BuiltInRole::ALL.windows(2) {
            assert!(pair[1].actions().covers(pair[0].actions()), "{pair:?}");
        }
    }

    #[test]
    fn a_member_neither_declassifies_nor_administers() {
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
