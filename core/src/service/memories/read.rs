//! Reading and listing of memories.

use crate::digest::etag;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{
    MemoryContent, MemoryDetails, MemoryFilter, MemoryId, MemoryLabels, MemorySummary, OrgId,
    Quota, ReviewStatus, Timestamp, WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::monitor::{
    Monitor, Subject, Use, Visibility, named_workspaces, slugs_read,
};
use crate::service::memories::derived;
use crate::service::operation::idempotency::fingerprint;
use crate::service::operation::{Authorized, Prefetch, Unauthenticated};
use crate::service::page::{Listing, Page, PageRecord, PageRequest, PageScan};
use crate::service::quota::release_unit;
use crate::service::{Caller, Memories, WithEtag};
use crate::store::{Direction, Entry, Key, KeyRange, Transaction, decode};

/// A memory with its content.
pub(crate) struct FoundMemory {
    pub(crate) id: MemoryId,
    pub(crate) labels: MemoryLabels,
    pub(crate) content: MemoryContent,
}

impl FoundMemory {
    /// Authenticates the caller and reads a memory. The commit checks both of its records.
    ///
    /// The permissions depend on the memory, so that the operation decides them.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`].
    pub(crate) async fn read<'c>(
        caller: Unauthenticated<'c>,
        id: MemoryId,
        prefetch: Prefetch,
    ) -> Result<(Authorized<'c>, Self), Error> {
        let org = caller.org();
        let (labels_key, content_key) = (keys::memory(org, id), keys::content(org, id));
        let prefetch = prefetch.and_keys([labels_key.clone(), content_key.clone()]);
        let mut caller = caller.authenticate(prefetch).await?;
        let labels = caller.prefetched::<MemoryLabels>(&labels_key)?;
        let named = Prefetch::keys(named_workspaces(org, &labels));
        caller.prefetch(named).await?;
        let mut op = caller.authorize_per_resource().await?;
        let labels: MemoryLabels = op.find(&labels_key, EntityKind::Memory).await?;
        let content = op.find(&content_key, EntityKind::Memory).await?;
        let found = Self {
            id,
            labels,
            content,
        };
        Ok((op, found))
    }

    /// Removes the memory with its key at the source, at a time.
    ///
    /// The commit has to check both of its records.
    pub(crate) fn remove(&self, transaction: &mut Transaction, (org, at): (OrgId, Timestamp)) {
        let workspace = self.labels.workspace_id;
        transaction.delete(keys::memory(org, self.id));
        transaction.delete(keys::content(org, self.id));
        transaction.delete(keys::workspace_memory(org, workspace, self.id));
        if let Some(name) = &self.content.source_key {
            let origin = self.content.origin_source_id;
            transaction.delete(keys::source_key(org, workspace, origin, name));
        }
        release_unit(transaction, org, Quota::Memories);
        let labels = (Some(&self.labels), None);
        derived::keep(transaction, (org, self.id), labels, false, at);
    }

    /// Returns the memory for a decision about it.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            id: self.id,
            labels: &self.labels,
            content: Some(&self.content),
        }
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

    /// Returns the visible part of the memory, for an operation that changes nothing.
    ///
    /// If it has the content, the audit log records a read of the memory.
    pub(super) fn into_answer(
        self,
        op: &mut Authorized<'_>,
        visibility: Visibility,
    ) -> WithEtag<MemoryDetails> {
        let shown = self.shown(visibility);
        if visibility == Visibility::Everything {
            op.audit_read(vec![(self.id, self.labels)]);
        }
        shown
    }

    /// Returns the content that a replay keeps: without the title, the text, the source key, the
    /// audience that the source declared, and what the memory comes from.
    pub(super) fn kept_content(&self) -> MemoryContent {
        MemoryContent {
            title: String::new(),
            content: String::new(),
            source_key: None,
            declared_audience: None,
            provenance: None,
            ..self.content
        }
    }
}

impl Memories<'_> {
    /// Lists the memories of a workspace that match `filter`, in order of creation.
    ///
    /// A memory that does not exist for the caller is omitted: one whose audience does not cover
    /// the caller, unless it holds `memory:share` without a list of audience labels, and one that
    /// awaits review or was rejected, unless the caller added it or holds `memory:review`. The
    /// content is returned only to those whom the audience covers, and who may read memories of
    /// its sensitivity.
    ///
    /// Filters by review status and by source cost what they find: marks lead to the memories. With
    /// others, a page examines memories until it is full, or has one and has examined enough; it is
    /// empty only at the end, or if it found none for
    /// [`PAGE_SEARCH_TIME_MAX`](crate::limits::PAGE_SEARCH_TIME_MAX).
    ///
    /// # Errors
    /// Those of [`Operation::ListMemories`].
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::model::{MemoryFilter, ReviewStatus};
    /// use knowledge_core::service::PageRequest;
    ///
    /// // What was reviewed and accepted.
    /// let filter = MemoryFilter::builder().review_status(ReviewStatus::Approved).build();
    /// let page = PageRequest::default();
    /// let found = service.memories().list(&owner, workspace, &filter, &page).await?;
    /// assert_eq!(found.data.len(), 2);
    /// // The title of a restricted memory is hidden from viewers.
    /// let found = service.memories().list(&viewer, workspace, &filter, &page).await?;
    /// let hidden = found.data.iter().filter(|memory| memory.title.is_none());
    /// assert_eq!(hidden.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        filter: &MemoryFilter,
        page: &PageRequest,
    ) -> Result<Page<MemorySummary>, Error> {
        self.service
            .perform(Operation::ListMemories, caller, |caller| async move {
                let org = caller.org();
                let range = marks(org, workspace, filter);
                let listing = Listing::new("memories", filter, range, Direction::Forward);
                let prefetch = Prefetch::page(&listing, page).and_range(slugs_read(org));
                let is_filtered = filter.sifts_marks();
                let records = |transaction: &Transaction| {
                    let ids = listing.first_ids(page, transaction);
                    let ids = || ids.iter().map(|id| MemoryId(*id));
                    let contents = ids().filter(|_| !is_filtered);
                    Prefetch::keys(ids().map(|id| keys::memory(org, id)))
                        .and_keys(contents.map(|id| keys::content(org, id)))
                };
                let mut op = caller
                    .in_workspace_then(workspace, prefetch, &records)
                    .await?;
                let mut scan = PageScan::begin(&listing, page)?.searching(self.service.env());
                let (mut data, mut labels_first) = (Vec::new(), is_filtered);
                while let Some(marks) = scan.next(&mut op.transaction).await? {
                    let ids = marks.iter().map(|mark| keys::last_id(&mark.key));
                    let ids: Vec<MemoryId> =
                        ids.map(|id| MemoryId(id.unwrap_or_default())).collect();
                    let shown = summaries(&mut op, filter, &ids, labels_first).await?;
                    scan.add(&mut data, &marks, shown.into_iter().map(Ok))?;
                    // Most of what follows a page with hidden memories may be hidden too.
                    labels_first = true;
                }
                let page = scan.end(data);
                let read = page.data.iter().filter(|memory| memory.title.is_some());
                op.audit_read(read.map(|memory| (memory.id, memory.labels())).collect());
                op.done(page)
            })
            .await
    }

    /// Reads one memory with its entity tag.
    ///
    /// Its content is `null` for a caller that may know of the memory but not read it, by the rules
    /// of [`Self::list`].
    ///
    /// # Errors
    /// Those of [`Operation::GetMemory`]; [`Error::NotFound`], also for a memory that does not
    /// exist for the caller.
    pub async fn get(
        self,
        caller: &Caller,
        memory: MemoryId,
    ) -> Result<WithEtag<MemoryDetails>, Error> {
        self.service
            .perform(Operation::GetMemory, caller, |caller| async move {
                let (mut op, found) = FoundMemory::read(caller, memory, Prefetch::none()).await?;
                let monitor = op.monitor(&[found.subject()]).await?;
                let labels = &found.labels;
                let visibility = match monitor.decide(memory, labels, Use::Read) {
                    // Whoever added the memory still sees its labels.
                    Err(_) if op.shows_replay(&monitor, memory, labels) => Visibility::Labels,
                    decided => decided?,
                };
                let shown = found.into_answer(&mut op, visibility);
                op.done(shown)
            })
            .await
    }
}

impl MemoryFilter {
    /// Returns true if labels have to be read to tell which of the marks match.
    fn sifts_marks(&self) -> bool {
        self.audience_tag.is_some()
            || self.sensitivity_label.is_some()
            || self.review_status.is_some() && self.source_id.is_some()
    }
}

/// Returns the marks of a workspace that lead to the memories that match a filter, in their order.
///
/// With a review status and a source, those of whichever usually has fewer memories: most are
/// approved in the end.
fn marks(org: OrgId, workspace: WorkspaceId, filter: &MemoryFilter) -> KeyRange {
    match (filter.review_status, filter.source_id) {
        (None, None) => keys::workspace_memories(org, workspace),
        (None | Some(ReviewStatus::Approved), Some(source)) => {
            keys::sourced_memories(org, workspace, source)
        }
        (Some(review), _) => keys::reviewed_memories(org, workspace, review),
    }
}

/// Returns the part of a memory with these labels that a list with this filter shows.
fn listed(
    monitor: &Monitor,
    filter: &MemoryFilter,
    id: MemoryId,
    labels: &MemoryLabels,
) -> PageRecord<Visibility> {
    match monitor.visibility(id, labels) {
        None => PageRecord::Hidden,
        Some(visibility) => PageRecord::matching(visibility, filter.admits(labels)),
    }
}

/// Returns the visible parts of these memories, in their order.
///
/// Labels and contents are read together, or, with `labels_first`, the contents of those memories
/// that are shown afterwards, because the others would be read in vain. Their labels are then read
/// again and decide, because a memory may have been relabelled or deleted in between.
async fn summaries(
    op: &mut Authorized<'_>,
    filter: &MemoryFilter,
    ids: &[MemoryId],
    labels_first: bool,
) -> Result<Vec<PageRecord<MemorySummary>>, Error> {
    let org = op.org();
    let hidden = ids.iter().map(|_| PageRecord::Hidden);
    let mut shown: Vec<PageRecord<MemorySummary>> = hidden.collect();
    let wanted: Vec<usize> = if labels_first {
        shown_by_labels(op, filter, ids, &mut shown).await?
    } else {
        (0..ids.len()).collect()
    };
    if !wanted.is_empty() {
        let labels = wanted.iter().map(|index| keys::memory(org, ids[*index]));
        let contents = wanted.iter().map(|index| keys::content(org, ids[*index]));
        let records: Vec<Key> = labels.chain(contents).collect();
        // A commit of the entries about the read checks what was read.
        let found = if op.service.audits_reads() {
            op.transaction.get_many::<Entry>(&records).await?
        } else {
            op.transaction
                .unchecked()
                .get_many::<Entry>(&records)
                .await?
        };
        let mut memories = Vec::with_capacity(wanted.len());
        for (label, index) in wanted.iter().enumerate() {
            let content = wanted.len() + label;
            if let (Some(labels), Some(entry)) = (&found[label], &found[content]) {
                let labels = decode::<MemoryLabels>(&records[label], labels)?.value;
                let content = decode::<MemoryContent>(&records[content], entry)?.value;
                memories.push((*index, labels, content));
            }
        }
        let subjects = memories.iter().map(|(index, labels, content)| Subject {
            id: ids[*index],
            labels,
            content: Some(content),
        });
        let subjects: Vec<Subject<'_>> = subjects.collect();
        let monitor = op.monitor(&subjects).await?;
        for (index, labels, content) in &memories {
            let listed = listed(&monitor, filter, ids[*index], labels);
            shown[*index] = listed.map(|visibility| {
                let is_readable = visibility == Visibility::Everything;
                MemorySummary::new(ids[*index], labels, content, is_readable)
            });
        }
    }
    Ok(shown)
}

/// Returns the indices of the memories that their labels show, and marks those in `records` that the
/// filter excludes.
async fn shown_by_labels(
    op: &mut Authorized<'_>,
    filter: &MemoryFilter,
    ids: &[MemoryId],
    records: &mut [PageRecord<MemorySummary>],
) -> Result<Vec<usize>, Error> {
    let org = op.org();
    let label_keys: Vec<Key> = ids.iter().map(|id| keys::memory(org, *id)).collect();
    let entries = op
        .transaction
        .unchecked()
        .get_many::<Entry>(&label_keys)
        .await?;
    let mut memories = Vec::with_capacity(ids.len());
    for (index, (key, entry)) in label_keys.iter().zip(&entries).enumerate() {
        if let Some(entry) = entry {
            memories.push((index, decode::<MemoryLabels>(key, entry)?.value));
        }
    }
    let subjects = memories.iter();
    let subjects = subjects.map(|(index, labels)| Subject::new(ids[*index], labels));
    let subjects: Vec<Subject<'_>> = subjects.collect();
    let monitor = op.monitor(&subjects).await?;
    let mut wanted = Vec::with_capacity(memories.len());
    for (index, labels) in &memories {
        match listed(&monitor, filter, ids[*index], labels) {
            PageRecord::Hidden => {}
            PageRecord::Excluded => records[*index] = PageRecord::Excluded,
            PageRecord::Shown(_) => wanted.push(*index),
        }
    }
    Ok(wanted)
}
