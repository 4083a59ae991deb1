//! Erasure of what the retention of a workspace no longer keeps.

use serde_json::json;

use super::removal::Removal;
use crate::error::Error;
use crate::keys;
use crate::model::{AuditAction, ChatId, OrgId, ResourceKind, Timestamp, WorkspaceId};
use crate::service::KnowledgeService;
use crate::service::kit::audit::{Actor, AuditedOperation};
use crate::service::tasks::ScheduledTask;
use crate::service::workspace::chats::Chat;
use crate::service::workspace::retention::StoredRetention;
use crate::store::{Key, RangeRead};

/// Number of chats that one step examines.
const CHATS_PER_STEP: usize = 50;

impl KnowledgeService {
    /// Erases some of what has expired in a workspace, as the task under a key asks. Returns true
    /// if more is due.
    ///
    /// One entry of the audit log has the counts of a step. The index of the chats by their newest
    /// message begins with those that have expired; the first one that has not ends the step.
    pub(crate) async fn erase_expired(
        &self,
        task: &Key,
        (org, workspace): (OrgId, WorkspaceId),
        now: Timestamp,
    ) -> Result<bool, Error> {
        self.transact(|mut transaction| async move {
            let key = keys::retention(org, workspace);
            let stored = transaction.read::<StoredRetention>(&key).await?;
            // A change of the retention or another caller has moved the task.
            let is_present = |stored: &StoredRetention| {
                stored
                    .next
                    .is_some_and(|at| keys::due(at, workspace.0) == *task)
            };
            let Some(stored) = stored.filter(is_present) else {
                transaction.delete(task.clone());
                return transaction.done(false);
            };
            let range = RangeRead::first(keys::recent_chats(org, workspace), CHATS_PER_STEP);
            let recent = transaction.scan(&range).await?;
            let ids = recent.iter().filter_map(|found| keys::last_id(&found.key));
            let chats: Vec<Key> = ids
                .map(|id| keys::chat(org, workspace, ChatId(id)))
                .collect();
            let chats = match chats.is_empty() {
                true => Vec::new(),
                false => transaction.read_many::<Chat>(&chats).await?,
            };
            let mut removal = Removal::new(self, org, now);
            let mut next = stored.next_sweep(None, now);
            if recent.len() == range.limit {
                next = Some(now);
            }
            for (found, chat) in recent.iter().zip(&chats) {
                let Some(chat) = chat else { continue };
                // The chat may have moved after the index was read.
                transaction.check(found.key.clone(), Some(found.entry.version));
                if stored.keeps_chat(chat.last_message_at, now) {
                    next = stored.next_sweep(Some(chat.last_message_at), now);
                    break;
                }
                if !removal.has_room_for_chat() {
                    next = Some(now);
                    break;
                }
                if removal.chat(&mut transaction, chat).await? {
                    let chat = chat.id;
                    let rest = ScheduledTask::FormerChat { org, chat };
                    rest.schedule(&mut transaction, now, self.env());
                }
            }
            let counts = removal.counts();
            if counts.chats > 0 {
                let operation = AuditedOperation::begin(&transaction, self.env(), now);
                let actor = Actor::service(org);
                operation.record(
                    &mut transaction,
                    actor,
                    AuditAction::RetentionErase,
                    (ResourceKind::Workspace, workspace.0),
                    None,
                    Some(json!({
                        "chats": counts.chats,
                        "chat_messages": counts.chat_messages,
                    })),
                );
            }
            let has_more = next.is_some_and(|next| next <= now);
            let task = ScheduledTask::Retention { org, workspace };
            stored.schedule(&mut transaction, task, next);
            transaction.done(has_more)
        })
        .await
    }
}
