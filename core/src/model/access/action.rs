//! The vocabulary of actions, and sets of them.

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

crate::model::names::string_enum! {
    /// Permission that a role grants, in the form `resource:verb`.
    #[non_exhaustive]
    Action {
        /// Know of memories and read those that are public or internal.
        MemoryRead = "memory:read",
        /// Read the content of confidential memories.
        MemoryReadConfidential = "memory:read_confidential",
        /// Read the content of restricted memories.
        MemoryReadRestricted = "memory:read_restricted",
        /// Add memories.
        MemoryCreate = "memory:create",
        /// Propose memories, which wait for review with the labels that they have by default.
        MemoryPropose = "memory:propose",
        /// Relabel memories and change their content.
        MemoryUpdate = "memory:update",
        /// Know of every memory whatever its audience, and relabel beyond the own audience.
        MemoryShare = "memory:share",
        /// Lower the sensitivity of a memory.
        MemoryDeclassify = "memory:declassify",
        /// Set the review status of a memory.
        MemoryReview = "memory:review",
        /// Delete memories.
        MemoryDelete = "memory:delete",
        /// View the dashboard of a workspace and list and read its connectors, MCP keys and chats.
        DashboardRead = "dashboard:read",
        /// Report the syncs of a connector.
        ConnectorReport = "connector:report",
        /// Create, change and delete connectors; create sources.
        ConnectorManage = "connector:manage",
        /// Create, rotate and revoke MCP keys.
        McpKeyManage = "mcp_key:manage",
        /// Create chats and write messages.
        ChatWrite = "chat:write",
        /// Register recalls.
        RecallCreate = "recall:create",
        /// Subscribe to the citations of a recall.
        CitationSubscriptionManage = "citation_subscription:manage",
        /// Register, read, change and delete outbound webhooks.
        WebhookManage = "webhook:manage",
        /// Register, read, change and delete inbound webhooks.
        InboundWebhookManage = "inbound_webhook:manage",
        /// Read the custom roles, and the members with their roles.
        RoleRead = "role:read",
        /// Create, change and delete custom roles.
        RoleManage = "role:manage",
        /// Add, change and remove members, and assign roles.
        MemberManage = "member:manage",
        /// As a service account, act for other members.
        MemberActFor = "member:act_for",
        /// Create, list and end the tokens of service accounts.
        TokenManage = "token:manage",
        /// Read the audit log.
        AuditRead = "audit:read",
        /// Erase memories, recalls and chats, of others too, and read the receipts.
        ErasureManage = "erasure:manage",
    }
}

/// A set of actions, serialised as a list of names in the order of the vocabulary.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ActionSet(u32);

impl ActionSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);
    /// The set of all actions.
    pub const ALL: Self = Self::of(Action::ALL);
    /// Actions that a service account may take for another member: those on memories, chats and
    /// recalls, and those that only read. It manages nothing for anybody.
    pub const FOR_MEMBERS: Self = Self::of(&[
        Action::MemoryRead,
        Action::MemoryReadConfidential,
        Action::MemoryReadRestricted,
        Action::MemoryCreate,
        Action::MemoryPropose,
        Action::MemoryUpdate,
        Action::MemoryShare,
        Action::MemoryDeclassify,
        Action::MemoryReview,
        Action::MemoryDelete,
        Action::DashboardRead,
        Action::ConnectorReport,
        Action::ChatWrite,
        Action::RecallCreate,
        Action::RoleRead,
        Action::AuditRead,
    ]);

    /// Creates the set of these actions.
    #[must_use]
    pub const fn of(actions: &[Action]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < actions.len() {
            bits |= 1 << actions[index] as u32;
            index += 1;
        }
        Self(bits)
    }

    /// Returns true if the action is in the set.
    #[must_use]
    pub const fn contains(self, action: Action) -> bool {
        self.0 & (1 << action as u32) != 0
    }

    /// Returns true if every action of `other` is in the set.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the actions, in the order of the vocabulary.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL
            .iter()
            .copied()
            .filter(move |action| self.contains(*action))
    }
}

impl FromIterator<Action> for ActionSet {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        actions
            .into_iter()
            .fold(Self::EMPTY, |set, action| set | Self::of(&[action]))
    }
}

impl BitOr for ActionSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for ActionSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for ActionSet {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for ActionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(Action::as_str))
            .finish()
    }
}

impl Serialize for ActionSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for action in self.iter() {
            list.serialize_element(&action)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for ActionSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = ActionSet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of action names")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ActionSet, A::Error> {
                let mut set = ActionSet::EMPTY;
                while let Some(action) = list.next_element::<Action>()? {
                    set = set | ActionSet::of(&[action]);
                }
                Ok(set)
            }
        }

        deserializer.deserialize_seq(List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn action_set_serializes_as_list_of_names() {
        let set = ActionSet::of(&[Action::AuditRead, Action::MemoryRead]);
        let json = serde_json::to_string(&set).unwrap();
        assert_eq!(json, r#"["memory:read","audit:read"]"#);
        assert_eq!(serde_json::from_str::<ActionSet>(&json).unwrap(), set);
        assert_eq!(format!("{set:?}"), r#"{"memory:read", "audit:read"}"#);
        assert!(serde_json::from_str::<ActionSet>(r#"["memory:own"]"#).is_err());
        let error = serde_json::from_str::<ActionSet>("7").unwrap_err();
        let expected = "invalid type: integer `7`, expected a list of action names";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn action_set_of_all_contains_every_action() {
        assert_eq!(ActionSet::ALL.iter().count(), Action::ALL.len());
        assert!(ActionSet::ALL.covers(ActionSet::EMPTY));
        assert!(!ActionSet::EMPTY.covers(ActionSet::of(&[Action::AuditRead])));
    }

    #[test]
    fn action_set_holds_a_repeated_action_once() {
        let expected = ActionSet::of(&[Action::AuditRead, Action::MemoryRead]);
        let repeated = [Action::AuditRead, Action::MemoryRead, Action::AuditRead];
        assert_eq!(repeated.into_iter().collect::<ActionSet>(), expected);
        assert_eq!(ActionSet::of(&repeated), expected);
        let json = serde_json::to_string(&repeated).unwrap();
        assert_eq!(serde_json::from_str::<ActionSet>(&json).unwrap(), expected);
    }
}
