//! Memories, read one by one and listed.

use super::idempotency::fingerprint;
use super::memory_view::{Sight, Viewer};
use super::page::{Listing, Page, PageRequest};
use super::{KnowledgeService, Tagged};
use crate::access::{Action, ActionSet, Credential, CredentialKind, Denial, Principal, needs};
use crate::digest::etag;
use crate::error::Error;
use crate::model::{
    MemoryContent, MemoryDetails, MemoryFilter, MemoryId, MemoryLabels, MemorySummary, WorkspaceId,
};
use crate::keys;
use crate::store::{Direction, Key, StoreExt, Transaction, decode};

/// A memory as it stands, with what its caller may do in its workspace.
pub(super) struct FoundMemory {
    pub(super) id: MemoryId,
    pub(super) labels: MemoryLabels,
    pub(super) content: MemoryContent,
    pub(super) held: ActionSet,
}

impl FoundMemory {
    /// Reads a memory. Both its records are checked by the commit.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Forbidden`] for a credential that does not work in its workspace.
    pub(super) async fn read(
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
            return Err(Denial::Narrowed.into());
        }
        let workspace = labels.workspace_id;
        let held = caller.actions_in(transaction, &[workspace]).await?[&workspace];
        // A memory that is deleted between the two readings is gone: the commit, or the last reading, finds it out.
        let content = transaction.read(&keys::content(org, id)).await?;
        Ok(Self {
            id,
            labels,
            content: content.ok_or(missing)?,
            held,
        })
    }

    /// The caller as one who looks at this memory.
    pub(super) async fn viewer<'v>(
        &self,
        transaction: &Transaction,
        caller: &'v Principal,
    ) -> Result<Viewer<'v>, Error> {
        let labels = std::iter::once(&self.labels);
        Ok(Viewer::of(transaction.unchecked(), caller, self.held, labels).await?)
    }

    /// The memory as it is shown with this much in sight. The entity tag follows from what is shown.
    pub(super) fn shown(&self, sight: Sight) -> Tagged<MemoryDetails> {
        let is_readable = sight == Sight::Everything;
        let value = MemoryDetails::new(self.id, &self.labels, &self.content, is_readable);
        Tagged {
            etag: etag(fingerprint(&value)),
            value,
        }
    }
}

impl KnowledgeService {
    /// The memories of a workspace that have the labels of `filter`, in the order they came in.
    ///
    /// Labels bind reading: a memory whose audience does not cover the caller is left out, and what a memory says is
    /// shown to those alone who may read memories of its sensitivity. Relabelling is governance, not reading: who holds
    /// `memory:update` in the workspace sees the labels of every memory there.
    ///
    /// A page looks through a bounded number of memories, so that it may have fewer than asked for, also none, and go
    /// on all the same.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace; [`Error::Forbidden`] with neither `memory:read` nor `memory:update` there.
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
                Principal::recognise(&mut reading, credential, CredentialKind::Bearer, now).await?;
            let needs = [needs::LIST_MEMORIES, needs::LIST_LABELS];
            let (_, held) = caller
                .enter_for_any(&mut reading, workspace, &needs)
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
                let viewer = Viewer::of(self.store(), caller, held, found).await?;
                let seen = |(id, labels): (MemoryId, Option<MemoryLabels>)| {
                    let sight = viewer.sight(&labels?);
                    (sight != Sight::Nothing).then_some(id)
                };
                Ok(ids.into_iter().zip(labels).map(seen).collect())
            });
            let Page { data, next_cursor } = found.await?;
            let data = self.summaries(caller, held, filter, &data).await?;
            reading.done(Page { data, next_cursor })
        })
        .await
    }

    /// These memories as the caller sees them. Labels and contents are of one point in time, and those labels decide:
    /// what was chosen by earlier ones may be relabelled, moved out of sight or deleted meanwhile.
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
        let viewer = Viewer::of(self.store(), caller, held, labels).await?;
        let shown = memories.iter().filter_map(|(id, labels, content)| {
            let sight = viewer.sight(labels);
            let is_readable = sight == Sight::Everything;
            (sight != Sight::Nothing).then(|| MemorySummary::new(*id, labels, content, is_readable))
        });
        Ok(shown.collect())
    }

    /// One memory, with its entity tag. What it says is `null` for those who may know of it and not read it: labels
    /// bind reading, as in [`KnowledgeService::list_memories`].
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`], also for a memory whose audience does not cover the caller;
    /// [`Error::Forbidden`] with neither `memory:read` nor `memory:update` in its workspace.
    pub async fn memory(
        &self,
        credential: &Credential,
        memory: MemoryId,
    ) -> Result<Tagged<MemoryDetails>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut reading, credential, CredentialKind::Bearer, now).await?;
            let found = FoundMemory::read(&mut reading, &caller, memory).await?;
            let viewer = found.viewer(&reading, &caller).await?;
            match viewer.sight(&found.labels) {
                Sight::Nothing => Err(viewer.refusal(&found.labels, Action::MemoryRead)),
                sight => reading.done(found.shown(sight)),
            }
        })
        .await
    }
}
