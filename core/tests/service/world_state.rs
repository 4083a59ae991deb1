//! State of the store of a [`World`]: reading, maintaining and checking it.

use std::collections::BTreeMap;

use bytes::Bytes;
use knowledge_core::access::RoleRef;
use knowledge_core::internals::keys;
use knowledge_core::model::{AuditLogId, EventType, Member, MemberId, WorkspaceId};
use knowledge_core::service::{AuditFilter, Event, PageRequest};
use knowledge_core::store::{Direction, Key, KeyRange, StoreExt};
use serde::de::DeserializeOwned;

use crate::world::World;

impl World {
    /// Reads a record, bypassing faults and probe.
    pub(crate) async fn read<T: DeserializeOwned + Send>(&self, key: &Key) -> Option<T> {
        let found = self.faults.inner().get_as(key).await.unwrap();
        found.map(|found| found.value)
    }

    pub(crate) async fn counter(&self, key: Key) -> i64 {
        self.read(&key).await.unwrap_or(0)
    }

    /// Returns all stored entries.
    pub(crate) async fn contents(&self) -> BTreeMap<Key, Bytes> {
        let store = self.faults.inner();
        let everything = KeyRange::all();
        let found = store
            .scan(&everything, usize::MAX, Direction::Forward)
            .await
            .unwrap();
        found
            .into_iter()
            .map(|found| (found.key, found.entry.value))
            .collect()
    }

    /// Returns the events in the outbox.
    pub(crate) async fn events(&self) -> Vec<Event> {
        let found = self
            .faults
            .inner()
            .scan_all(&keys::outbox_events())
            .await
            .unwrap();
        found
            .iter()
            .map(|found| serde_json::from_slice(&found.entry.value).unwrap())
            .collect()
    }

    /// Returns the events of a type in the outbox.
    pub(crate) async fn events_of(&self, event_type: EventType) -> Vec<Event> {
        let mut events = self.events().await;
        events.retain(|event| event.event_type() == event_type);
        events
    }

    /// Runs maintenance until nothing is due.
    pub(crate) async fn maintain(&self) -> u64 {
        let mut purged = 0;
        loop {
            let done = self.service.maintain(self.time.now()).await.unwrap();
            purged += done.purged;
            if !done.has_more {
                return purged;
            }
        }
    }

    /// Resolves a role reference through its redirects.
    pub(crate) async fn resolve(&self, mut role: RoleRef) -> RoleRef {
        while let RoleRef::Custom(id) = role {
            match self.read(&keys::role_redirect(self.org.id, id)).await {
                Some(target) => role = target,
                None => break,
            }
        }
        role
    }

    /// Returns the number of scheduled tasks, except for the daily one of the audit log.
    pub(crate) async fn planned(&self) -> usize {
        let contents = self.contents().await;
        let due = contents
            .iter()
            .filter(|(key, _)| key.to_string().starts_with("due/"));
        due.filter(|(_, value)| !value.starts_with(b"{\"audit\""))
            .count()
    }

    /// Returns the identifier of an audit entry.
    pub(crate) async fn audit(&self) -> AuditLogId {
        let (filter, page) = (AuditFilter::default(), PageRequest::default());
        let found = self.list_audit_log(&filter, &page).await;
        found.unwrap().data[0].id
    }

    /// Asserts that counters equal a recount, and that indexes refer to existing records.
    pub(crate) async fn assert_whole(&self) {
        let found = self.service.verify().await.unwrap();
        assert_eq!(found.differences, []);
    }

    /// Asserts that the indexes and counters of role holders match the members.
    ///
    /// No member holds a role that does not exist.
    pub(crate) async fn assert_holders_are_right(&self) {
        let contents = self.contents().await;
        let family = |name: &str| {
            let prefix = format!("{name}/{}/", self.org.id.0.simple());
            let range = KeyRange::prefix(&Key::new(prefix).unwrap());
            contents.iter().filter(move |(key, _)| range.contains(key))
        };
        let mut held: Vec<(MemberId, Option<WorkspaceId>, RoleRef)> = Vec::new();
        for (_, value) in family("member") {
            let member: Member = serde_json::from_slice(value).unwrap();
            held.push((member.id, None, member.role));
        }
        for (key, value) in family("workspace_role") {
            let member = MemberId(keys::second_last_id(key).unwrap());
            let workspace = WorkspaceId(keys::last_id(key).unwrap());
            let role = serde_json::from_slice(value).unwrap();
            held.push((member, Some(workspace), role));
        }
        let mut counts: BTreeMap<Key, i64> = BTreeMap::new();
        let mut marks: Vec<Key> = Vec::new();
        for (member, workspace, role) in held {
            let resolved = self.resolve(role).await;
            if let RoleRef::Custom(id) = resolved {
                assert!(
                    contents.contains_key(&keys::role(self.org.id, id)),
                    "{member} holds the role {id}, which does not exist"
                );
            }
            *counts
                .entry(keys::holder_count(self.org.id, resolved))
                .or_default() += 1;
            if let RoleRef::Custom(id) = role {
                marks.push(keys::holder(self.org.id, id, member, workspace));
            }
        }
        let stored: BTreeMap<Key, i64> = family("holder_count")
            .map(|(key, value)| (key.clone(), serde_json::from_slice(value).unwrap()))
            .filter(|(_, count)| *count != 0)
            .collect();
        assert_eq!(stored, counts);
        marks.sort();
        let stored: Vec<Key> = family("holder").map(|(key, _)| key.clone()).collect();
        assert_eq!(stored, marks);
    }
}
