//! Comparison of a store with the model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use serde::de::DeserializeOwned;

use serde_json::{Value, json};

use super::{Announcement, Model, Org};
use knowledge_core::access::RoleRef;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    CustomRole, EventData, Member, MemberId, MemoryContent, MemoryId, MemoryLabels, OrgId, Recall,
    RoleId, Source, WorkspaceId,
};
use knowledge_core::service::{Chat, Connector, Event};
use knowledge_core::store::{Key, KeyRange, Store, StoreError, StoreExt};

/// Stored data of one organisation, read directly from the store.
struct Stored<'s> {
    store: &'s dyn Store,
    org: OrgId,
    differences: Vec<String>,
}

impl Model {
    /// Reads the whole store and returns its differences from the model.
    ///
    /// Assignments of deleted roles may still await rewriting: only the targets of their redirects
    /// count.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn differences(&self, store: &dyn Store) -> Result<Vec<String>, StoreError> {
        let mut differences = Vec::new();
        for (id, org) in &self.orgs {
            let mut stored = Stored {
                store,
                org: *id,
                differences: Vec::new(),
            };
            stored.compare_memories(org).await?;
            stored.compare_roles(org).await?;
            stored.compare_workspaces(org).await?;
            stored.compare_endpoints(org).await?;
            stored.compare_events(org, !self.lost_announcements).await?;
            differences.append(&mut stored.differences);
        }
        Ok(differences)
    }
}

impl Stored<'_> {
    async fn all<T: DeserializeOwned>(
        &self,
        range: &KeyRange,
    ) -> Result<Vec<(Key, T)>, StoreError> {
        let found = self.store.scan_all(range).await?;
        found
            .iter()
            .map(|found| Ok((found.key.clone(), knowledge_store::decode_value(found)?)))
            .collect()
    }

    /// Returns the range of the family of `key` in this organisation.
    fn family(&self, key: &Key) -> KeyRange {
        let text = key.to_string();
        let family = text.split('/').next().unwrap_or_default();
        let prefix = format!("{family}/{}/", self.org.0.simple());
        KeyRange::prefix(&Key::new(prefix).expect("the prefix is a valid key"))
    }

    fn compare<K: Ord + Debug, V: PartialEq + Debug>(
        &mut self,
        what: &str,
        wanted: BTreeMap<K, V>,
        mut found: BTreeMap<K, V>,
    ) {
        for (key, wanted) in wanted {
            match found.remove(&key) {
                Some(found) if found == wanted => {}
                found => self.differences.push(format!(
                    "{what} {key:?}: stored {found:?}, expected {wanted:?}"
                )),
            }
        }
        for (key, found) in found {
            self.differences.push(format!(
                "{what} {key:?}: stored {found:?}, expected nothing"
            ));
        }
    }

    async fn compare_memories(&mut self, org: &Org) -> Result<(), StoreError> {
        let labels = self.all::<MemoryLabels>(&keys::memories(self.org)).await?;
        let found = labels
            .into_iter()
            .filter_map(|(key, labels)| Some((MemoryId(keys::last_id(&key)?), labels)));
        let (removed, found): (BTreeMap<_, _>, BTreeMap<_, _>) =
            found.partition(|(_, labels)| org.removing.includes(labels.workspace_id));
        let wanted = org.memories.iter();
        let wanted = wanted.map(|(id, memory)| (*id, memory.labels.clone()));
        self.compare("labels of memory", wanted.collect(), found);

        let family = self.family(&keys::content(self.org, MemoryId(uuid::Uuid::nil())));
        let contents = self.all::<MemoryContent>(&family).await?;
        let found = contents.into_iter();
        let found = found
            .filter_map(|(key, content)| Some((MemoryId(keys::last_id(&key)?), content)))
            .filter(|(id, _)| !removed.contains_key(id))
            .collect();
        let wanted = org.memories.iter();
        let wanted = wanted.map(|(id, memory)| (*id, memory.content.clone()));
        self.compare("content of memory", wanted.collect(), found);

        let sources = self.all::<Source>(&keys::sources(self.org)).await?;
        let found = sources.into_iter().map(|(_, source)| (source.id, source));
        self.compare("source", org.sources.clone(), found.collect());
        Ok(())
    }

    async fn compare_roles(&mut self, org: &Org) -> Result<(), StoreError> {
        let roles = self.all::<CustomRole>(&keys::roles(self.org)).await?;
        let roles: BTreeMap<RoleId, CustomRole> =
            roles.into_iter().map(|(_, role)| (role.id, role)).collect();
        self.compare("role", org.roles.clone(), roles);

        let redirects = self.all::<RoleRef>(&keys::role_redirects(self.org)).await?;
        let redirects: BTreeMap<RoleId, RoleRef> = redirects
            .into_iter()
            .filter_map(|(key, target)| Some((RoleId(keys::last_id(&key)?), target)))
            .collect();
        let followed = |mut role: RoleRef| {
            while let RoleRef::Custom(id) = role
                && let Some(target) = redirects.get(&id)
            {
                role = *target;
            }
            role.to_string()
        };
        let members = self.all::<Member>(&keys::members(self.org)).await?;
        let found: BTreeMap<MemberId, (Member, String)> = members
            .into_iter()
            .map(|(_, member)| {
                let role = followed(member.role);
                (member.id, (unassigned(member), role))
            })
            .collect();
        let wanted = org.members.iter().map(|(id, member)| {
            let role = member.role.to_string();
            (*id, (unassigned(member.clone()), role))
        });
        self.compare("member", wanted.collect(), found);

        let nobody = keys::workspace_role(
            self.org,
            MemberId(uuid::Uuid::nil()),
            WorkspaceId(uuid::Uuid::nil()),
        );
        let overrides = self.all::<RoleRef>(&self.family(&nobody)).await?;
        let found = overrides.into_iter().filter_map(|(key, role)| {
            let place = (
                MemberId(keys::second_last_id(&key)?),
                WorkspaceId(keys::last_id(&key)?),
            );
            Some((place, followed(role)))
        });
        let found = found.filter(|((_, workspace), _)| !org.removing.includes(*workspace));
        let found = found.collect();
        let wanted = org.overrides.iter();
        let wanted = wanted.map(|(place, role)| (*place, role.to_string()));
        self.compare("role in a workspace", wanted.collect(), found);
        Ok(())
    }

    async fn compare_workspaces(&mut self, org: &Org) -> Result<(), StoreError> {
        let (mut connectors, mut chats, mut mcp_keys) =
            (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for workspace in org.workspaces.keys() {
            let here = keys::connectors(self.org, *workspace);
            for (_, connector) in self.all::<Connector>(&here).await? {
                connectors.insert(connector.id, connector);
            }
            let here = keys::mcp_keys(self.org, *workspace);
            for found in self.store.scan_all(&here).await? {
                mcp_keys.insert(keys::last_id(&found.key));
            }
            let here = keys::chat(
                self.org,
                *workspace,
                knowledge_core::model::ChatId(uuid::Uuid::nil()),
            );
            for (_, chat) in self.all::<Chat>(&self.family(&here)).await? {
                if org.workspaces.contains_key(&chat.workspace_id) {
                    chats.insert(chat.id, chat);
                }
            }
        }
        let all = org.connectors.iter();
        let wanted = all.map(|(id, facts)| (*id, facts.connector.clone()));
        self.compare("connector", wanted.collect(), connectors);
        let all = org.chats.iter();
        let wanted = all.map(|(id, facts)| (*id, facts.chat.clone()));
        self.compare("chat", wanted.collect(), chats);
        // Expired keys may have been purged; the others are on the dashboards.
        let all = org.mcp_keys.keys().map(|id| (Some(id.0), ()));
        let wanted: BTreeMap<_, _> = all.filter(|(id, ())| mcp_keys.contains(id)).collect();
        let found = mcp_keys.into_iter().map(|id| (id, ()));
        self.compare("MCP key", wanted, found.collect());
        Ok(())
    }

    async fn compare_endpoints(&mut self, org: &Org) -> Result<(), StoreError> {
        let recalls = self.all::<Recall>(&keys::recalls(self.org)).await?;
        let found = recalls.into_iter().map(|(_, recall)| (recall.id, recall));
        let (removed, found): (BTreeMap<_, _>, BTreeMap<_, _>) =
            found.partition(|(_, recall)| org.removing.includes(recall.workspace_id));
        self.compare("recall", org.recalls.clone(), found);
        // Webhooks are stored under their workspace, subscriptions under their recall.
        let is_removed = |key: &Key| {
            let parent = keys::second_last_id(key).unwrap_or_default();
            removed.contains_key(&parent.into()) || org.removing.includes(parent.into())
        };

        let webhooks = org
            .webhooks
            .iter()
            .map(|(id, webhook)| (id.0, json!(webhook)));
        let inbound = org.inbound_webhooks.iter();
        let inbound = inbound.map(|(id, facts)| (id.0, json!(facts.record)));
        let subscriptions = org.subscriptions.iter();
        let subscriptions = subscriptions.map(|(id, subscription)| (id.0, json!(subscription)));
        for (family, wanted) in [
            ("webhook", webhooks.collect::<BTreeMap<_, _>>()),
            ("inbound_webhook", inbound.collect()),
            ("subscription", subscriptions.collect()),
        ] {
            let sample = Key::new(family).expect("a family has a name");
            let found = self.all::<Value>(&self.family(&sample)).await?;
            let found = found
                .into_iter()
                .filter(|(key, _)| !is_removed(key))
                .filter_map(|(key, stored)| Some((keys::last_id(&key)?, stored["record"].clone())));
            let found = found.collect();
            self.compare(family, wanted, found);
        }
        Ok(())
    }

    /// Checks that the outbox has one event per change and no other.
    async fn compare_events(&mut self, org: &Org, with_statuses: bool) -> Result<(), StoreError> {
        let mut found = Vec::new();
        for (_, event) in self.all::<Event>(&keys::outbox_events()).await? {
            if event.org_id == self.org {
                found.push((announcement(&event), event.endpoints));
            }
        }
        let wanted = org.events.iter();
        let wanted = wanted.map(|(event, endpoints, _)| (event.clone(), *endpoints));
        let mut wanted: Vec<_> = wanted.collect();
        let is_kept = |(event, _): &(Announcement, i64)| {
            with_statuses || !matches!(event, Announcement::Status(..))
        };
        found.retain(is_kept);
        wanted.retain(is_kept);
        for event in &wanted {
            match found.iter().position(|found| found == event) {
                Some(position) => drop(found.swap_remove(position)),
                None => self
                    .differences
                    .push(format!("there is no event {event:?}")),
            }
        }
        for event in found {
            self.differences
                .push(format!("the event {event:?} did not happen"));
        }
        Ok(())
    }
}

/// Returns the content of an event.
pub(super) fn announcement(event: &Event) -> Announcement {
    let workspace = event.workspace_id;
    match &event.data {
        EventData::ChunkCreated(changed)
        | EventData::ChunkDeleted(changed)
        | EventData::MemoryUpdated(changed) => {
            let memories = changed.memory_ids.iter().copied().collect();
            Announcement::Memories(event.event_type(), workspace, memories)
        }
        EventData::IngestCompleted(ingest) => {
            Announcement::Ingest(workspace, ingest.created, ingest.updated)
        }
        EventData::IngestFailed(failed) => Announcement::Rejected(
            workspace,
            failed.inbound_webhook_id,
            failed.message_id.clone(),
            failed.error.clone(),
        ),
        EventData::ConnectorStatusChanged(change) => {
            Announcement::Status(workspace, change.service_account_id, change.from, change.to)
        }
        EventData::CitationChanged(_) | EventData::WebhookPing(_) => {
            Announcement::Unexpected(event.event_type(), workspace)
        }
    }
}

/// Returns a member without its role.
fn unassigned(member: Member) -> Member {
    let role = RoleRef::BuiltIn(knowledge_core::access::BuiltInRole::Viewer);
    Member { role, ..member }
}
