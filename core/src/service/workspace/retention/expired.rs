//! Erasure of what the retention of a workspace no longer keeps.

use serde_json::json;

use super::retention_state::RetentionState;
use super::stored_retention::StoredRetention;
use crate::error::Error;
use crate::keys;
use crate::model::{
    AuditAction, ChatId, MemoryContent, MemoryId, MemoryLabels, OrgId, Organization, Recall,
    RecallId, ResourceKind, Timestamp, WorkspaceId, time_of,
};
use crate::service::KnowledgeService;
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::erasures::removal::Removal;
use crate::service::erasures::steps::{IsCovered, erase_citing};
use crate::service::erasures::work::{ErasureWork, Phase};
use crate::service::tasks::ScheduledTask;
use crate::service::workspace::chats::Chat;
use crate::store::{Key, KeyEntry, RangeRead, StoreExt, Transaction};

/// Number of chats that one step examines.
const CHATS_PER_STEP: usize = 50;

impl KnowledgeService {
    /// Erases some of what has expired in a workspace, as the task under a key asks. Returns true
    /// if more is due.
    ///
    /// A step is about memories or recalls, if a daily sweep is running or due, or about chats. Its
    /// last audit entry has its counts, and is the only one about chats. Nothing is swept in a
    /// workspace that is being removed.
    pub(crate) async fn erase_expired(
        &self,
        task: &Key,
        (org, workspace): (OrgId, WorkspaceId),
        now: Timestamp,
    ) -> Result<bool, Error> {
        self.transact(|mut transaction| async move {
            let place = keys::org(org);
            let mut records = vec![place.clone()];
            records.extend(RetentionState::keys(org, workspace));
            transaction.prefetch(records, Vec::new()).await?;
            let mut state = RetentionState::read(&mut transaction, org, workspace).await?;
            let owner = transaction.get::<Organization>(&place).await?;
            // A change of the retention or another caller has moved the task.
            let due = state.sweep.next.map(|at| keys::due(at, workspace.0));
            if due.as_ref() != Some(task) {
                transaction.delete(task.clone());
                return Ok(transaction.done(false));
            }
            let Some(owner) = owner else {
                state.schedule(&mut transaction, None);
                return Ok(transaction.done(false));
            };
            if owner.removing.contains(&workspace) {
                // The removal deletes the task once nothing is left that expires.
                state.postpone(&mut transaction, now);
                return Ok(transaction.done(false));
            }
            let mut removal = Removal::new(self, org, now);
            let next = match state.take_work(now) {
                Some(mut work) => {
                    let (stored, place) = (&state.stored, (&owner, workspace));
                    self.sweep_daily(&mut transaction, &mut removal, &mut work, stored, place)
                        .await?;
                    if work.is_complete() {
                        state.plan_daily_sweep(now);
                    } else {
                        state.sweep.work = Some(work);
                    }
                    Some(now)
                }
                None => {
                    state.cover_recalls(&mut transaction, now).await?;
                    self.sweep_chats(&mut transaction, &mut removal, &state, workspace)
                        .await?
                }
            };
            if !removal.is_empty() {
                self.record_expired(&mut transaction, removal, workspace)
                    .await?;
            }
            let has_more = next.is_some_and(|next| next <= now);
            state.schedule(&mut transaction, next);
            Ok(transaction.done(has_more))
        })
        .await
    }

    /// Audits what a step erases.
    async fn record_expired(
        &self,
        transaction: &mut Transaction,
        mut removal: Removal<'_>,
        workspace: WorkspaceId,
    ) -> Result<(), Error> {
        let (org, now, counts) = (removal.org(), removal.now(), removal.counts());
        if counts.chats > 0 {
            removal.forget_pages();
        }
        let counts = json!({
            "chats": counts.chats,
            "chat_messages": counts.chat_messages,
            "memories": counts.memories,
            "recalls": counts.recalls,
        });
        let operation = AuditedOperation::begin(transaction, self.env(), now);
        let actor = Actor::service(org, workspace);
        let by = (operation, actor, AuditAction::RetentionErase);
        let resource = (ResourceKind::Workspace, workspace.0);
        removal.record(transaction, by, resource, counts).await
    }

    /// Takes a step of a daily sweep: of the memories, of the recalls that cite none but deleted
    /// ones, or of the recalls that have expired.
    async fn sweep_daily(
        &self,
        transaction: &mut Transaction,
        removal: &mut Removal<'_>,
        work: &mut ErasureWork,
        stored: &StoredRetention,
        (owner, workspace): (&Organization, WorkspaceId),
    ) -> Result<(), Error> {
        if !work.memories.is_empty() {
            return erase_citing(transaction, removal, work).await;
        }
        if work.phase == Some(Phase::Memories) && stored.has_memory_days() {
            let place = (owner, workspace);
            return self
                .sweep_memories(transaction, removal, work, stored, place)
                .await;
        }
        self.sweep_recalls(transaction, removal, work, stored, workspace)
            .await
    }

    /// Deletes some memories that have expired.
    ///
    /// Memories in the scope of a running erasure are left to it.
    async fn sweep_memories(
        &self,
        transaction: &mut Transaction,
        removal: &mut Removal<'_>,
        work: &mut ErasureWork,
        stored: &StoredRetention,
        (owner, workspace): (&Organization, WorkspaceId),
    ) -> Result<(), Error> {
        let (org, now) = (owner.id, removal.now());
        let marks = keys::workspace_memories(org, workspace);
        let marks = self.next_records(marks, work, Some(Phase::Recalls)).await?;
        let ids = marks.iter().filter_map(|mark| keys::last_id(&mark.key));
        let places: Vec<Key> = ids.map(|id| keys::memory(org, MemoryId(id))).collect();
        let found = self.store().get(&places).await?;
        let found = places.into_iter().zip(found);
        let found = found.filter_map(|(key, entry)| entry.map(|entry| KeyEntry { key, entry }));
        let page: Vec<KeyEntry> = found.collect();
        let is_covered = |labels: &MemoryLabels, content: Option<&MemoryContent>| {
            let origin = content.map(MemoryContent::origin);
            let mut scopes = owner.erasing.values();
            stored.is_expired(labels, content, now)
                && (origin.is_none() || !scopes.any(|scope| scope.covers(labels.source_id, origin)))
        };
        let page = (page.as_slice(), &is_covered as IsCovered<'_>);
        self.erase_memories(transaction, removal, work, page).await
    }

    /// Erases some recalls that have expired and have no subscription.
    ///
    /// Their identifiers have their times, so that the first one that has not expired ends the
    /// sweep.
    async fn sweep_recalls(
        &self,
        transaction: &mut Transaction,
        removal: &mut Removal<'_>,
        work: &mut ErasureWork,
        stored: &StoredRetention,
        workspace: WorkspaceId,
    ) -> Result<(), Error> {
        let (org, now) = (removal.org(), removal.now());
        work.phase = Some(Phase::Recalls);
        let marks = keys::workspace_recalls(org, workspace);
        let mut page = self.next_records(marks, work, None).await?;
        let expired = page.iter().map_while(|mark| {
            let id = keys::last_id(&mark.key)?;
            (!stored.keeps_recall(time_of(id), now)).then_some(RecallId(id))
        });
        let expired: Vec<RecallId> = expired.collect();
        if expired.len() < page.len() {
            work.end_phase();
        }
        page.truncate(expired.len());
        if expired.is_empty() {
            return Ok(());
        }
        let counts = expired.iter().map(|id| keys::subscription_count(org, *id));
        let counts: Vec<Key> = counts.collect();
        let counts = transaction.get_many::<i64>(&counts).await?;
        let counts = counts.into_iter().map(Option::unwrap_or_default);
        let found = page.iter().zip(expired).zip(counts);
        let free = found.filter(|(_, count)| *count == 0);
        let free: Vec<(&KeyEntry, RecallId)> = free.map(|(found, _)| found).collect();
        let records = free.iter().map(|(_, id)| keys::recall(org, *id));
        let records: Vec<Key> = records.collect();
        // Removals read these ranges, to find them empty.
        let subscriptions = free.iter().map(|(_, id)| keys::subscriptions(org, *id));
        let subscriptions = subscriptions.map(RangeRead::all).collect();
        transaction.prefetch(records.clone(), subscriptions).await?;
        for ((mark, _), key) in free.into_iter().zip(records) {
            // It may have been deleted since the marks were read.
            let Some(recall) = transaction.get::<Recall>(&key).await? else {
                continue;
            };
            if !removal.recall(transaction, &recall).await? {
                work.resume_before(&page, mark, Phase::Recalls);
                break;
            }
        }
        Ok(())
    }

    /// Erases some chats that have expired, and returns the time of the next sweep.
    ///
    /// The index of the chats by their newest message begins with those that have expired; the first
    /// one that has not ends the step.
    async fn sweep_chats(
        &self,
        transaction: &mut Transaction,
        removal: &mut Removal<'_>,
        state: &RetentionState,
        workspace: WorkspaceId,
    ) -> Result<Option<Timestamp>, Error> {
        let (org, now) = (removal.org(), removal.now());
        let range = RangeRead::first(keys::recent_chats(org, workspace), CHATS_PER_STEP);
        let recent = transaction.scan(&range).await?;
        let ids = recent.iter().filter_map(|found| keys::last_id(&found.key));
        let chats: Vec<Key> = ids
            .map(|id| keys::chat(org, workspace, ChatId(id)))
            .collect();
        let chats = if chats.is_empty() {
            Vec::new()
        } else {
            transaction.get_many::<Chat>(&chats).await?
        };
        for (found, chat) in recent.iter().zip(&chats) {
            let Some(chat) = chat else { continue };
            // The chat may have moved after the index was read.
            transaction.check(found.key.clone(), Some(found.entry.version));
            if state.stored.keeps_chat(chat.last_message_at, now) {
                return Ok(state.next_sweep(Some(chat.last_message_at), now));
            }
            if !removal.has_room_for_chat() {
                return Ok(Some(now));
            }
            if removal.chat(transaction, chat).await? {
                let chat = chat.id;
                let rest = ScheduledTask::FormerChat { org, chat };
                rest.schedule(transaction, now, self.env());
            }
        }
        if recent.len() == range.limit {
            Ok(Some(now))
        } else {
            Ok(state.next_sweep(None, now))
        }
    }
}
