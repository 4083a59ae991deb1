//! Dry runs of erasures: the numbers of what would be removed.

use std::collections::BTreeSet;

use super::create::{NamedMemory, count_kept, decide_named, erasure_prefetch, require_scope};
use super::removal::citing;
use crate::error::Error;
use crate::keys;
use crate::model::{
    ErasureCounts, ErasurePreview, MemoryContent, MemoryId, MemoryLabels, NewErasure, OrgId,
    Organization, Recall, RecallId, WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::monitor::slugs_read;
use crate::service::audit::entry::AuditOutcome;
use crate::service::operation::Authorized;
use crate::service::workspace::chats::Chat;
use crate::service::{Caller, Erasures, KnowledgeService};
use crate::store::{Direction, Key, KeyEntry, KeyRange, StoreExt, decode, decode_value};

/// Number of records that are read at once.
const RECORDS_AT_ONCE: usize = 500;

/// # Dry runs of erasures
impl Erasures<'_> {
    /// Counts what an erasure would remove. It erases nothing, stores nothing and is not audited.
    ///
    /// The numbers are those of a receipt, unless something is added or removed in the meantime.
    /// What another erasure already takes away is not counted.
    ///
    /// A request for a source reads the memories that are filed under it and, if there are any,
    /// every recall of the organisation; one for a member reads every memory, recall and chat. The
    /// quotas of the organisation bound both: whoever calls sets a limit of time, after which they
    /// drop the future. The erasure itself works in steps and has no such limit.
    ///
    /// # Errors
    /// Those of [`Self::create`], apart from the limit of running erasures.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::model::NewErasure;
    ///
    /// let request = NewErasure::builder().memory_ids(memories.clone()).build();
    /// let preview = service.erasures().preview(&owner, &request).await?;
    /// assert_eq!(preview.counts.memories, 2);
    /// assert!(service.memories().get(&owner, memories[0]).await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn preview(
        self,
        caller: &Caller,
        request: &NewErasure,
    ) -> Result<ErasurePreview, Error> {
        self.service.checks().check(request)?;
        self.service
            .perform(Operation::CreateErasure, caller, |caller| async move {
                let org = caller.org();
                let prefetch = erasure_prefetch(org, request).and_range(slugs_read(org));
                let mut op = caller.in_organization(None, prefetch).await?;
                require_scope(&mut op, request).await?;
                let preview = self.service.preview_erasure(&mut op, request).await?;
                op.done(preview)
            })
            .await
    }
}

impl KnowledgeService {
    /// Counts what an erasure of an authorised caller would remove.
    async fn preview_erasure(
        &self,
        op: &mut Authorized<'_>,
        request: &NewErasure,
    ) -> Result<ErasurePreview, Error> {
        let mut preview = ErasurePreview {
            dry_run: true,
            scope: request.scope(),
            suppress: request.suppress,
            counts: ErasureCounts::default(),
            not_found: 0,
            forbidden: 0,
        };
        let mut count = Count {
            service: self,
            org: op.principal.org.clone(),
            preview: &mut preview,
            memories: BTreeSet::new(),
        };
        match &request.memory_ids {
            Some(ids) => {
                let named = decide_named(op, ids).await?;
                count.named(op, &named).await?;
            }
            None => {
                count.memories_in_scope().await?;
                count.recalls_in_scope().await?;
                count.chats_in_scope().await?;
            }
        }
        Ok(preview)
    }
}

/// Pages of the records of a range, as they are in the store.
struct Records {
    rest: Option<KeyRange>,
}

impl Records {
    fn of(range: KeyRange) -> Self {
        Self { rest: Some(range) }
    }

    /// Returns the next records; none at the end.
    async fn next(&mut self, service: &KnowledgeService) -> Result<Vec<KeyEntry>, Error> {
        let Some(range) = self.rest.take() else {
            return Ok(Vec::new());
        };
        let store = service.store();
        let page = store
            .scan(&range, RECORDS_AT_ONCE, Direction::Forward)
            .await?;
        if page.len() == RECORDS_AT_ONCE {
            self.rest = page.last().map(|last| range.after(&last.key));
        }
        Ok(page)
    }
}

/// A count of what an erasure would remove.
struct Count<'c> {
    service: &'c KnowledgeService,
    org: Organization,
    preview: &'c mut ErasurePreview,
    /// Memories that would be removed.
    memories: BTreeSet<MemoryId>,
}

impl Count<'_> {
    fn org(&self) -> OrgId {
        self.org.id
    }

    fn add(&mut self, memory: MemoryId, content: &MemoryContent) {
        let counts = &mut self.preview.counts;
        counts.memories += 1;
        counts.source_keys += u64::from(content.source_key.is_some());
        self.memories.insert(memory);
    }

    /// Counts named memories and the recalls that cite no other memory.
    async fn named(&mut self, op: &mut Authorized<'_>, named: &[NamedMemory]) -> Result<(), Error> {
        let preview = &mut *self.preview;
        count_kept(named, &mut preview.not_found, &mut preview.forbidden);
        let mut ids = Vec::with_capacity(named.len());
        for memory in named {
            if let (AuditOutcome::Ok, Some(content)) = (memory.outcome, &memory.content) {
                ids.push(memory.id);
                self.add(memory.id, content);
            }
        }
        let (org, mut after): (OrgId, Option<RecallId>) = (self.org(), None);
        loop {
            let (recalls, is_last) = citing(&mut op.transaction, org, &ids, after).await?;
            let records: Vec<Key> = recalls.iter().map(|id| keys::recall(org, *id)).collect();
            let found = self.service.store().get_many_as::<Recall>(&records).await?;
            let found: Vec<Recall> = found.into_iter().flatten().map(|one| one.value).collect();
            self.recalls(&found).await?;
            if is_last || recalls.is_empty() {
                return Ok(());
            }
            after = recalls.last().copied();
        }
    }

    /// Counts the memories in the scope.
    async fn memories_in_scope(&mut self) -> Result<(), Error> {
        let org = self.org();
        let Some(source) = self.preview.scope.source_id else {
            let mut records = Records::of(keys::memories(org));
            loop {
                let page = records.next(self.service).await?;
                if page.is_empty() {
                    return Ok(());
                }
                let mut found: Vec<(MemoryId, MemoryLabels)> = Vec::with_capacity(page.len());
                for record in &page {
                    let labels = decode::<MemoryLabels>(&record.key, &record.entry)?.value;
                    let id = keys::last_id(&record.key).map(MemoryId);
                    found.extend(id.map(|id| (id, labels)));
                }
                self.memories(found).await?;
            }
        };
        let places = keys::workspaces(org);
        for place in self.service.store().scan_all(&places).await? {
            if let Some(place) = keys::last_id(&place.key).map(WorkspaceId) {
                let marks = keys::sourced_memories(org, place, source);
                self.marked_memories(marks).await?;
            }
        }
        Ok(())
    }

    /// Counts those of the memories with these marks that are in the scope.
    async fn marked_memories(&mut self, marks: KeyRange) -> Result<(), Error> {
        let (org, mut records) = (self.org(), Records::of(marks));
        loop {
            let page = records.next(self.service).await?;
            if page.is_empty() {
                return Ok(());
            }
            let ids = page.iter().filter_map(|mark| keys::last_id(&mark.key));
            let ids: Vec<MemoryId> = ids.map(MemoryId).collect();
            let labels: Vec<Key> = ids.iter().map(|id| keys::memory(org, *id)).collect();
            let labels = self.service.store().get_many_as::<MemoryLabels>(&labels);
            let mut found: Vec<(MemoryId, MemoryLabels)> = Vec::with_capacity(ids.len());
            for (id, labels) in ids.iter().zip(labels.await?) {
                // One that has been deleted in the meantime has none.
                found.extend(labels.map(|labels| (*id, labels.value)));
            }
            self.memories(found).await?;
        }
    }

    /// Counts those of these memories that are in the scope.
    async fn memories(&mut self, mut found: Vec<(MemoryId, MemoryLabels)>) -> Result<(), Error> {
        let (org, scope) = (self.org(), self.preview.scope.clone());
        found.retain(|(_, labels)| {
            let is_stored = !self.org.removing.contains(&labels.workspace_id);
            is_stored && scope.covers(labels.source_id, None)
        });
        let contents: Vec<Key> = found
            .iter()
            .map(|(id, _)| keys::content(org, *id))
            .collect();
        let contents = self.service.store().get_many_as::<MemoryContent>(&contents);
        for ((id, labels), content) in found.iter().zip(contents.await?) {
            // One that has been deleted in the meantime has none.
            let Some(content) = content.map(|found| found.value) else {
                continue;
            };
            let (source, origin) = (labels.source_id, content.origin());
            let mut others = self.org.erasing.values();
            let is_erased = others.any(|other| other.covers(source, Some(origin)));
            if scope.covers(source, Some(origin)) && !is_erased {
                self.add(*id, &content);
            }
        }
        Ok(())
    }

    /// Counts the recalls of the member, and those that cite no other memory.
    async fn recalls_in_scope(&mut self) -> Result<(), Error> {
        if self.memories.is_empty() && self.preview.scope.member_id.is_none() {
            return Ok(());
        }
        let mut records = Records::of(keys::recalls(self.org()));
        loop {
            let page = records.next(self.service).await?;
            if page.is_empty() {
                return Ok(());
            }
            let recalls: Result<Vec<Recall>, _> = page.iter().map(decode_value).collect();
            let mut recalls = recalls?;
            recalls.retain(|recall| {
                let is_stored = !self.org.removing.contains(&recall.workspace_id);
                is_stored && !self.org.erases_member(recall.created_by)
            });
            self.recalls(&recalls).await?;
        }
    }

    /// Counts those of these recalls that would be removed, with their subscriptions.
    async fn recalls(&mut self, recalls: &[Recall]) -> Result<(), Error> {
        let (org, store) = (self.org(), self.service.store());
        let member = self.preview.scope.member_id;
        let is_concerned = |recall: &&Recall| {
            let mut cited = recall.memory_ids.iter();
            member == Some(recall.created_by) || cited.any(|id| self.memories.contains(id))
        };
        let concerned: Vec<&Recall> = recalls.iter().filter(is_concerned).collect();
        let others = concerned.iter().flat_map(|recall| &recall.memory_ids);
        let others = others.filter(|id| !self.memories.contains(id)).copied();
        let others: BTreeSet<MemoryId> = others.collect();
        let labels: Vec<Key> = others.iter().map(|id| keys::memory(org, *id)).collect();
        let labels = store.get_many_as::<MemoryLabels>(&labels).await?;
        let stored = others.iter().zip(labels);
        let stored = stored.filter(|(_, labels)| labels.is_some());
        let stored: BTreeSet<MemoryId> = stored.map(|(id, _)| *id).collect();
        let is_removed = |recall: &&Recall| {
            let mut cited = recall.memory_ids.iter();
            member == Some(recall.created_by) || !cited.any(|id| stored.contains(id))
        };
        let removed = concerned.into_iter().filter(is_removed);
        let removed: Vec<RecallId> = removed.map(|recall| recall.id).collect();
        let counters: Vec<Key> = removed
            .iter()
            .map(|id| keys::subscription_count(org, *id))
            .collect();
        let counters = store.get_many_as::<i64>(&counters).await?;
        let subscriptions: i64 = counters
            .into_iter()
            .flatten()
            .map(|found| found.value)
            .sum();
        let counts = &mut self.preview.counts;
        counts.recalls += removed.len() as u64;
        counts.citation_subscriptions += u64::try_from(subscriptions).unwrap_or(0);
        Ok(())
    }

    /// Counts the chats of the member, with their messages.
    async fn chats_in_scope(&mut self) -> Result<(), Error> {
        let Some(member) = self.preview.scope.member_id else {
            return Ok(());
        };
        let org = self.org();
        if self.org.erases_member(member) {
            return Ok(());
        }
        let mut records = Records::of(keys::org_chats(org));
        loop {
            let page = records.next(self.service).await?;
            if page.is_empty() {
                return Ok(());
            }
            for record in &page {
                let chat: Chat = decode_value(record)?;
                let is_stored = !self.org.removing.contains(&chat.workspace_id);
                if chat.created_by == member && is_stored {
                    self.preview.counts.chats += 1;
                    self.messages(keys::chat_messages(org, chat.id)).await?;
                }
            }
        }
    }

    /// Counts the messages of a chat.
    async fn messages(&mut self, range: KeyRange) -> Result<(), Error> {
        let mut records = Records::of(range);
        loop {
            let page = records.next(self.service).await?;
            if page.is_empty() {
                return Ok(());
            }
            self.preview.counts.chat_messages += page.len() as u64;
        }
    }
}
