//! Searches that register a recall.

use std::collections::HashMap;

use super::indexes::{Place, Wanted};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::RECALL_MEMORIES_MAX;
use crate::model::{
    MemoryContent, MemoryId, MemoryLabels, Quota, RecallId, RecallResults, RecallSearch,
    RecalledMemory, ReviewStatus, WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::monitor::{Monitor, Subject, Visibility, slugs_read};
use crate::service::memories::recalls::put_recall;
use crate::service::operation::{Authorized, Prefetch};
use crate::service::workspace::retention::RetentionState;
use crate::service::{Caller, Recalls};
use crate::store::{Entry, Key, StoreExt, Transaction, decode};

/// Constant of the fusion of two rankings by reciprocal ranks: a memory at the rank `r` of one adds
/// `1 / (60 + r)` to its score (Cormack, Clarke and Büttcher, 2009).
const FUSION_RANKS: f64 = 60.0;

/// # Search
impl Recalls<'_> {
    /// Returns the memories of a workspace that answer a question best, and registers them as a
    /// recall, unless the search or the retention of the workspace says otherwise.
    ///
    /// They are approved memories that the caller may read. Those with words of the query are ranked
    /// by BM25 over the memories that the caller may read, as if there were no others. Candidates
    /// keep their order; those that the caller may not read, or that are not in the workspace, are
    /// left out. With both, the two rankings are fused by reciprocal ranks.
    ///
    /// # Errors
    /// Those of [`Operation::SearchRecalls`]; [`Error::InvalidRequest`] for a query in a workspace
    /// with too many memories; [`Error::Unavailable`] for a query while the index of the workspace
    /// is built.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::model::RecallSearch;
    ///
    /// let search = RecallSearch::builder().query("How is the service restarted?").build();
    /// let found = service.recalls().search(&viewer, workspace, &search).await?;
    /// let best = &found.results[0];
    /// println!("{} ({:?}): {}", best.title, best.score, best.content);
    ///
    /// // Whoever subscribes to the recall hears when one of the memories changes.
    /// let recall = service.recalls().get(&viewer, found.recall_id.unwrap()).await?;
    /// assert_eq!(recall.memory_ids[0], best.memory_id);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn search(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        search: &RecallSearch,
    ) -> Result<RecallResults, Error> {
        self.service.checks().check(search)?;
        self.service
            .perform(Operation::SearchRecalls, caller, |caller| async move {
                let org = caller.org();
                let names = Names::of(search, (org, workspace));
                let prefetch = names.prefetch(search);
                let labels = |transaction: &Transaction| {
                    let ids = names.by_key.iter();
                    let ids = ids.filter_map(|key| transaction.prefetched().get(key).ok()?);
                    Prefetch::keys(ids.map(|id| keys::memory(org, id)))
                };
                let mut op = caller
                    .in_workspace_then(workspace, prefetch, &labels)
                    .await?;
                let retention = recorded_by(&mut op, search).await?;
                let ranking = rank(&mut op, &names, search).await?;
                let results = read_ranked(&mut op, &names, &ranking, retention.is_some()).await?;
                let recall_id = register(&mut op, search, &results, retention).await?;
                op.done(RecallResults { recall_id, results })
            })
            .await
    }
}

/// Keys of what a search names.
struct Names {
    place: Place,
    /// Counter of the changes of the workspace, by which the index of words is known to be current.
    counter: Key,
    /// Keys of the identifiers of the candidates that are named by their keys at their sources.
    by_key: Vec<Key>,
}

impl Names {
    fn of(search: &RecallSearch, place: Place) -> Self {
        let (org, workspace) = place;
        let candidates = search.candidates.iter().flatten();
        let by_key = candidates.filter_map(|candidate| {
            let (source, name) = (candidate.source_id?, candidate.source_key.as_ref()?);
            Some(keys::source_key(org, workspace, source, name))
        });
        Self {
            place,
            counter: keys::memory_change_number(org, workspace),
            by_key: by_key.collect(),
        }
    }

    /// Returns what is read with the authorisation.
    fn prefetch(&self, search: &RecallSearch) -> Prefetch {
        let (org, workspace) = self.place;
        let candidates = search.candidates.iter().flatten();
        let ids = candidates.filter_map(|candidate| candidate.memory_id);
        let count = keys::memory_count(org, workspace);
        let by_words = search.words().map(|_| [self.counter.clone(), count]);
        let retention = search.record.then(|| RetentionState::keys(org, workspace));
        Prefetch::keys(ids.map(|id| keys::memory(org, id)))
            .and_keys(self.by_key.iter().cloned())
            .and_keys(by_words.into_iter().flatten())
            .and_keys(search.record.then(|| keys::usage(org, Quota::Recalls)))
            .and_keys(retention.into_iter().flatten())
            .and_range(slugs_read(org))
    }

    /// Makes the operation begin anew, because these counted changes are no longer all.
    fn begin_anew(&self, op: &mut Authorized<'_>, counted: Option<&Entry>) -> Error {
        let version = counted.map(|entry| entry.version);
        op.transaction.check(self.counter.clone(), version);
        Error::Conflict
    }
}

/// Memories in the order in which a search returns them.
struct Ranking {
    /// Memories with their scores, best first.
    memories: Vec<(MemoryId, Option<f64>)>,
    /// Counter of changes as it was read, if the words of a query were searched.
    counted: Option<Option<Entry>>,
}

/// Ranks the memories of a workspace that the caller may read.
async fn rank(
    op: &mut Authorized<'_>,
    names: &Names,
    search: &RecallSearch,
) -> Result<Ranking, Error> {
    let limit = usize::try_from(search.limit).unwrap_or(usize::MAX);
    let candidates = match &search.candidates {
        Some(_) => Some(readable_candidates(op, names, search).await?),
        None => None,
    };
    let Some(query) = search.words() else {
        let memories = candidates.into_iter().flatten().map(|id| (id, None));
        return Ok(Ranking {
            memories: memories.take(limit).collect(),
            counted: None,
        });
    };
    let depth = match candidates {
        Some(_) => RECALL_MEMORIES_MAX,
        None => limit,
    };
    let (found, counted) = search_words(op, names, query, depth).await?;
    let mut memories: Vec<(MemoryId, Option<f64>)> = match candidates {
        None => found
            .into_iter()
            .map(|(id, score)| (id, Some(score)))
            .collect(),
        Some(candidates) => fuse(candidates, found.into_iter().map(|(id, _)| id)),
    };
    memories.truncate(limit);
    Ok(Ranking {
        memories,
        counted: Some(counted),
    })
}

/// Returns the candidates that the caller may read, each once, in their order.
async fn readable_candidates(
    op: &mut Authorized<'_>,
    names: &Names,
    search: &RecallSearch,
) -> Result<Vec<MemoryId>, Error> {
    let org = op.org();
    let mut keyed = if names.by_key.is_empty() {
        Vec::new().into_iter()
    } else {
        let found = op.transaction.unchecked().get_many(&names.by_key).await?;
        found.into_iter()
    };
    let mut ids: Vec<MemoryId> = Vec::new();
    for candidate in search.candidates.iter().flatten() {
        let id = candidate.memory_id.or_else(|| keyed.next().flatten());
        ids.extend(id.filter(|id| !ids.contains(id)));
    }
    let places: Vec<Key> = ids.iter().map(|id| keys::memory(org, *id)).collect();
    let labels = if places.is_empty() {
        Vec::new()
    } else {
        let unchecked = op.transaction.unchecked();
        unchecked.get_many::<MemoryLabels>(&places).await?
    };
    let found = ids.into_iter().zip(labels);
    let found: Vec<(MemoryId, MemoryLabels)> = found
        .filter_map(|(id, labels)| Some((id, labels?)))
        .collect();
    let subjects = found.iter().map(|(id, labels)| Subject::new(*id, labels));
    let subjects: Vec<Subject<'_>> = subjects.collect();
    let monitor = op.monitor(&subjects).await?;
    let readable = found.iter();
    let readable = readable.filter(|(id, labels)| is_found(&monitor, names, *id, labels));
    Ok(readable.map(|(id, _)| *id).collect())
}

/// Returns true if a search of the workspace may return a memory with these labels.
fn is_found(monitor: &Monitor, names: &Names, id: MemoryId, labels: &MemoryLabels) -> bool {
    labels.workspace_id == names.place.1
        && labels.review == ReviewStatus::Approved
        && monitor.visibility(id, labels) == Some(Visibility::Everything)
}

/// Returns the memories with words of the query, best first, and the counter of changes with which
/// they agree.
async fn search_words(
    op: &mut Authorized<'_>,
    names: &Names,
    query: &str,
    limit: usize,
) -> Result<(Vec<(MemoryId, f64)>, Option<Entry>), Error> {
    let service = op.service;
    let count = keys::memory_count(op.org(), names.place.1);
    let counters = [names.counter.clone(), count];
    let found = op.transaction.unchecked();
    let mut found = found.get_many::<Entry>(&counters).await?.into_iter();
    let number = |entry: Option<&Entry>| -> Result<i64, Error> {
        let decoded = entry.map(|entry| decode::<i64>(&names.counter, entry));
        Ok(decoded.transpose()?.map_or(0, |decoded| decoded.value))
    };
    let (counted, memories) = (found.next().flatten(), found.next().flatten());
    let (changes, memories) = (number(counted.as_ref())?, number(memories.as_ref())?);
    let maximum = service.limits().searched_memories_max;
    if u64::try_from(memories).is_ok_and(|memories| memories > maximum) {
        let message = format!(
            "the workspace has more than {maximum} memories, the maximum of a search by words; \
             send candidates"
        );
        return Err(Error::invalid("query", ProblemCode::LimitReached, message));
    }
    let index = service.search_indexes().of(names.place);
    let wanted = Wanted {
        applied: changes,
        erasing: &op.principal.org.erasing.clone(),
    };
    service.follow(&index, names.place, wanted).await?;
    let labels = index.labels();
    let subjects = labels.iter();
    let subjects = subjects.map(|labels| Subject::new(MemoryId(uuid::Uuid::nil()), labels));
    let subjects: Vec<Subject<'_>> = subjects.collect();
    let monitor = op.monitor(&subjects).await?;
    let is_readable = |labels: &MemoryLabels| monitor.reads_approved(labels);
    match index.search(query, limit, wanted, is_readable) {
        Some(found) => Ok((found, counted)),
        // Others have made the index contain what was changed since the counter was read.
        None => Err(names.begin_anew(op, counted.as_ref())),
    }
}

/// Fuses two rankings by the reciprocal ranks, ties in the order of the identifiers.
fn fuse(
    candidates: impl IntoIterator<Item = MemoryId>,
    found: impl IntoIterator<Item = MemoryId>,
) -> Vec<(MemoryId, Option<f64>)> {
    let mut scores: HashMap<MemoryId, f64> = HashMap::new();
    let rankings = [
        candidates.into_iter().collect::<Vec<_>>(),
        found.into_iter().collect(),
    ];
    for ranking in rankings {
        let ranks = (1_u32..).map(f64::from);
        for (id, rank) in ranking.into_iter().zip(ranks) {
            *scores.entry(id).or_default() += 1.0 / (FUSION_RANKS + rank);
        }
    }
    let mut fused: Vec<(MemoryId, f64)> = scores.into_iter().collect();
    fused.sort_unstable_by(|(a, score), (b, other)| other.total_cmp(score).then(a.cmp(b)));
    fused
        .into_iter()
        .map(|(id, score)| (id, Some(score)))
        .collect()
}

/// Reads the ranked memories, with the counter of changes at the same point in time.
///
/// If the ranking is no longer right, the operation begins anew. The commit, if there is one, checks
/// what is returned. A registration of what is read follows if `is_recorded`.
async fn read_ranked(
    op: &mut Authorized<'_>,
    names: &Names,
    ranking: &Ranking,
    is_recorded: bool,
) -> Result<Vec<RecalledMemory>, Error> {
    let org = op.org();
    let records =
        |(id, _): &(MemoryId, Option<f64>)| [keys::memory(org, *id), keys::content(org, *id)];
    let mut places: Vec<Key> = ranking.memories.iter().flat_map(records).collect();
    if ranking.counted.is_some() {
        places.push(names.counter.clone());
    }
    let found = if ranking.memories.is_empty() {
        op.service.store().get(&places).await?
    } else {
        // None of it is what was prefetched, because the contents were not.
        let unchecked = op.transaction.unchecked();
        unchecked.get_many::<Entry>(&places).await?
    };
    if let Some(counted) = &ranking.counted
        && found.last().is_none_or(|found| found != counted)
    {
        return Err(names.begin_anew(op, counted.as_ref()));
    }
    let mut memories = Vec::with_capacity(ranking.memories.len());
    for (index, (id, score)) in ranking.memories.iter().enumerate() {
        let (labels, content) = (2 * index, 2 * index + 1);
        let (Some(found_labels), Some(found_content)) = (&found[labels], &found[content]) else {
            return begin_anew(op, &places);
        };
        let labels = decode::<MemoryLabels>(&places[labels], found_labels)?.value;
        let content = decode::<MemoryContent>(&places[content], found_content)?.value;
        memories.push((*id, *score, labels, content));
    }
    let subjects = memories.iter().map(|(id, _, labels, content)| Subject {
        id: *id,
        labels,
        content: Some(content),
    });
    let subjects: Vec<Subject<'_>> = subjects.collect();
    let monitor = op.monitor(&subjects).await?;
    let mut all = memories.iter();
    if !all.all(|(id, _, labels, _)| is_found(&monitor, names, *id, labels)) {
        return begin_anew(op, &places);
    }
    let read = memories.iter();
    let read = read.map(|(id, _, labels, _)| (*id, labels.clone()));
    op.audit_read_after(usize::from(is_recorded), read.collect());
    if is_recorded || op.transaction.has_changes() {
        for (key, entry) in places.iter().zip(&found).take(2 * memories.len()) {
            let version = entry.as_ref().map(|entry| entry.version);
            op.transaction.check(key.clone(), version);
        }
    }
    let results = memories.into_iter();
    let results = results
        .map(|(id, score, labels, content)| RecalledMemory::new(id, score, &labels, content));
    Ok(results.collect())
}

/// Makes the operation begin anew, because one of these records has changed since it was prefetched.
fn begin_anew<T>(op: &mut Authorized<'_>, records: &[Key]) -> Result<T, Error> {
    for key in records {
        if let Some(entry) = op.transaction.prefetched().get::<Entry>(key)? {
            op.transaction.check(key.clone(), Some(entry.version));
        }
    }
    Err(Error::Conflict)
}

/// Returns the retention of the workspace if the search registers what it finds: if neither the
/// search nor the retention says otherwise.
async fn recorded_by(
    op: &mut Authorized<'_>,
    search: &RecallSearch,
) -> Result<Option<RetentionState>, Error> {
    if !search.record {
        return Ok(None);
    }
    let (org, workspace) = (op.org(), op.workspace().id);
    let retention = RetentionState::read(&mut op.transaction, org, workspace).await?;
    Ok(Some(retention).filter(RetentionState::records_recalls))
}

/// Registers the recall that cites these memories, in a workspace with this retention.
async fn register(
    op: &mut Authorized<'_>,
    search: &RecallSearch,
    results: &[RecalledMemory],
    retention: Option<RetentionState>,
) -> Result<Option<RecallId>, Error> {
    let Some(retention) = retention.filter(|_| !results.is_empty()) else {
        return Ok(None);
    };
    op.reserve(Quota::Recalls, 1).await?;
    let query = search.query.clone().unwrap_or_default();
    let cited = results.iter().map(|memory| memory.memory_id).collect();
    Ok(Some(put_recall(op, retention, query, cited).id))
}
