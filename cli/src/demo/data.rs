//! The contents of the demo: the TOML files of `data/`, whose comments describe them.

use std::sync::LazyLock;
use std::time::Duration;

use knowledge_core::model::{NewCustomRole, NewWebhook, SensitivityLabel};
use knowledge_core::service::{
    NewConnector, NewMcpKey, NewMember, NewOrganization, NewSource, NewWorkspace,
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
pub(crate) fn org_slug() -> &'static str {
    &ORGANIZATION.new.slug
}

/// Returns the members who act.
pub(super) fn cast() -> &'static Cast {
    &ORGANIZATION.cast
}

/// The organisation and its records, which are the bodies of the requests that create them.
#[derive(Debug, Deserialize)]
pub(super) struct Organization {
    #[serde(flatten)]
    pub(super) new: NewOrganization,
    pub(super) cast: Cast,
    pub(super) workspaces: [NewWorkspace; 2],
    /// Members besides the owner.
    pub(super) members: Vec<NewMember>,
    pub(super) roles: Vec<Role>,
    pub(super) sources: Vec<NewSource>,
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
pub(super) struct Role {
    #[serde(flatten)]
    pub(super) new: NewCustomRole,
    /// Slug of the only workspace in which the role can be assigned.
    pub(super) workspace: Option<String>,
    #[serde(default = "yes")]
    pub(super) is_active: bool,
    /// Handles of the members with the role.
    #[serde(default)]
    pub(super) holders: Vec<String>,
}

fn yes() -> bool {
    true
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
pub(super) struct Webhook {
    #[serde(flatten)]
    pub(super) new: NewWebhook,
    pub(super) workspace: String,
    pub(super) ago: Age,
}

#[derive(Debug, Deserialize)]
pub(super) struct Connector {
    #[serde(flatten)]
    pub(super) new: NewConnector,
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
pub(super) struct McpKey {
    #[serde(flatten)]
    pub(super) new: NewMcpKey,
    pub(super) workspace: String,
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
        assert!(roles.is_sorted_by_key(|role| &role.new.name));
    }

    #[test]
    fn demo_data_names_existing_members_and_workspaces() {
        let (org, history) = (&*ORGANIZATION, &*HISTORY);
        let cast = &org.cast;
        assert_eq!(cast.owner, org.new.owner.handle);
        let members = org.members.iter().map(|member| member.handle.as_str());
        let known: HashSet<&str> = members.chain([cast.owner.as_str()]).collect();
        let authors = history.chats.iter().flat_map(|chat| &chat.messages);
        let holders = org.roles.iter().flat_map(|role| &role.holders);
        for handle in holders.chain(authors.map(|(author, _)| author)).chain([
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
