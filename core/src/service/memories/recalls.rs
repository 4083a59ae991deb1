//! Recalls: answers of an assistant, with the memories that they cite.
//!
//! A recall exists for the member that registered it, and for those who may read every memory that
//! it cites; deleted ones aside. With a credential that has a list of audience labels, the member
//! itself is one of the others: such a credential never shows what was made from memories that it
//! may not read.

use std::collections::BTreeMap;

use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::limits::RECALL_MEMORIES_MAX;
use crate::model::{
    AuditAction, CitationFilter, EndpointId, MemoryId, MemoryLabels, OrgId, Quota, Recall,
    RecallId, RecallSummary, ResourceKind, SourceId, WorkspaceId,
};
use crate::operation::Operation;
use crate::request::rules::{Description, Id, Items, List, Object, SourceKey, Unique};
use crate::request::{Path, Problems, request};
use crate::service::access::monitor::{Monitor, Subject, Use, Visibility, slugs_read};
use crate::service::access::principal::Principal;
use crate::service::operation::{Authenticated, Authorized, Prefetch};
use crate::service::page::{Listing, Page, PageRecord, PageRequest, PageScan};
use crate::service::workspace::retention::RetentionState;
use crate::service::{Caller, Recalls};
use crate::store::{Direction, Entry, Key, RangeRead, Transaction, decode};

/// Number of citations from which a list reads the labels of further memories in another read.
const CITATIONS_PER_READ: usize = 8_192;

request! {
    /// A new recall.
    #[schemars(extend("anyOf" = [
        {
            "title": "NewRecallOfMemories",
            "description": "A new recall that names memories.",
            "properties": { "memory_ids": { "minItems": 1 } },
            "required": ["memory_ids"],
        },
        {
            "title": "NewRecallOfSourceKeys",
            "description": "A new recall that names source keys.",
            "properties": { "source_keys": { "minItems": 1 } },
            "required": ["source_keys"],
        },
    ]))]
    pub struct NewRecall {
        /// Query that was answered, at most 1,024 characters.
        query: String as Description,
        /// Memories of the workspace that the answer cites, without duplicates.
        ///
        /// With the source keys, 1 to 500.
        memory_ids: Vec<MemoryId> as List<Id<MemoryId>, Items<0, RECALL_MEMORIES_MAX>, Unique>
            = Vec::new(),
        /// Further memories of the workspace that the answer cites, by their keys at their sources.
        ///
        /// One that `memory_ids` names too is cited once.
        source_keys: Vec<CitedKey> as List<Object<CitedKey>, Items<0, RECALL_MEMORIES_MAX>>
            = Vec::new(),
    }
    check NewRecall::check_count;
}

request! {
    /// A memory of the workspace of a recall, by its key at the source that delivered it.
    pub struct CitedKey {
        /// Source that delivered the memory, whatever source it is filed under now.
        source_id: SourceId as Id<SourceId>,
        /// Key of the memory at that source, 1 to 512 characters.
        source_key: String as SourceKey,
    }
}

request! {
    /// Change of a recall, which cites fewer memories than before.
    pub struct RecallUpdate {
        /// Memories that the answer cites, without duplicates, each of which the recall shows the
        /// caller.
        ///
        /// All others are no longer cited, also those that the recall does not show the caller.
        memory_ids: Vec<MemoryId> as List<Id<MemoryId>, Items<1, RECALL_MEMORIES_MAX>, Unique>,
    }
}

impl NewRecall {
    /// Adds the problem of no memory or too many.
    fn check_count(&self, path: &Path<'_>, problems: &mut Problems) {
        let count = self.memory_ids.len() + self.source_keys.len();
        let (name, code) = match count {
            0 => ("memory_ids", ProblemCode::TooSmall),
            1..=RECALL_MEMORIES_MAX => return,
            _ if self.memory_ids.len() > RECALL_MEMORIES_MAX => return,
            _ => ("source_keys", ProblemCode::TooLarge),
        };
        let message = format!(
            "must have 1 to {RECALL_MEMORIES_MAX} items in both lists together, not {count}"
        );
        problems.push(&Path::Field(path, name), code, message);
    }

    /// Returns the keys under which the memories are stored that the source keys name.
    fn keys_at_sources(&self, org: OrgId, workspace: WorkspaceId) -> Vec<Key> {
        let place =
            |cited: &CitedKey| keys::source_key(org, workspace, cited.source_id, &cited.source_key);
        self.source_keys.iter().map(place).collect()
    }
}

impl Recalls<'_> {
    /// Registers a recall.
    ///
    /// # Errors
    /// Those of [`Operation::CreateRecall`]; [`Error::InvalidRequest`] for a memory that is not in
    /// the workspace, not approved, or does not exist for the caller; [`Error::Conflict`] while
    /// what the caller made is being erased.
    pub async fn create(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        new: &NewRecall,
    ) -> Result<Recall, Error> {
        self.service.checks().check(new)?;
        self.service
            .once(
                Operation::CreateRecall,
                caller,
                &(workspace, new),
                |caller| async move {
                    let org = caller.org();
                    let ids = new.memory_ids.iter();
                    let by_key = new.keys_at_sources(org, workspace);
                    let prefetch = Prefetch::keys(ids.map(|id| keys::memory(org, *id)))
                        .and_keys(by_key.iter().cloned())
                        .and_keys([keys::usage(org, Quota::Recalls)])
                        .and_keys(RetentionState::keys(org, workspace))
                        .and_range(slugs_read(org));
                    let named = |transaction: &Transaction| {
                        let ids = by_key.iter().filter_map(|key| {
                            transaction.prefetched().get::<MemoryId>(key).ok()?
                        });
                        Prefetch::keys(ids.map(|id| keys::memory(org, id)))
                    };
                    let mut op = caller
                        .in_workspace_then(workspace, prefetch, &named)
                        .await?;
                    let cited = require_citable(&mut op, workspace, new, &by_key).await?;
                    op.reserve(Quota::Recalls, 1).await?;
                    let transaction = &mut op.transaction;
                    let retention = RetentionState::read(transaction, org, workspace).await?;
                    let recall = put_recall(&mut op, retention, new.query.clone(), cited);
                    op.done(recall)
                },
                |caller, replay| async move {
                    let recall = RecallId(replay.created);
                    self.get(&caller, recall).await
                },
            )
            .await
    }

    /// Lists the recalls of a workspace that match `filter`, newest first.
    ///
    /// Those that do not exist for the caller, as for [`Self::get`], are omitted, and each shows
    /// the memories that [`Self::get`] shows. The filter goes by these: no recall is found by a
    /// memory that does not exist for the caller, or no longer.
    ///
    /// # Errors
    /// Those of [`Operation::ListRecalls`].
    pub async fn list(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        filter: &CitationFilter,
        page: &PageRequest,
    ) -> Result<Page<RecallSummary>, Error> {
        self.service
            .perform(Operation::ListRecalls, caller, |caller| async move {
                let org = caller.org();
                let range = match filter.memory_id {
                    Some(memory) => keys::citing_recalls(org, memory),
                    None => keys::workspace_recalls(org, workspace),
                };
                let chosen = (workspace, filter);
                let listing = Listing::new("recalls", &chosen, range, Direction::Reverse);
                let prefetch = Prefetch::page(&listing, page).and_range(slugs_read(org));
                let records = |transaction: &Transaction| {
                    let ids = listing.first_ids(page, transaction).into_iter();
                    Prefetch::keys(ids.map(|id| keys::recall(org, RecallId(id))))
                };
                let mut op = caller
                    .in_workspace_then(workspace, prefetch, &records)
                    .await?;
                let mut scan = PageScan::begin(&listing, page)?;
                let mut data = Vec::new();
                while let Some(marks) = scan.next(&mut op.transaction).await? {
                    let ids = marks.iter().map(|mark| keys::last_id(&mark.key));
                    let ids = ids.map(|id| RecallId(id.unwrap_or_default()));
                    let records: Vec<Key> = ids.map(|id| keys::recall(org, id)).collect();
                    let entries = op
                        .transaction
                        .unchecked()
                        .get_many::<Entry>(&records)
                        .await?;
                    let mut recalls = Vec::with_capacity(records.len());
                    for (key, entry) in records.iter().zip(&entries) {
                        let recall = entry.as_ref().map(|entry| decode::<Recall>(key, entry));
                        recalls.push(recall.transpose()?.map(|recall| recall.value));
                    }
                    // A memory may have been cited in other workspaces.
                    let is_here = |recall: &Recall| recall.workspace_id == workspace;
                    let recalls: Vec<Option<Recall>> = recalls
                        .into_iter()
                        .map(|recall| recall.filter(is_here))
                        .collect();
                    let existing = existing(&mut op, &recalls).await?;
                    let shown = existing.into_iter().map(|recall| {
                        let cites = |recall: &Recall| {
                            let wanted = filter.memory_id;
                            wanted.is_none_or(|memory| recall.memory_ids.contains(&memory))
                        };
                        let recall = recall.filter(cites);
                        Ok(PageRecord::visible(recall.map(RecallSummary::from)))
                    });
                    scan.add(&mut data, &marks, shown)?;
                }
                op.done(scan.end(data))
            })
            .await
    }

    /// Reads one recall.
    ///
    /// It exists for the member that registered it, and for those who may read every memory that it
    /// cites; deleted ones aside. With a credential that has a list of audience labels, that applies
    /// to the member itself too. Of the memories, it returns those that exist for the caller and are
    /// approved.
    ///
    /// # Errors
    /// Those of [`Operation::GetRecall`]; [`Error::NotFound`], also for a recall that does not
    /// exist for the caller.
    pub async fn get(self, caller: &Caller, recall: RecallId) -> Result<Recall, Error> {
        self.service
            .perform(Operation::GetRecall, caller, |caller| async move {
                let org = caller.org();
                let prefetch =
                    Prefetch::keys([keys::recall(org, recall)]).and_range(slugs_read(org));
                let caller = caller.authenticate(prefetch).await?;
                let (op, found) = find_recall(caller, recall, Prefetch::none()).await?;
                op.done(found)
            })
            .await
    }

    /// Narrows a recall to the memories that the answer cites, in the order of the recall.
    ///
    /// Its subscribers are no longer notified of changes of the others. Without others, nothing
    /// changes.
    ///
    /// # Errors
    /// Those of [`Operation::UpdateRecall`]; [`Error::NotFound`], also for a recall that does not
    /// exist for the caller; [`Error::Forbidden`] for a recall of another member;
    /// [`Error::InvalidRequest`] for a memory that the recall does not show the caller.
    pub async fn update(
        self,
        caller: &Caller,
        recall: RecallId,
        update: &RecallUpdate,
    ) -> Result<Recall, Error> {
        self.service.checks().check(update)?;
        self.service
            .perform(Operation::UpdateRecall, caller, |caller| async move {
                let (org, kind) = (caller.org(), EntityKind::Recall);
                let prefetch =
                    Prefetch::keys([keys::recall(org, recall)]).and_range(slugs_read(org));
                let caller = caller.authenticate(prefetch).await?;
                let mut op = prefetch_cited(caller, recall, Prefetch::none()).await?;
                let (before, cited, monitor) = read_cited(&mut op, recall, kind).await?;
                if !cited.lets_exist(&before, &op.principal, &monitor) {
                    return Err(Error::NotFound { kind });
                }
                op.authorize_in(before.workspace_id, kind).await?;
                if before.created_by != op.principal.member_id() {
                    return Err(Error::forbidden(
                        "only the member that registered a recall can narrow it",
                    ));
                }
                let after = update.applied_to(&before, &cited.shown(&before, &monitor))?;
                if after == before {
                    return op.done(after);
                }
                let dropped = before.memory_ids.iter();
                for memory in dropped.filter(|id| !after.memory_ids.contains(id)) {
                    op.transaction.delete(keys::cited_by(org, *memory, recall));
                }
                op.transaction.put(keys::recall(org, recall), &after);
                let resource = (ResourceKind::Recall, recall.0);
                let (before, audited) = (before.audited(), after.audited());
                op.changed(AuditAction::RecallUpdate, resource, &before, &audited);
                op.done(after)
            })
            .await
    }
}

impl RecallUpdate {
    /// Returns a recall that cites only these of the memories that it shows the caller.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] with each memory that it does not show.
    fn applied_to(&self, before: &Recall, shown: &Recall) -> Result<Recall, Error> {
        let mut problems = Problems::default();
        for (index, id) in self.memory_ids.iter().enumerate() {
            if !shown.memory_ids.contains(id) {
                let message = "must be a memory that the recall cites";
                let path = format!("memory_ids[{index}]");
                problems.push(path, ProblemCode::NotFound, message);
            }
        }
        problems.into_result()?;
        let mut after = before.clone();
        after.memory_ids.retain(|id| self.memory_ids.contains(id));
        Ok(after)
    }
}

/// Registers the recall of a query that cites these memories of the workspace with this retention.
///
/// The caller has reserved it.
pub(crate) fn put_recall(
    op: &mut Authorized<'_>,
    retention: RetentionState,
    query: String,
    cited: Vec<MemoryId>,
) -> Recall {
    let (org, now) = (op.org(), op.now);
    let workspace = retention.workspace();
    let recall = Recall {
        id: RecallId(op.service.env().uuid_at(now)),
        workspace_id: workspace,
        query,
        memory_ids: cited,
        created_by: op.principal.member_id(),
        created_at: now,
    };
    let transaction = &mut op.transaction;
    transaction.create(keys::recall(org, recall.id), &recall);
    transaction.put(keys::workspace_recall(org, workspace, recall.id), &());
    for memory in &recall.memory_ids {
        transaction.put(keys::cited_by(org, *memory, recall.id), &());
    }
    retention.cover_new_recall(transaction, now);
    let resource = (ResourceKind::Recall, recall.id.0);
    op.created(AuditAction::RecallCreate, resource, &recall.audited());
    recall
}

/// Returns the memories that a new recall of the workspace cites, each once.
///
/// Those of the source keys are under `by_key`.
///
/// # Errors
/// [`Error::InvalidRequest`] with each memory that the caller may not cite; those of the store.
async fn require_citable(
    op: &mut Authorized<'_>,
    workspace: WorkspaceId,
    new: &NewRecall,
    by_key: &[Key],
) -> Result<Vec<MemoryId>, Error> {
    let org = op.org();
    let mut cited = new.memory_ids.clone();
    let mut named: Vec<Option<MemoryId>> = cited.iter().copied().map(Some).collect();
    if !by_key.is_empty() {
        named.extend(op.transaction.get_many::<MemoryId>(by_key).await?);
        for id in named.iter().skip(new.memory_ids.len()).flatten() {
            if !cited.contains(id) {
                cited.push(*id);
            }
        }
    }
    let memory_keys: Vec<Key> = cited.iter().map(|id| keys::memory(org, *id)).collect();
    let labels = if memory_keys.is_empty() {
        Vec::new()
    } else {
        op.transaction.get_many(&memory_keys).await?
    };
    let found = Cited::new(cited.iter().copied().zip(labels));
    let monitor = op.monitor(&found.subjects()).await?;
    let mut problems = Problems::default();
    for (index, id) in named.iter().enumerate() {
        let found = id.and_then(|id| found.0.get_key_value(&id));
        let may_cite = found.is_some_and(|(id, labels)| {
            labels.workspace_id == workspace && monitor.decide(*id, labels, Use::Cite).is_ok()
        });
        if !may_cite {
            let path = match index.checked_sub(new.memory_ids.len()) {
                None => format!("memory_ids[{index}]"),
                Some(index) => format!("source_keys[{index}]"),
            };
            let message = "must be an approved memory of the workspace";
            problems.push(path, ProblemCode::NotFound, message);
        }
    }
    problems.into_result()?;
    Ok(cited)
}

/// Returns a recall that exists for the caller, and authorises the caller in its workspace.
///
/// The caller has prefetched the recall and the slugs of the workspaces. Of the memories, those that
/// the recall shows the caller are returned. The commit checks the recall and the labels of all.
///
/// # Errors
/// [`Error::Unauthenticated`]; [`Error::NotFound`]; [`Error::Forbidden`] without the permissions of
/// the operation in the workspace.
pub(crate) async fn find_recall(
    caller: Authenticated<'_>,
    id: RecallId,
    further: Prefetch,
) -> Result<(Authorized<'_>, Recall), Error> {
    let mut op = prefetch_cited(caller, id, further).await?;
    let recall = find_existing(&mut op, id, EntityKind::Recall).await?;
    op.authorize_in(recall.workspace_id, EntityKind::Recall)
        .await?;
    Ok((op, recall))
}

/// Returns a recall with all that it cites, which may also exist because the caller may erase it.
///
/// # Errors
/// Those of [`find_recall`].
pub(crate) async fn find_any_recall(
    caller: Authenticated<'_>,
    id: RecallId,
) -> Result<(Authorized<'_>, Recall), Error> {
    let kind = EntityKind::Recall;
    let mut op = prefetch_cited(caller, id, Prefetch::none()).await?;
    let (recall, cited, monitor) = read_cited(&mut op, id, kind).await?;
    let held = op.actions_in(recall.workspace_id).await?;
    if !op.principal.erases(held) && !cited.lets_exist(&recall, &op.principal, &monitor) {
        return Err(Error::NotFound { kind });
    }
    op.authorize_in(recall.workspace_id, kind).await?;
    Ok((op, recall))
}

/// Prefetches the labels of what a recall cites, the endpoints of its subscriptions if those were
/// prefetched, and what the operation reads further.
async fn prefetch_cited(
    mut caller: Authenticated<'_>,
    id: RecallId,
    further: Prefetch,
) -> Result<Authorized<'_>, Error> {
    let org = caller.org();
    let recall = caller.prefetched::<Recall>(&keys::recall(org, id))?;
    let subscriptions = RangeRead::all(keys::subscriptions(org, id));
    let subscriptions = caller.transaction().prefetched().scan(&subscriptions);
    let endpoints = subscriptions.into_iter().flatten();
    let endpoints = endpoints.filter_map(|found| keys::last_id(&found.key));
    let endpoints: Vec<Key> = endpoints
        .map(|id| keys::endpoint(org, EndpointId(id)))
        .collect();
    let memories = recall.iter().flat_map(|recall| recall.memory_keys(org));
    let prefetch = further.and_keys(memories).and_keys(endpoints);
    caller.prefetch(prefetch).await?;
    caller.authorize_per_resource().await
}

/// Returns a recall that exists for the caller, with those memories that it shows the caller.
///
/// The commit checks the recall and the labels of all memories.
///
/// # Errors
/// [`Error::NotFound`] of this `kind`; those of the store.
pub(crate) async fn find_existing(
    op: &mut Authorized<'_>,
    id: RecallId,
    kind: EntityKind,
) -> Result<Recall, Error> {
    let (recall, cited, monitor) = read_cited(op, id, kind).await?;
    if !cited.lets_exist(&recall, &op.principal, &monitor) {
        return Err(Error::NotFound { kind });
    }
    Ok(cited.shown(&recall, &monitor))
}

/// Checks that no running erasure takes a recall away.
///
/// # Errors
/// [`Error::NotFound`] of this `kind`; those of the store.
pub(crate) async fn require_kept(
    op: &mut Authorized<'_>,
    id: RecallId,
    kind: EntityKind,
) -> Result<(), Error> {
    read_cited(op, id, kind).await.map(drop)
}

/// Returns a recall that is not being erased, with what it cites.
///
/// The commit checks the recall and the labels of all memories.
async fn read_cited(
    op: &mut Authorized<'_>,
    id: RecallId,
    kind: EntityKind,
) -> Result<(Recall, Cited, Monitor), Error> {
    let org = op.org();
    let recall: Recall = op.find(&keys::recall(org, id), kind).await?;
    let labels = op.transaction.get_many(&recall.memory_keys(org)).await?;
    let cited = Cited::new(recall.memory_ids.iter().copied().zip(labels));
    op.actions_in(recall.workspace_id).await?;
    let monitor = op.monitor(&cited.subjects()).await?;
    if cited.is_erased(&recall, &op.principal, &monitor) {
        Err(Error::NotFound { kind })
    } else {
        Ok((recall, cited, monitor))
    }
}

/// Returns those of these recalls that exist for the caller, with the memories that each shows.
async fn existing(
    op: &mut Authorized<'_>,
    recalls: &[Option<Recall>],
) -> Result<Vec<Option<Recall>>, Error> {
    let org = op.org();
    let mut exist = Vec::with_capacity(recalls.len());
    while exist.len() < recalls.len() {
        let mut cited: Vec<MemoryId> = Vec::new();
        let rest = &recalls[exist.len()..];
        let batch = rest.iter().take_while(|recall| {
            let has_room = cited.len() < CITATIONS_PER_READ;
            let recall = recall.as_ref().filter(|_| has_room);
            cited.extend(recall.iter().flat_map(|recall| &recall.memory_ids));
            has_room
        });
        let batch = &rest[..batch.count()];
        cited.sort_unstable();
        cited.dedup();
        let records: Vec<Key> = cited.iter().map(|id| keys::memory(org, *id)).collect();
        let entries = if records.is_empty() {
            Vec::new()
        } else {
            op.transaction
                .unchecked()
                .get_many::<Entry>(&records)
                .await?
        };
        let mut labels = Vec::with_capacity(records.len());
        for (key, entry) in records.iter().zip(&entries) {
            let found = entry
                .as_ref()
                .map(|entry| decode::<MemoryLabels>(key, entry));
            labels.push(found.transpose()?.map(|found| found.value));
        }
        let cited = Cited::new(cited.into_iter().zip(labels));
        let monitor = op.monitor(&cited.subjects()).await?;
        exist.extend(batch.iter().map(|recall| {
            let recall = recall.as_ref()?;
            let exists = cited.lets_exist(recall, &op.principal, &monitor);
            exists.then(|| cited.shown(recall, &monitor))
        }));
    }
    Ok(exist)
}

/// Returns true for a recall that exists for the caller whatever it cites.
///
/// Its query may tell what it cites, which a service account that acts for the member may not read.
pub(crate) fn is_own(caller: &Principal, recall: &Recall) -> bool {
    let is_direct = !caller.has_audience_list() && caller.via().is_none();
    is_direct && recall.created_by == caller.member_id()
}

impl Recall {
    /// Returns the keys of the labels of the cited memories.
    pub(crate) fn memory_keys(&self, org: OrgId) -> Vec<Key> {
        let ids = self.memory_ids.iter();
        ids.map(|id| keys::memory(org, *id)).collect()
    }

    /// Returns what the audit log stores of it: identifiers, not the query.
    fn audited(&self) -> serde_json::Value {
        serde_json::json!({
            "id": self.id,
            "workspace_id": self.workspace_id,
            "memory_ids": self.memory_ids,
        })
    }
}

/// Labels of the cited memories that are stored.
pub(crate) struct Cited(BTreeMap<MemoryId, MemoryLabels>);

impl Cited {
    pub(crate) fn new(found: impl Iterator<Item = (MemoryId, Option<MemoryLabels>)>) -> Self {
        Self(
            found
                .filter_map(|(id, labels)| Some((id, labels?)))
                .collect(),
        )
    }

    pub(crate) fn subjects(&self) -> Vec<Subject<'_>> {
        let memories = self.0.iter();
        memories
            .map(|(id, labels)| Subject::new(*id, labels))
            .collect()
    }

    /// Returns a recall with those memories that it shows the caller.
    fn shown(&self, recall: &Recall, monitor: &Monitor) -> Recall {
        let mut shown = recall.clone();
        shown.memory_ids.retain(|id| {
            let labels = self.0.get(id);
            labels.is_some_and(|labels| monitor.shows_citation(*id, labels))
        });
        shown
    }

    /// Returns true if a running erasure takes away a recall: one of the member, or one that cites
    /// nothing else.
    ///
    /// The recalls of memories that a step has removed go in a later one.
    fn is_erased(&self, recall: &Recall, caller: &Principal, monitor: &Monitor) -> bool {
        let remains = |id| {
            let labels = self.0.get(id);
            labels.is_some_and(|labels| !monitor.is_erased(*id, labels))
        };
        !caller.org.erasing.is_empty()
            && (caller.org.erases_member(recall.created_by)
                || !recall.memory_ids.iter().any(remains))
    }

    /// Returns true if a recall exists for the caller.
    pub(crate) fn lets_exist(
        &self,
        recall: &Recall,
        caller: &Principal,
        monitor: &Monitor,
    ) -> bool {
        let mut stored = recall
            .memory_ids
            .iter()
            .filter_map(|id| self.0.get_key_value(id))
            .filter(|(id, labels)| !monitor.is_erased(**id, labels));
        !self.is_erased(recall, caller, monitor)
            && (is_own(caller, recall)
                || stored.all(|(id, labels)| {
                    monitor.visibility(*id, labels) == Some(Visibility::Everything)
                }))
    }
}
