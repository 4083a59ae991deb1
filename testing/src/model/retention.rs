//! Retention of chats and memories, by workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::retention_facts::RetentionFacts;
use super::{AuditFacts, ChatFacts, LabelChanges, Memory, Org, labels_state};
use knowledge_core::model::{
    ChatId, EventType, MemberId, MemoryId, Recall, RecallId, SensitivityLabel, Timestamp,
    WorkspaceId,
};
use knowledge_core::service::{AuditAction, NewRetention};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn days(count: u64) -> Duration {
    DAY * u32::try_from(count).expect("at most 36,500")
}

impl RetentionFacts {
    fn period(&self) -> Option<Duration> {
        self.chat_days.map(days)
    }

    fn is_expired(&self, memory: &Memory, now: Timestamp) -> bool {
        let period = self.memory_days.get(&memory.labels.sensitivity);
        period.is_some_and(|period| memory.content.updated_at.plus(days(*period)) <= now)
    }

    fn has_expired(&self, chat: &ChatFacts, now: Timestamp) -> bool {
        let last = chat.chat.last_message_at;
        let by_period = self.period().is_some_and(|period| last.plus(period) <= now);
        by_period || self.expired_until.is_some_and(|until| last <= until)
    }
}

impl Org {
    /// Returns the retention of a workspace as it is on the wire.
    pub(crate) fn retention(&self, workspace: WorkspaceId) -> Value {
        let retention = self.retentions.get(&workspace);
        let days = retention.map(|retention| &retention.memory_days);
        json!({
            "chat_days": retention.and_then(|retention| retention.chat_days),
            "memory_days": days.cloned().unwrap_or_default(),
        })
    }

    /// Sets the retention of a workspace. Chats that have expired until now stay expired.
    pub(crate) fn set_retention(
        &mut self,
        workspace: WorkspaceId,
        new: &NewRetention,
        now: Timestamp,
    ) {
        let retention = self.retentions.entry(workspace).or_default();
        let by_period = retention.period().map(|period| now.minus(period));
        retention.expired_until = retention.expired_until.max(by_period);
        retention.chat_days = new.chat_days;
        let days = new.memory_days.iter();
        let days = days.flat_map(|days| {
            [
                (SensitivityLabel::Public, days.public),
                (SensitivityLabel::Internal, days.internal),
                (SensitivityLabel::Confidential, days.confidential),
                (SensitivityLabel::Restricted, days.restricted),
            ]
        });
        let days = days.filter_map(|(label, days)| Some((label, days?)));
        retention.memory_days = days.collect();
        retention.memories_next = Some(now);
        retention.next = now;
    }

    /// Returns true if a chat of a workspace has not expired.
    pub(crate) fn keeps_chat(&self, facts: &ChatFacts, now: Timestamp) -> bool {
        let retention = self.retentions.get(&facts.chat.workspace_id);
        !retention.is_some_and(|retention| retention.has_expired(facts, now))
    }

    /// Returns true if a workspace shows a chat to a member.
    pub(crate) fn shows_chat(
        &self,
        facts: &ChatFacts,
        (member, workspace): (MemberId, WorkspaceId),
        now: Timestamp,
    ) -> bool {
        facts.chat.workspace_id == workspace
            && facts.chat.participants.contains(&member)
            && self.keeps_chat(facts, now)
    }

    /// Erases what has expired.
    ///
    /// Each round takes a step in every workspace in which something is due.
    pub(crate) fn erase_expired(&mut self, now: Timestamp) {
        let workspaces = &self.workspaces;
        self.retentions.retain(|id, _| workspaces.contains_key(id));
        loop {
            let due = self.retentions.iter();
            let due = due.filter(|(_, retention)| retention.next <= now);
            let due: BTreeSet<_> = due.map(|(id, facts)| (facts.next, *id)).collect();
            if due.is_empty() {
                return;
            }
            for (_, workspace) in due {
                let retention = &self.retentions[&workspace];
                let is_due = retention.memories_next.is_some_and(|next| next <= now);
                if is_due || !retention.deleted.is_empty() {
                    self.sweep_memories(workspace, now);
                } else {
                    self.sweep_chats(workspace, now);
                }
            }
        }
    }

    /// Deletes the memories that have expired, or then the recalls that cite nothing else.
    fn sweep_memories(&mut self, workspace: WorkspaceId, now: Timestamp) {
        let retention = self.retentions.get_mut(&workspace).expect("it is due");
        retention.next = now;
        let deleted = std::mem::take(&mut retention.deleted);
        let mut entries = Vec::new();
        let mut memories = 0;
        if deleted.is_empty() {
            retention.memories_next =
                Some(now.plus(DAY)).filter(|_| !retention.memory_days.is_empty());
            let found = self.memories.iter().filter(|(_, memory)| {
                memory.labels.workspace_id == workspace && retention.is_expired(memory, now)
            });
            retention.deleted = found.map(|(id, _)| *id).collect();
            let deleted = retention.deleted.clone();
            for id in &deleted {
                let state = labels_state(Some(&self.memories[id].labels));
                entries.push(AuditFacts::ok(*id, state, ()));
            }
            memories = deleted.len();
            self.remove_memories(&deleted);
        }
        let recalls = self.recalls_without_memories(&deleted);
        for id in &recalls {
            self.remove_recall(*id, &mut entries);
        }
        if !entries.is_empty() {
            let counts = counts([0, 0, memories, recalls.len()]);
            entries.push(AuditFacts::ok(workspace, (), counts));
            self.audit_all(None, AuditAction::RetentionErase, None, entries, now);
        }
    }

    /// Erases the chats that have expired.
    fn sweep_chats(&mut self, workspace: WorkspaceId, now: Timestamp) {
        let here = self.chats.values();
        let here = here.filter(|facts| facts.chat.workspace_id == workspace);
        let (kept, expired): (Vec<_>, Vec<_>) = here.partition(|facts| self.keeps_chat(facts, now));
        let oldest = kept.iter().map(|facts| facts.chat.last_message_at).min();
        let messages = expired.iter().map(|facts| facts.messages.len());
        let counts = counts([expired.len(), messages.sum(), 0, 0]);
        let expired: Vec<ChatId> = expired.iter().map(|facts| facts.chat.id).collect();
        if !expired.is_empty() {
            self.chats.retain(|id, _| !expired.contains(id));
            let entry = AuditFacts::ok(workspace, (), counts);
            self.audit_by_operator(AuditAction::RetentionErase, entry, now);
        }
        let retention = self.retentions.get_mut(&workspace).expect("it is due");
        let period = retention.period();
        let chats = period.map(|period| oldest.unwrap_or(now).plus(period));
        match chats.into_iter().chain(retention.memories_next).min() {
            Some(next) => retention.next = next,
            None => drop(self.retentions.remove(&workspace)),
        }
    }

    /// Removes memories with their names, and announces it.
    pub(crate) fn remove_memories(&mut self, ids: &[MemoryId]) {
        let mut changes: BTreeMap<WorkspaceId, LabelChanges> = BTreeMap::new();
        for id in ids {
            let memory = self.memories.remove(id).expect("the memory is there");
            let of_workspace = changes.entry(memory.labels.workspace_id).or_default();
            of_workspace.insert(*id, (Some(memory.labels), None));
        }
        self.names.retain(|_, id| !ids.contains(id));
        for (workspace, changes) in changes {
            self.announce_memories(EventType::ChunkDeleted, workspace, changes);
        }
    }

    /// Returns the recalls that cite one of these memories, and none that is stored.
    pub(crate) fn recalls_without_memories(&self, removed: &[MemoryId]) -> Vec<RecallId> {
        let is_bare = |recall: &&Recall| {
            let mut cited = recall.memory_ids.iter();
            recall.memory_ids.iter().any(|id| removed.contains(id))
                && cited.all(|id| !self.memories.contains_key(id))
        };
        let bare = self.recalls.values().filter(is_bare);
        bare.map(|recall| recall.id).collect()
    }
}

/// Returns the counts of an entry of the audit log.
fn counts([chats, messages, memories, recalls]: [usize; 4]) -> Value {
    json!({
        "chats": chats,
        "chat_messages": messages,
        "memories": memories,
        "recalls": recalls,
    })
}
