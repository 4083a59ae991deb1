//! Retention of chats, by workspace.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ChatFacts, Org};
use knowledge_core::model::{ChatId, MemberId, Timestamp, WorkspaceId};
use knowledge_core::service::{AuditAction, ResourceKind};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Retention of a workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RetentionFacts {
    chat_days: Option<u64>,
    /// Chats whose newest message is not later expired under an earlier retention.
    expired_until: Option<Timestamp>,
    /// Time of the next sweep.
    next: Timestamp,
}

impl RetentionFacts {
    fn period(&self) -> Option<Duration> {
        Some(DAY * u32::try_from(self.chat_days?).expect("at most 36,500"))
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
        json!({ "chat_days": retention.and_then(|retention| retention.chat_days) })
    }

    /// Sets the retention of a workspace. Chats that have expired until now stay expired.
    pub(crate) fn set_retention(
        &mut self,
        workspace: WorkspaceId,
        chat_days: Option<u64>,
        now: Timestamp,
    ) {
        let retention = self.retentions.entry(workspace).or_default();
        let by_period = retention.period().map(|period| now.minus(period));
        retention.expired_until = retention.expired_until.max(by_period);
        retention.chat_days = chat_days;
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

    /// Erases the chats that have expired.
    pub(crate) fn erase_expired(&mut self, now: Timestamp) {
        let due = self.retentions.iter();
        let due = due.filter(|(_, retention)| retention.next <= now);
        let mut due: Vec<_> = due.map(|(id, facts)| (facts.next, *id)).collect();
        due.sort_unstable();
        for (_, workspace) in due {
            let here = self.chats.values();
            let here = here.filter(|facts| facts.chat.workspace_id == workspace);
            let (kept, expired): (Vec<_>, Vec<_>) =
                here.partition(|facts| self.keeps_chat(facts, now));
            let oldest = kept.iter().map(|facts| facts.chat.last_message_at).min();
            let messages = expired.iter().map(|facts| facts.messages.len());
            let counts =
                json!({ "chats": expired.len(), "chat_messages": messages.sum::<usize>() });
            let expired: Vec<ChatId> = expired.iter().map(|facts| facts.chat.id).collect();
            if !expired.is_empty() {
                self.chats.retain(|id, _| !expired.contains(id));
                let resource = (ResourceKind::Workspace, workspace.0);
                let states = (Value::Null, counts);
                self.audit_by_operator(AuditAction::RetentionErase, resource, states, now);
            }
            let retention = self.retentions.get_mut(&workspace).expect("it is due");
            match retention.period() {
                Some(period) => retention.next = oldest.unwrap_or(now).plus(period),
                None => {
                    self.retentions.remove(&workspace);
                }
            }
        }
    }
}
