//! Retention of chats, memories and recalls, by workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::retention_facts::{DailyStep, RetentionFacts};
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

    /// Returns true if the daily sweep goes on in a workspace without recalls.
    fn is_swept_daily(&self) -> bool {
        !self.memory_days.is_empty() || self.recall_days != 30 || !self.record_recalls
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
        let retention = retention.cloned().unwrap_or_default();
        json!({
            "chat_days": retention.chat_days,
            "memory_days": retention.memory_days,
            "recall_days": retention.recall_days,
            "record_recalls": retention.record_recalls,
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
        retention.recall_days = new.recall_days.unwrap_or(30);
        retention.record_recalls = new.record_recalls.unwrap_or(true);
        retention.step = Some(DailyStep::Memories);
        retention.next = Some(now);
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

    /// Plans a daily sweep for a new recall of a workspace, unless one is running or planned.
    pub(crate) fn cover_recall(&mut self, workspace: WorkspaceId, now: Timestamp) {
        let retention = self.retentions.entry(workspace).or_default();
        if retention.step.is_none() && retention.daily_next.is_none() {
            let daily = recall_sweep_after(workspace, now);
            retention.daily_next = Some(daily);
            retention.next = Some(retention.next.map_or(daily, |next| next.min(daily)));
        }
    }

    /// Returns true if searches of a workspace register recalls.
    pub(crate) fn records_recalls(&self, workspace: WorkspaceId) -> bool {
        let retention = self.retentions.get(&workspace);
        retention.is_none_or(|retention| retention.record_recalls)
    }

    /// Erases what has expired.
    ///
    /// Each round takes a step in every workspace in which something is due.
    pub(crate) fn erase_expired(&mut self, now: Timestamp) {
        let workspaces = &self.workspaces;
        self.retentions.retain(|id, _| workspaces.contains_key(id));
        loop {
            let due = self.retentions.iter();
            let due = due.filter_map(|(id, facts)| Some((facts.next?, *id)));
            let due: BTreeSet<_> = due.filter(|(next, _)| *next <= now).collect();
            if due.is_empty() {
                return;
            }
            for (_, workspace) in due {
                let retention = self.retentions.get_mut(&workspace).expect("it is due");
                let is_due = retention.daily_next.is_some_and(|next| next <= now);
                let step = retention.step.take();
                match step.or(is_due.then_some(DailyStep::Memories)) {
                    Some(step) => self.sweep_daily(workspace, step, now),
                    None => self.sweep_chats(workspace, now),
                }
            }
        }
    }

    /// Takes a step of the daily sweep.
    fn sweep_daily(&mut self, workspace: WorkspaceId, step: DailyStep, now: Timestamp) {
        let retention = self.retentions.get_mut(&workspace).expect("it is due");
        retention.next = Some(now);
        let mut entries = Vec::new();
        let (mut memories, mut recalls) = (0, Vec::new());
        match step {
            DailyStep::Memories if !retention.memory_days.is_empty() => {
                let found = self.memories.iter().filter(|(_, memory)| {
                    memory.labels.workspace_id == workspace && retention.is_expired(memory, now)
                });
                let deleted: Vec<MemoryId> = found.map(|(id, _)| *id).collect();
                retention.step = Some(match deleted.is_empty() {
                    true => DailyStep::Recalls,
                    false => DailyStep::Citing(deleted.clone()),
                });
                for id in &deleted {
                    let state = labels_state(Some(&self.memories[id].labels));
                    entries.push(AuditFacts::ok(*id, state, ()));
                }
                memories = deleted.len();
                self.remove_memories(&deleted);
            }
            DailyStep::Citing(deleted) => {
                retention.step = Some(DailyStep::Recalls);
                recalls = self.recalls_without_memories(&deleted);
            }
            DailyStep::Memories | DailyStep::Recalls => {
                let is_planned = retention.is_swept_daily();
                retention.daily_next = is_planned.then(|| now.plus(DAY));
                let period = days(retention.recall_days);
                recalls = self.expired_recalls(workspace, period, now);
            }
        }
        for id in &recalls {
            self.remove_recall(*id, &mut entries);
        }
        if !entries.is_empty() {
            let counts = counts([0, 0, memories, recalls.len()]);
            entries.push(AuditFacts::ok(workspace, (), counts));
            self.audit_all(None, AuditAction::RetentionErase, None, entries, now);
        }
    }

    /// Returns the recalls of a workspace that are this old, and have no subscription.
    fn expired_recalls(
        &self,
        workspace: WorkspaceId,
        period: Duration,
        now: Timestamp,
    ) -> Vec<RecallId> {
        let subscribed = self.subscriptions.values().map(|to| to.recall_id);
        let subscribed: BTreeSet<RecallId> = subscribed.collect();
        let expired = self.recalls.values().filter(|recall| {
            recall.workspace_id == workspace
                && recall.created_at.plus(period) <= now
                && !subscribed.contains(&recall.id)
        });
        expired.map(|recall| recall.id).collect()
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
        let mut recalls = self.recalls.values();
        let has_recall = recalls.any(|recall| recall.workspace_id == workspace);
        let retention = self.retentions.get_mut(&workspace).expect("it is due");
        if has_recall && retention.daily_next.is_none() {
            retention.daily_next = Some(recall_sweep_after(workspace, now));
        }
        let period = retention.period();
        let chats = period.map(|period| oldest.unwrap_or(now).plus(period));
        retention.next = chats.into_iter().chain(retention.daily_next).min();
        if retention.next.is_none() {
            self.retentions.remove(&workspace);
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

/// Returns the time of the next sweep that only recalls are a reason for: once a day, at a time
/// that the workspace decides.
fn recall_sweep_after(workspace: WorkspaceId, now: Timestamp) -> Timestamp {
    let day = i64::try_from(DAY.as_millis()).expect("a day");
    let of_day = i64::try_from(workspace.0.as_u128() % DAY.as_millis()).expect("part of a day");
    let today = now.as_millis().div_euclid(day) * day + of_day;
    let is_past = today <= now.as_millis();
    Timestamp::from_millis(today + if is_past { day } else { 0 })
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
