//! The contents of the demo: the TOML files of `data/`, whose comments describe them.

use std::sync::LazyLock;
use std::time::Duration;

use knowledge_core::access::{ActionSet, BaseRole, RoleRef};
use knowledge_core::model::{
    AudienceLabel, ConnectorScope, EventType, McpClient, MemberKind, SensitivityLabel, WebhookUrl,
};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

/// The organisation.
pub(super) static ORGANIZATION: LazyLock<Organization> =
    LazyLock::new(|| parse(include_str!("data/organization.toml")));
/// Records besides memories.
pub(super) static HISTORY: LazyLock<History> =
    LazyLock::new(|| parse(include_str!("data/history.toml")));
/// Templates of the memories.
pub(super) static TEXTS: LazyLock<Texts> = LazyLock::new(|| parse(include_str!("data/texts.toml")));

/// Index of the connector that is kept healthy.
pub(super) const HEALTHY: usize = 0;
/// Index of the connector that is kept degraded.
pub(super) const DEGRADED: usize = 1;

fn parse<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).expect("a test has parsed the file")
}

/// Returns the slug of the organisation.
pub(super) fn org_slug() -> &'static str {
    &ORGANIZATION.slug
}

/// Returns the members who act.
pub(super) fn cast() -> &'static Cast {
    &ORGANIZATION.cast
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Organization {
    pub(super) name: String,
    pub(super) slug: String,
    pub(super) cast: Cast,
    pub(super) workspaces: [Workspace; 2],
    pub(super) members: Vec<Member>,
    pub(super) roles: Vec<Role>,
    pub(super) sources: Vec<Source>,
}

/// Handles of the members who act.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cast {
    pub(super) owner: String,
    pub(super) admin: String,
    pub(super) curator: String,
    pub(super) bot: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workspace {
    pub(super) name: String,
    pub(super) slug: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Member {
    pub(super) handle: String,
    pub(super) name: String,
    #[serde(default = "user")]
    pub(super) kind: MemberKind,
    pub(super) role: RoleRef,
    pub(super) teams: Vec<String>,
}

fn user() -> MemberKind {
    MemberKind::User
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Role {
    pub(super) name: String,
    pub(super) slug: String,
    pub(super) description: String,
    /// Only workspace in which the role can be assigned.
    pub(super) workspace: Option<String>,
    #[serde(default = "yes")]
    pub(super) is_active: bool,
    pub(super) base: BaseRole,
    pub(super) allow: ActionSet,
    #[serde(default)]
    pub(super) deny: ActionSet,
    /// Handles of the members with the role.
    #[serde(default)]
    pub(super) holders: Vec<String>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct History {
    pub(super) recall: Recall,
    pub(super) webhook: Webhook,
    pub(super) connectors: Vec<Connector>,
    pub(super) mcp_keys: Vec<McpKey>,
    pub(super) chats: Vec<Chat>,
}

impl History {
    /// Returns the error of the connector that is kept degraded.
    pub(super) fn degraded_error(&self) -> &str {
        let reports = &self.connectors[DEGRADED].reports;
        let error = reports.iter().find_map(|report| report.error.as_deref());
        error.unwrap_or_default()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recall {
    pub(super) workspace: String,
    pub(super) ago: Age,
    pub(super) query: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Webhook {
    pub(super) workspace: String,
    pub(super) ago: Age,
    pub(super) event_type: EventType,
    pub(super) url: WebhookUrl,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Connector {
    pub(super) kind: String,
    pub(super) account: String,
    pub(super) scope: ConnectorScope,
    pub(super) interval: Age,
    pub(super) created: Age,
    pub(super) reports: Vec<Report>,
    pub(super) paused: Option<Age>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    pub(super) ago: Age,
    /// `None` if the sync succeeded.
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) is_authentication: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpKey {
    pub(super) workspace: String,
    pub(super) name: String,
    pub(super) client: McpClient,
    pub(super) audience: Vec<AudienceLabel>,
    pub(super) created: Age,
    pub(super) used: Option<Age>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chat {
    pub(super) workspace: String,
    pub(super) title: String,
    /// Age of the last message.
    pub(super) ago: Age,
    /// Author and text of each message, oldest first.
    pub(super) messages: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    pub(super) slots: Vec<Slot>,
    pub(super) topics: Vec<Topic>,
}

impl Texts {
    /// Returns the topics of a kind of source.
    pub(super) fn topics_of(&self, kind: &str) -> Vec<&Topic> {
        let topics = self.topics.iter();
        topics.filter(|topic| topic.source == kind).collect()
    }
}

/// Values of a part of the templates, which is the name in braces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

/// A kind of text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topic {
    /// Kind of the source.
    pub(super) source: String,
    /// Prefix of its source keys.
    pub(super) key: String,
    /// Responsible team.
    pub(super) team: String,
    /// Sensitivity of most texts.
    pub(super) sensitivity: SensitivityLabel,
    /// True if some of the texts are restricted later.
    #[serde(default)]
    pub(super) is_restricted_later: bool,
    pub(super) titles: Vec<String>,
    pub(super) openings: Vec<String>,
    pub(super) details: Vec<String>,
    pub(super) outcomes: Vec<String>,
}

/// Time with units, such as `1d 2h`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Age(pub(super) Duration);

impl<'de> Deserialize<'de> for Age {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let age = humantime::parse_duration(&text).map_err(D::Error::custom)?;
        Ok(Self(age))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn demo_roles_are_sorted_and_first_has_two_holders() {
        let roles = &ORGANIZATION.roles;
        assert!(roles[0].holders.len() >= 2);
        assert!(roles.is_sorted_by_key(|role| &role.name));
    }

    #[test]
    fn demo_data_names_existing_members_and_workspaces() {
        let (org, history) = (&*ORGANIZATION, &*HISTORY);
        let cast = &org.cast;
        let known: HashSet<_> = org.members.iter().map(|member| &*member.handle).collect();
        let authors = history.chats.iter().flat_map(|chat| &chat.messages);
        let holders = org.roles.iter().flat_map(|role| &role.holders);
        for handle in holders.chain(authors.map(|(author, _)| author)).chain([
            &cast.owner,
            &cast.admin,
            &cast.curator,
            &cast.bot,
        ]) {
            assert!(known.contains(handle.as_str()), "{handle}");
        }
        let known: HashSet<_> = org.workspaces.iter().map(|place| &*place.slug).collect();
        let roles = org.roles.iter().filter_map(|role| role.workspace.as_ref());
        for slug in roles
            .chain(history.chats.iter().map(|chat| &chat.workspace))
            .chain(history.mcp_keys.iter().map(|key| &key.workspace))
            .chain([&history.recall.workspace, &history.webhook.workspace])
        {
            assert!(known.contains(slug.as_str()), "{slug}");
        }
    }

    #[test]
    fn demo_history_has_a_failed_report_and_full_chats() {
        assert_ne!(HISTORY.degraded_error(), "");
        for chat in &HISTORY.chats {
            assert!(!chat.messages.is_empty(), "{}", chat.title);
        }
    }

    #[test]
    fn demo_sources_have_topics() {
        for source in &ORGANIZATION.sources {
            assert!(!TEXTS.topics_of(&source.kind).is_empty(), "{}", source.kind);
        }
        let kinds: HashSet<_> = ORGANIZATION
            .sources
            .iter()
            .map(|source| &source.kind)
            .collect();
        for topic in &TEXTS.topics {
            assert!(kinds.contains(&topic.source), "{}", topic.key);
        }
    }
}
