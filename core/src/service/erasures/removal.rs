//! Removal of memories, recalls and chats in one commit, with its traces.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::erased_keys::ErasedKeys;
use super::work::StoredErasure;
use crate::error::Error;
use crate::keys;
use crate::model::{
    AuditAction, ChatId, CitationSubscription, ErasureCounts, EventData, MemoryId, MemoryLabels,
    OrgId, Quota, Recall, RecallId, ResourceKind, Timestamp, WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::audit::entry::AuditResource;
use crate::service::audit::pages::PageBody;
use crate::service::audit::write::{Actor, AuditedOperation, state};
use crate::service::memories::change_log::{Changed, is_logged, log_changes};
use crate::service::memories::read::FoundMemory;
use crate::service::outbox::Outbox;
use crate::service::quota::{release_unit, release_units};
use crate::service::secrets::sealing::SealedRecord;
use crate::service::workspace::chats::Chat;
use crate::store::{COMMIT_MUTATIONS_MAX, Key, RangeRead, Transaction, decode_value};

/// Number of citations of a memory that one read returns.
const CITATIONS_PER_READ: usize = 20;
/// Number of recalls that one step decides on.
const RECALLS_PER_STEP: usize = 50;
/// Number of messages of a chat that the commit of its deletion deletes.
const MESSAGES_PER_COMMIT: usize = 200;
/// Maximum number of mutations of a step. It is less than a commit may have, so that no step keeps
/// other commits waiting.
const STEP_MUTATIONS_MAX: usize = 4_096;
const _: () = assert!(STEP_MUTATIONS_MAX <= COMMIT_MUTATIONS_MAX);
/// Maximum number of mutations that the removal of a memory takes.
///
/// An upper bound: its records, its source key and the mark of that key, its marks, the counters
/// that count it and its label, one event, and what logs its change.
const MUTATIONS_PER_MEMORY: usize = 18;
/// Maximum number of mutations that a citation subscription of a removed recall takes.
const MUTATIONS_PER_SUBSCRIPTION: usize = 8;
/// Number of mutations for the audit log, the receipt and the progress.
const MUTATIONS_RESERVED: usize = 64;

/// Returns the read of the next recalls that cite a memory.
pub(super) fn citations_read(org: OrgId, memory: MemoryId, after: Option<RecallId>) -> RangeRead {
    let range = keys::citing_recalls(org, memory);
    let rest = match after {
        Some(after) => range.after(&keys::cited_by(org, memory, after)),
        None => range,
    };
    RangeRead::first(rest, CITATIONS_PER_READ)
}

/// Returns the next recalls that cite these memories, in order, and true if there are no more.
pub(super) async fn citing(
    transaction: &mut Transaction,
    org: OrgId,
    memories: &[MemoryId],
    after: Option<RecallId>,
) -> Result<(Vec<RecallId>, bool), Error> {
    let reads = memories.iter();
    let reads: Vec<_> = reads.map(|id| citations_read(org, *id, after)).collect();
    transaction.prefetch(Vec::new(), reads.clone()).await?;
    let mut recalls = BTreeSet::new();
    // Last recall up to which the citations of every memory were read.
    let mut until: Option<RecallId> = None;
    for read in &reads {
        let found = transaction.scan(read).await?;
        let listed = found.iter().filter_map(|found| keys::last_id(&found.key));
        let listed: Vec<_> = listed.map(RecallId).collect();
        if found.len() == read.limit {
            until = until.into_iter().chain(listed.last().copied()).min();
        }
        recalls.extend(listed);
    }
    recalls.retain(|recall| until.is_none_or(|until| *recall <= until));
    let is_last = until.is_none() && recalls.len() <= RECALLS_PER_STEP;
    Ok((
        recalls.into_iter().take(RECALLS_PER_STEP).collect(),
        is_last,
    ))
}

/// Everything that one commit removes.
pub(crate) struct Removal<'r> {
    service: &'r KnowledgeService,
    org: OrgId,
    now: Timestamp,
    counts: ErasureCounts,
    /// Removed memories by workspace.
    memories: BTreeMap<WorkspaceId, Vec<MemoryId>>,
    /// Those of the removed memories that the log of changes names, by workspace.
    logged: BTreeMap<WorkspaceId, Vec<MemoryId>>,
    /// Entries of the audit log.
    pages: Vec<PageBody>,
    /// Upper bound of the mutations so far.
    mutations: usize,
    /// Key of the hashes that are left of source keys; `None` if none are left.
    erased_keys: Option<ErasedKeys>,
}

impl<'r> Removal<'r> {
    pub(crate) fn new(service: &'r KnowledgeService, org: OrgId, now: Timestamp) -> Self {
        Self {
            service,
            org,
            now,
            counts: ErasureCounts::default(),
            memories: BTreeMap::new(),
            logged: BTreeMap::new(),
            pages: Vec::new(),
            mutations: MUTATIONS_RESERVED,
            erased_keys: None,
        }
    }

    /// Leaves a keyed hash of the source key of each memory that is removed from now on.
    pub(super) fn suppress(&mut self, erased_keys: Option<ErasedKeys>) {
        self.erased_keys = erased_keys;
    }

    pub(in crate::service) fn org(&self) -> OrgId {
        self.org
    }

    /// Returns the time of the step.
    pub(in crate::service) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the numbers of removed records.
    pub(in crate::service) fn counts(&self) -> ErasureCounts {
        self.counts
    }

    /// Returns true if nothing was removed.
    pub(in crate::service) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.counts == ErasureCounts::default()
    }

    /// Returns true if the commit has room for further mutations.
    fn has_room(&self, mutations: usize) -> bool {
        self.mutations + mutations <= STEP_MUTATIONS_MAX
    }

    /// Adds pages of the audit log about memories.
    pub(super) fn note(&mut self, pages: Vec<PageBody>) {
        self.pages.extend(pages);
    }

    fn note_removed(&mut self, kind: ResourceKind, id: Uuid, before: Value) {
        self.mutations += 1;
        self.pages.push(PageBody::Single {
            resource: AuditResource { kind, id },
            before: Some(before),
            after: None,
        });
    }

    /// Removes a memory, whose records the commit checks.
    pub(crate) fn memory(&mut self, transaction: &mut Transaction, found: &FoundMemory) {
        found.remove(transaction, (self.org, self.now));
        let (workspace, content) = (found.labels.workspace_id, &found.content);
        if let (Some(erased), Some(name)) = (&self.erased_keys, &content.source_key) {
            let mark = erased.mark(workspace, content.origin_source_id, name);
            transaction.put(mark, &());
        }
        self.mutations += MUTATIONS_PER_MEMORY;
        self.counts.memories += 1;
        self.counts.source_keys += u64::from(content.source_key.is_some());
        self.memories.entry(workspace).or_default().push(found.id);
        if is_logged(Some(&found.labels), None) {
            self.logged.entry(workspace).or_default().push(found.id);
        }
    }

    /// Removes those of these recalls that cite no stored memory, as far as the commit has room.
    ///
    /// Memories that this removes count as not stored. Returns the last recall that was decided on
    /// if there was not enough room.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn recalls_without_memories(
        &mut self,
        transaction: &mut Transaction,
        recalls: &[RecallId],
    ) -> Result<Option<Option<RecallId>>, Error> {
        if recalls.is_empty() {
            return Ok(None);
        }
        let org = self.org;
        let records: Vec<Key> = recalls.iter().map(|id| keys::recall(org, *id)).collect();
        let found = transaction.get_many::<Recall>(&records).await?;
        let removed: BTreeSet<MemoryId> = self.memories.values().flatten().copied().collect();
        let others = found.iter().flatten().flat_map(|recall| &recall.memory_ids);
        let others: BTreeSet<MemoryId> =
            others.filter(|id| !removed.contains(id)).copied().collect();
        let labels: Vec<Key> = others.iter().map(|id| keys::memory(org, *id)).collect();
        let stored = if labels.is_empty() {
            Vec::new()
        } else {
            transaction.get_many::<MemoryLabels>(&labels).await?
        };
        let stored = others
            .iter()
            .zip(stored)
            .filter(|(_, labels)| labels.is_some());
        let stored: BTreeSet<MemoryId> = stored.map(|(id, _)| *id).collect();
        let mut last = None;
        for (id, recall) in recalls.iter().zip(found) {
            if let Some(recall) = recall
                && !recall.memory_ids.iter().any(|id| stored.contains(id))
                && !self.recall(transaction, &recall).await?
            {
                return Ok(Some(last));
            }
            last = Some(*id);
        }
        Ok(None)
    }

    /// Removes a recall with its subscriptions. Returns false if the commit has no room for it
    /// beside what it removes already.
    ///
    /// The commit checks the number of its subscriptions, so that nobody subscribes meanwhile.
    ///
    /// # Errors
    /// [`Error::Internal`] for a recall with more subscriptions than any commit has room for, which
    /// the limits exclude; those of the store.
    pub(crate) async fn recall(
        &mut self,
        transaction: &mut Transaction,
        recall: &Recall,
    ) -> Result<bool, Error> {
        let org = self.org;
        let count = keys::subscription_count(org, recall.id);
        transaction.get::<i64>(&count).await?;
        let range = RangeRead::all(keys::subscriptions(org, recall.id));
        let subscriptions = transaction.scan(&range).await?;
        let mutations =
            5 + recall.memory_ids.len() + subscriptions.len() * MUTATIONS_PER_SUBSCRIPTION;
        if !self.has_room(mutations) {
            if self.mutations > MUTATIONS_RESERVED {
                return Ok(false);
            }
            let (recall, count) = (recall.id, subscriptions.len());
            let message = format!("the recall {recall} has {count} subscriptions");
            return Err(Error::internal(message));
        }
        self.mutations += mutations;
        transaction.delete(keys::recall(org, recall.id));
        transaction.delete(keys::workspace_recall(org, recall.workspace_id, recall.id));
        for memory in &recall.memory_ids {
            transaction.delete(keys::cited_by(org, *memory, recall.id));
        }
        self.counts.recalls += 1;
        release_unit(transaction, org, Quota::Recalls);
        self.note_removed(ResourceKind::Recall, recall.id.0, state(recall));
        for found in &subscriptions {
            transaction.check(found.key.clone(), Some(found.entry.version));
            let stored: SealedRecord<CitationSubscription> = decode_value(found)?;
            let id = stored.record.id;
            self.service
                .remove_endpoint(transaction, org, id.into(), stored.disabled, self.now)
                .await?;
            transaction.delete(found.key.clone());
            transaction.delete(keys::subscription_id(org, id));
            stored.delegator.remove_from_index(transaction, org, id.0);
            self.counts.citation_subscriptions += 1;
            release_unit(transaction, org, Quota::Endpoints);
            self.note_removed(ResourceKind::Subscription, id.0, state(&stored.record));
        }
        // Fan-out takes a recall with a counter for one with subscriptions.
        transaction.delete(count);
        Ok(true)
    }

    /// Returns true if the commit has room for a chat with its first messages.
    pub(crate) fn has_room_for_chat(&self) -> bool {
        self.has_room(MESSAGES_PER_COMMIT + 5)
    }

    /// Removes a chat and its first messages. Returns true if others remain.
    ///
    /// The commit has to check the chat, so that nobody writes a message meanwhile.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn chat(
        &mut self,
        transaction: &mut Transaction,
        chat: &Chat,
    ) -> Result<bool, Error> {
        let (org, workspace) = (self.org, chat.workspace_id);
        transaction.delete(keys::chat(org, workspace, chat.id));
        let recent = keys::chat_recent(org, workspace, chat.last_message_at, chat.id);
        transaction.delete(recent);
        self.mutations += 2;
        self.counts.chats += 1;
        release_unit(transaction, org, Quota::Chats);
        self.note_removed(ResourceKind::Chat, chat.id.0, state(chat));
        self.messages(transaction, chat.id).await
    }

    /// Removes the first messages of a removed chat. Returns true if others remain.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn messages(
        &mut self,
        transaction: &mut Transaction,
        chat: ChatId,
    ) -> Result<bool, Error> {
        let messages = transaction.scan(&messages_read(self.org, chat)).await?;
        for message in &messages {
            transaction.delete(message.key.clone());
        }
        release_units(transaction, self.org, Quota::ChatMessages, messages.len());
        self.mutations += messages.len();
        self.counts.chat_messages += messages.len() as u64;
        Ok(messages.len() == MESSAGES_PER_COMMIT)
    }

    /// Writes the events and the audit entries of a step, adds its counts to the receipt, and
    /// returns it as it is stored.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn finish(
        self,
        transaction: &mut Transaction,
        (operation, actor): (AuditedOperation, Actor),
        mut stored: StoredErasure,
    ) -> Result<StoredErasure, Error> {
        let receipt = &mut stored.receipt;
        receipt.counts.add(&self.counts);
        let counts = json!({ "counts": receipt.counts });
        let resource = (ResourceKind::Erasure, receipt.id.0);
        transaction.put(keys::erasure(self.org, receipt.id), &stored);
        let action = AuditAction::ErasureCreate;
        self.record(transaction, (operation, actor, action), resource, counts)
            .await?;
        Ok(stored)
    }

    /// Writes the events and the audit entries of a step, the last one with counts.
    ///
    /// # Errors
    /// Those of the store.
    pub(in crate::service) async fn record(
        mut self,
        transaction: &mut Transaction,
        (operation, actor, action): (AuditedOperation, Actor, AuditAction),
        (kind, id): (ResourceKind, Uuid),
        counts: Value,
    ) -> Result<(), Error> {
        let (org, env) = (self.org, self.service.env());
        for (workspace, memories) in &self.memories {
            let outbox = Outbox::begin(transaction, org, *workspace, self.now).await?;
            let event = EventData::ChunkDeleted;
            outbox.emit_memories(transaction, env, event, operation, memories);
        }
        for (workspace, memories) in self.logged {
            let (place, first) = ((org, workspace), operation.first_audit_id);
            log_changes(transaction, place, first, memories, Changed::Anything);
        }
        self.pages.push(PageBody::Single {
            resource: AuditResource { kind, id },
            before: None,
            after: Some(counts),
        });
        operation.record_pages(transaction, actor, action, self.pages);
        Ok(())
    }

    /// Forgets the entries of the audit log about what was removed.
    pub(in crate::service) fn forget_pages(&mut self) {
        self.pages.clear();
    }

    /// Returns the pages of the audit log about what was removed.
    pub(crate) fn into_pages(self) -> Vec<PageBody> {
        self.pages
    }
}

/// Returns the read of the first messages of a chat.
pub(crate) fn messages_read(org: OrgId, chat: ChatId) -> RangeRead {
    RangeRead::first(keys::chat_messages(org, chat), MESSAGES_PER_COMMIT)
}

impl ErasureCounts {
    fn add(&mut self, other: &Self) {
        self.memories += other.memories;
        self.source_keys += other.source_keys;
        self.recalls += other.recalls;
        self.citation_subscriptions += other.citation_subscriptions;
        self.chats += other.chats;
        self.chat_messages += other.chat_messages;
    }
}

impl KnowledgeService {
    /// Deletes some of the messages of a deleted chat. Returns true if more remain.
    pub(crate) async fn clear_former_chat(&self, org: OrgId, chat: ChatId) -> Result<bool, Error> {
        self.transact(|mut transaction| async move {
            let mut removal = Removal::new(self, org, self.env().now());
            let has_more = removal.messages(&mut transaction, chat).await?;
            Ok(transaction.done(has_more))
        })
        .await
    }
}
