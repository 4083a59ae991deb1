//! Reading and listing of memories.

use std::collections::HashMap;

use crate::access::Credential;
use crate::digest::etag;
use crate::error::Error;
use crate::keys;
use crate::model::{
    MemoryContent, MemoryDetails, MemoryFilter, MemoryId, MemoryLabels, MemorySummary, WorkspaceId,
};
use crate::operation::Operation;
use crate::service::kit::act::{Act, Caller, Wants, WantsOf};
use crate::service::kit::idempotency::fingerprint;
use crate::service::kit::monitor::{Subject, Use, Visibility, named_workspaces, slugs_read};
use crate::service::kit::page::{Listing, Page, PageRequest, PageScan};
use crate::service::{KnowledgeService, WithEtag};
use crate::store::{Direction, Key, Transaction, decode};

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
        caller: Caller<'c>,
        id: MemoryId,
        wants: WantsOf<'_>,
    ) -> Result<(Act<'c>, Self), Error> {
        let records = |org| wants(org).and_keys([keys::memory(org, id), keys::content(org, id)]);
        let mut caller = caller.identify(&records).await?;
        let org = caller.org();
        let labels = caller.peek::<MemoryLabels>(&keys::memory(org, id))?;
        let named = Wants::keys(named_workspaces(org, &labels));
        caller.read_ahead(named).await?;
        let mut act = caller.unauthorized().await?;
        let labels: MemoryLabels = act.find(&keys::memory(org, id), "memory").await?;
        let content = act.find(&keys::content(org, id), "memory").await?;
        let found = Self {
            id,
            labels,
            content,
        };
        Ok((act, found))
    }

    /// Returns the memory for a decision about it.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            id: self.id,
            labels: &self.labels,
            created_by: Some(self.content.created_by),
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
}

/// # Memories
impl KnowledgeService {
    /// Lists the memories of a workspace that match `filter`, in order of creation.
    ///
    /// A memory that does not exist for the caller is omitted: one whose audience does not cover
    /// the caller, unless it holds `memory:share` without a list of audience labels, and one that
    /// awaits review or was rejected, unless the caller added it or holds `memory:review`. The
    /// content is returned only to those whom the audience covers, and who may read memories of
    /// its sensitivity.
    ///
    /// A page scans a bounded number of memories. It may hold fewer than requested, or none, even
    /// if more follow.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] with neither
    /// `memory:read` nor `memory:share` there.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::model::{MemoryFilter, ReviewStatus};
    /// use knowledge_core::service::PageRequest;
    ///
    /// // The review queue of the workspace.
    /// let filter = MemoryFilter::builder().review_status(ReviewStatus::Pending).build();
    /// let page = PageRequest::default();
    /// let queue = service.list_memories(&owner, workspace, &filter, &page).await?;
    /// assert_eq!(queue.data.len(), 2);
    /// // The title of a restricted memory is hidden from viewers.
    /// let queue = service.list_memories(&viewer, workspace, &filter, &page).await?;
    /// let hidden = queue.data.iter().filter(|memory| memory.title.is_none());
    /// assert_eq!(hidden.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_memories(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        filter: &MemoryFilter,
        page: &PageRequest,
    ) -> Result<Page<MemorySummary>, Error> {
        self.act(Operation::ListMemories, credential, |caller| async move {
            let listing = |org| {
                let range = keys::workspace_memories(org, workspace);
                Listing::new("memories", filter, range, Direction::Forward)
            };
            let first = |org| Wants::page(&listing(org), page).and_range(slugs_read(org));
            let is_filtered = *filter != MemoryFilter::default();
            let records = |org, transaction: &Transaction| {
                let ids = listing(org).first_ids(page, transaction);
                let ids = || ids.iter().map(|id| MemoryId(*id));
                let contents = ids().filter(|_| !is_filtered);
                Wants::keys(ids().map(|id| keys::memory(org, id)))
                    .and_keys(contents.map(|id| keys::content(org, id)))
            };
            let act = caller.in_workspace_then(workspace, &first, &records);
            let mut act = act.await?;
            let listing = listing(act.org());
            let mut scan = PageScan::begin(&listing, page)?;
            let mut data = Vec::new();
            while let Some(marks) = scan.next(&mut act.transaction).await? {
                let ids = marks.iter().map(|mark| keys::last_id(&mark.key));
                let ids: Vec<MemoryId> = ids.map(|id| MemoryId(id.unwrap_or_default())).collect();
                let shown = summaries(&mut act, filter, &ids).await?;
                for (mark, item) in marks.iter().zip(shown) {
                    data.extend(item);
                    if scan.is_full(&mark.key, data.len())? {
                        break;
                    }
                }
            }
            act.done(scan.end(data))
        })
        .await
    }

    /// Reads one memory with its entity tag.
    ///
    /// Its content is `null` for a caller that may know of the memory but not read it, by the rules
    /// of [`KnowledgeService::list_memories`].
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`], also for a memory that does not exist for
    /// the caller; [`Error::Forbidden`] with neither `memory:read` nor `memory:share` in its
    /// workspace.
    pub async fn get_memory(
        &self,
        credential: &Credential,
        memory: MemoryId,
    ) -> Result<WithEtag<MemoryDetails>, Error> {
        self.act(Operation::GetMemory, credential, |caller| async move {
            let nothing = |_| Wants::nothing();
            let (mut act, found) = FoundMemory::read(caller, memory, &nothing).await?;
            let monitor = act.monitor(&[found.subject()]).await?;
            let visibility = monitor.decide(memory, &found.labels, Use::Read)?;
            act.done(found.shown(visibility))
        })
        .await
    }
}

/// Returns the visible parts of these memories, one place for each.
///
/// Without a filter, labels and contents are read together. With one, most contents would be read
/// in vain: those of the matching memories are read afterwards, with their labels, which decide
/// again, because a memory may have been relabelled or deleted in between.
async fn summaries(
    act: &mut Act<'_>,
    filter: &MemoryFilter,
    ids: &[MemoryId],
) -> Result<Vec<Option<MemorySummary>>, Error> {
    let org = act.org();
    let mut wanted: Vec<MemoryId> = ids.to_vec();
    if *filter != MemoryFilter::default() {
        let records: Vec<Key> = ids.iter().map(|id| keys::memory(org, *id)).collect();
        let found = act.transaction.entries_unchecked(&records).await?;
        let mut labels = Vec::with_capacity(ids.len());
        for (record, entry) in records.iter().zip(&found) {
            let entry = entry.as_ref();
            labels.push(
                entry
                    .map(|entry| decode::<MemoryLabels>(record, entry))
                    .transpose()?,
            );
        }
        let admitted = labels
            .into_iter()
            .map(|found| Some(found?.value).filter(|labels| filter.admits(labels)));
        let admitted: Vec<Option<MemoryLabels>> = admitted.collect();
        let admitted = ids.iter().zip(&admitted);
        let admitted =
            admitted.filter_map(|(id, labels)| Some(Subject::new(*id, labels.as_ref()?)));
        let admitted: Vec<Subject<'_>> = admitted.collect();
        let monitor = act.monitor(&admitted).await?;
        let seen = admitted
            .iter()
            .filter(|subject| monitor.visibility(subject.id, subject.labels).is_some());
        wanted = seen.map(|subject| subject.id).collect();
    }
    let mut shown: HashMap<MemoryId, MemorySummary> = HashMap::new();
    if !wanted.is_empty() {
        let labels = wanted.iter().map(|id| keys::memory(org, *id));
        let contents = wanted.iter().map(|id| keys::content(org, *id));
        let records: Vec<Key> = labels.chain(contents).collect();
        let found = act.transaction.entries_unchecked(&records).await?;
        let mut memories = Vec::with_capacity(wanted.len());
        for (index, id) in wanted.iter().enumerate() {
            let (label, content) = (index, wanted.len() + index);
            if let (Some(labels), Some(entry)) = (&found[label], &found[content]) {
                let labels = decode::<MemoryLabels>(&records[label], labels)?.value;
                let content = decode::<MemoryContent>(&records[content], entry)?.value;
                memories.push((*id, labels, content));
            }
        }
        memories.retain(|(_, labels, _)| filter.admits(labels));
        let subjects = memories.iter().map(|(id, labels, content)| Subject {
            id: *id,
            labels,
            created_by: Some(content.created_by),
        });
        let subjects: Vec<Subject<'_>> = subjects.collect();
        let monitor = act.monitor(&subjects).await?;
        for (id, labels, content) in &memories {
            if let Some(visibility) = monitor.visibility(*id, labels) {
                let is_readable = visibility == Visibility::Everything;
                shown.insert(*id, MemorySummary::new(*id, labels, content, is_readable));
            }
        }
    }
    Ok(ids.iter().map(|id| shown.remove(id)).collect())
}
