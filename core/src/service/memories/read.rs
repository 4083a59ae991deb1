//! Reading and listing of memories.

use crate::access::{Action, ActionSet, Credential, CredentialKind, permissions};
use crate::digest::etag;
use crate::error::Error;
use crate::keys;
use crate::model::{
    MemoryContent, MemoryDetails, MemoryFilter, MemoryId, MemoryLabels, MemorySummary, WorkspaceId,
};
use crate::service::kit::idempotency::fingerprint;
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::{Denial, Principal};
use crate::service::memories::view::{MemoryReader, Visibility};
use crate::service::{KnowledgeService, WithEtag};
use crate::store::{Direction, Key, StoreExt, Transaction, decode};

/// A memory with the caller's actions in its workspace.
pub(crate) struct FoundMemory {
    pub(crate) id: MemoryId,
    pub(crate) labels: MemoryLabels,
    pub(crate) content: MemoryContent,
    pub(crate) held: ActionSet,
}

impl FoundMemory {
    /// Reads a memory. The commit checks both of its records.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Forbidden`] for a credential whose scope excludes the
    /// workspace of the memory.
    pub(crate) async fn read(
        transaction: &mut Transaction,
        caller: &Principal,
        id: MemoryId,
    ) -> Result<Self, Error> {
        let org = caller.org_id();
        let missing = Error::NotFound { what: "memory" };
        let labels = transaction
            .read::<MemoryLabels>(&keys::memory(org, id))
            .await?;
        let Some(labels) = labels else {
            return Err(missing);
        };
        if !caller.works_in(labels.workspace_id) {
            return Err(Denial::OutOfScope.into());
        }
        let workspace = labels.workspace_id;
        let held = caller.actions_in(transaction, &[workspace]).await?[&workspace];
        // If the memory is deleted between the two reads, the commit or the last read detects it.
        let content = transaction.read(&keys::content(org, id)).await?;
        Ok(Self {
            id,
            labels,
            content: content.ok_or(missing)?,
            held,
        })
    }

    /// Returns the caller as a reader of this memory.
    pub(crate) async fn reader<'v>(
        &self,
        transaction: &Transaction,
        caller: &'v Principal,
    ) -> Result<MemoryReader<'v>, Error> {
        let labels = std::iter::once(&self.labels);
        Ok(MemoryReader::of(transaction.unchecked(), caller, self.held, labels).await?)
    }

    /// Returns the visible part of the memory, with an entity tag derived from it.
    pub(crate) fn shown(&self, visibility: Visibility) -> WithEtag<MemoryDetails> {
        let is_readable = visibility == Visibility::Everything;
        let value = MemoryDetails::new(self.id, &self.labels, &self.content, is_readable);
        WithEtag {
            etag: etag(fingerprint(&value)),
            value,
        }
    }
}

impl KnowledgeService {
    /// Lists the memories of a workspace that match `filter`, in order of creation.
    ///
    /// A memory whose audience does not cover the caller is omitted, and its content is returned
    /// only to callers that may read memories of its sensitivity. Relabelling is governance, not
    /// reading: a caller with `memory:update` in the workspace sees the labels of every memory
    /// there.
    ///
    /// A page scans a bounded number of memories. It may hold fewer than requested, or none, even
    /// if more follow.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] with neither
    /// `memory:read` nor `memory:update` there.
    pub async fn list_memories(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        filter: &MemoryFilter,
        page: &PageRequest,
    ) -> Result<Page<MemorySummary>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            let permissions = [permissions::LIST_MEMORIES, permissions::LIST_LABELS];
            let (_, held) = caller
                .authorize_in_for_any(&mut reading, workspace, &permissions)
                .await?;
            let org = caller.org_id();
            let range = keys::workspace_memories(org, workspace);
            let listing = Listing::new("memories", filter, range, Direction::Forward);
            let caller = &caller;
            let found = listing.page_of(self.store(), page, |marks| async move {
                let ids = marks.iter().map(|mark| keys::last_id(&mark.key));
                let ids: Vec<MemoryId> = ids.map(|id| MemoryId(id.unwrap_or_default())).collect();
                let records: Vec<Key> = ids.iter().map(|id| keys::memory(org, *id)).collect();
                let labels = self.store().get_many_as::<MemoryLabels>(&records).await?;
                let labels: Vec<_> = labels
                    .into_iter()
                    .map(|found| Some(found?.value).filter(|labels| filter.admits(labels)))
                    .collect();
                let found = labels.iter().flatten();
                let reader = MemoryReader::of(self.store(), caller, held, found).await?;
                let seen = |(id, labels): (MemoryId, Option<MemoryLabels>)| {
                    let visibility = reader.visibility(&labels?);
                    (visibility != Visibility::Nothing).then_some(id)
                };
                Ok(ids.into_iter().zip(labels).map(seen).collect())
            });
            let Page { data, next_cursor } = found.await?;
            let data = self.summaries(caller, held, filter, &data).await?;
            reading.done(Page { data, next_cursor })
        })
        .await
    }

    /// Returns the visible parts of these memories.
    ///
    /// Labels and contents are read at one point in time, and those labels decide: since a memory
    /// was selected by its earlier labels, it may have been relabelled, hidden from the caller or
    /// deleted.
    async fn summaries(
        &self,
        caller: &Principal,
        held: ActionSet,
        filter: &MemoryFilter,
        ids: &[MemoryId],
    ) -> Result<Vec<MemorySummary>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let org = caller.org_id();
        let labels = ids.iter().map(|id| keys::memory(org, *id));
        let contents = ids.iter().map(|id| keys::content(org, *id));
        let records: Vec<Key> = labels.chain(contents).collect();
        let found = self.store().get(&records).await?;
        let mut memories = Vec::with_capacity(ids.len());
        for (index, id) in ids.iter().enumerate() {
            let (label, content) = (index, ids.len() + index);
            if let (Some(labels), Some(entry)) = (&found[label], &found[content]) {
                let labels = decode::<MemoryLabels>(&records[label], labels)?.value;
                let content = decode::<MemoryContent>(&records[content], entry)?.value;
                memories.push((*id, labels, content));
            }
        }
        memories.retain(|(_, labels, _)| filter.admits(labels));
        let labels = memories.iter().map(|(_, labels, _)| labels);
        let reader = MemoryReader::of(self.store(), caller, held, labels).await?;
        let shown = memories.iter().filter_map(|(id, labels, content)| {
            let visibility = reader.visibility(labels);
            let is_readable = visibility == Visibility::Everything;
            (visibility != Visibility::Nothing)
                .then(|| MemorySummary::new(*id, labels, content, is_readable))
        });
        Ok(shown.collect())
    }

    /// Reads one memory with its entity tag.
    ///
    /// Its content is `null` for a caller that may know of the memory but not read it, by the rules
    /// of [`KnowledgeService::list_memories`].
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`], also for a memory whose audience does not
    /// cover the caller; [`Error::Forbidden`] with neither `memory:read` nor `memory:update` in its
    /// workspace.
    pub async fn memory(
        &self,
        credential: &Credential,
        memory: MemoryId,
    ) -> Result<WithEtag<MemoryDetails>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            let found = FoundMemory::read(&mut reading, &caller, memory).await?;
            let reader = found.reader(&reading, &caller).await?;
            match reader.visibility(&found.labels) {
                Visibility::Nothing => Err(reader.denial(&found.labels, Action::MemoryRead)),
                visibility => reading.done(found.shown(visibility)),
            }
        })
        .await
    }
}
