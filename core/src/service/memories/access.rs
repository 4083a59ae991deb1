//! Checks of the access to memories that the caller found elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::error::Error;
use crate::keys;
use crate::limits::ACCESS_CHECK_CONTENT_BYTES_MAX;
use crate::model::{
    AccessCheck, AccessCheckResult, AccessLabels, MemoryAccess, MemoryContent, MemoryId, MemoryKey,
    MemoryLabels, OrgId,
};
use crate::operation::Operation;
use crate::service::access::monitor::{Subject, Visibility, slugs_read};
use crate::service::operation::{Authorized, Prefetch};
use crate::service::{Caller, Memories};
use crate::store::{Entry, Key, decode};

/// Number of memories whose contents are read at once.
const CONTENTS_PER_READ: usize = 100;

/// # Access checks
impl Memories<'_> {
    /// Tells which memories the caller may read, by the rules of [`Self::list`].
    ///
    /// It is for callers that search an index of their own: only what is readable here may be shown.
    /// A memory that the caller may not know of looks like one that does not exist. By its key at a
    /// source, a memory is found only if it is readable, because a key is part of the content.
    ///
    /// # Errors
    /// Those of [`Operation::CheckMemoryAccess`]; [`Error::InvalidRequest`] for no memory or too
    /// many.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::model::AccessCheck;
    ///
    /// // The results of a search in an index of the application; one memory is restricted.
    /// let check = AccessCheck::builder().memory_ids(memories).include_content(true).build();
    /// let found = service.memories().check_access(&viewer, &check).await?.results;
    /// assert_eq!([found[0].readable, found[1].readable], [true, false]);
    /// assert!(found[0].content.is_some() && found[1].content.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_access(
        self,
        caller: &Caller,
        check: &AccessCheck,
    ) -> Result<AccessCheckResult, Error> {
        self.service.checks().check(check)?;
        self.service
            .perform(Operation::CheckMemoryAccess, caller, |caller| async move {
                let org = caller.org();
                let by_key = keys_at_sources(org, &check.source_keys);
                let ids = check.memory_ids.iter();
                let labels: Vec<Key> = ids.map(|id| keys::memory(org, *id)).collect();
                let prefetch = Prefetch::keys(labels)
                    .and_keys(by_key.iter().cloned())
                    .and_range(slugs_read(org));
                let mut caller = caller.authenticate(prefetch).await?;
                let mut keyed: Vec<MemoryId> = Vec::new();
                for key in &by_key {
                    keyed.extend(caller.prefetched::<MemoryId>(key)?);
                }
                let mut more: Vec<Key> = keyed.iter().map(|id| keys::memory(org, *id)).collect();
                if check.include_content {
                    let all: Vec<MemoryId> =
                        check.memory_ids.iter().chain(&keyed).copied().collect();
                    more.extend(contents_of(org, &all));
                }
                if !more.is_empty() {
                    caller.prefetch(Prefetch::keys(more)).await?;
                }
                let mut op = caller.authorize_per_resource().await?;
                let keyed = if by_key.is_empty() {
                    Vec::new()
                } else {
                    op.transaction.get_many::<MemoryId>(&by_key).await?
                };
                let result = answer(&mut op, check, &keyed).await?;
                op.done(result)
            })
            .await
    }
}

/// Returns the result of a check, whose source keys lead to these memories.
async fn answer(
    op: &mut Authorized<'_>,
    check: &AccessCheck,
    keyed: &[Option<MemoryId>],
) -> Result<AccessCheckResult, Error> {
    let asked = check.memory_ids.iter().chain(keyed.iter().flatten());
    let asked: Vec<MemoryId> = asked.copied().collect();
    let mut found = labels_of(op, &asked).await?;
    let items = visible(op, &found).await?;
    let of_id = |id: &MemoryId| {
        let item = items.get(id).cloned();
        item.unwrap_or(MemoryAccess::none(*id))
    };
    let of_key = |id: &Option<MemoryId>| {
        let item = items.get(id.as_ref()?)?;
        item.readable.then(|| item.clone())
    };
    let of_keys: Vec<Option<MemoryAccess>> = keyed.iter().map(of_key).collect();
    // Those of the keys follow, so that all share the limit of the texts.
    let mut results: Vec<MemoryAccess> = check.memory_ids.iter().map(of_id).collect();
    let count = results.len();
    results.extend(of_keys.iter().flatten().cloned());
    if check.include_content {
        add_contents(op, &mut results).await?;
        let shown = results.iter().filter(|item| item.content.is_some());
        let shown: BTreeSet<MemoryId> = shown.map(|item| item.memory_id).collect();
        found.retain(|id, _| shown.contains(id));
        op.audit_read(found.into_iter().collect());
    }
    let mut readable = results.split_off(count).into_iter();
    let source_key_results = of_keys
        .into_iter()
        .map(|item| item.and_then(|_| readable.next()))
        .collect();
    Ok(AccessCheckResult {
        results,
        source_key_results,
    })
}

/// Returns the keys under which memories are stored by their keys at their sources.
fn keys_at_sources(org: OrgId, wanted: &[MemoryKey]) -> Vec<Key> {
    let place = |wanted: &MemoryKey| {
        let (workspace, source) = (wanted.workspace_id, wanted.source_id);
        keys::source_key(org, workspace, source, &wanted.source_key)
    };
    wanted.iter().map(place).collect()
}

/// Returns the labels of those of these memories that are stored.
///
/// They are checked, because contents may be read later than these labels.
async fn labels_of(
    op: &mut Authorized<'_>,
    memories: &[MemoryId],
) -> Result<BTreeMap<MemoryId, MemoryLabels>, Error> {
    let mut found = BTreeMap::new();
    if memories.is_empty() {
        return Ok(found);
    }
    let org = op.org();
    let labels: Vec<Key> = memories.iter().map(|id| keys::memory(org, *id)).collect();
    let entries = op.transaction.get_many::<Entry>(&labels).await?;
    for ((id, key), entry) in memories.iter().zip(&labels).zip(&entries) {
        if let Some(entry) = entry {
            let labels = decode::<MemoryLabels>(key, entry)?.value;
            found.insert(*id, labels);
        }
    }
    Ok(found)
}

/// Returns the keys of the contents that are read first.
fn contents_of(org: OrgId, memories: &[MemoryId]) -> Vec<Key> {
    let first = memories.iter().take(CONTENTS_PER_READ);
    first.map(|id| keys::content(org, *id)).collect()
}

/// Returns the items of the memories that the caller may know of, without their contents.
async fn visible(
    op: &mut Authorized<'_>,
    found: &BTreeMap<MemoryId, MemoryLabels>,
) -> Result<HashMap<MemoryId, MemoryAccess>, Error> {
    let subjects = found.iter().map(|(id, labels)| Subject::new(*id, labels));
    let subjects: Vec<Subject<'_>> = subjects.collect();
    let monitor = op.monitor(&subjects).await?;
    let item = |(id, labels): (&MemoryId, &MemoryLabels)| {
        let visibility = monitor.visibility(*id, labels)?;
        let item = MemoryAccess {
            readable: visibility == Visibility::Everything,
            labels: Some(AccessLabels::from(labels)),
            ..MemoryAccess::none(*id)
        };
        Some((*id, item))
    };
    Ok(found.iter().filter_map(item).collect())
}

/// Adds the contents of the readable memories, in the order of the request, until they are too
/// large. One that occurs more than once counts each time.
async fn add_contents(op: &mut Authorized<'_>, results: &mut [MemoryAccess]) -> Result<(), Error> {
    let org = op.org();
    let mut bytes_left = ACCESS_CHECK_CONTENT_BYTES_MAX;
    for batch in results.chunks_mut(CONTENTS_PER_READ) {
        let readable: Vec<_> = batch.iter_mut().filter(|item| item.readable).collect();
        let keys = readable.iter();
        let keys: Vec<Key> = keys
            .map(|item| keys::content(org, item.memory_id))
            .collect();
        let entries = if bytes_left > 0 && !keys.is_empty() {
            op.transaction.unchecked().get_many::<Entry>(&keys).await?
        } else {
            vec![None; keys.len()]
        };
        for ((item, key), entry) in readable.into_iter().zip(&keys).zip(&entries) {
            let content = entry
                .as_ref()
                .map(|entry| decode::<MemoryContent>(key, entry));
            let content = content.transpose()?.map(|found| found.value);
            match content.filter(|found| found.content.len() <= bytes_left) {
                Some(found) => {
                    bytes_left -= found.content.len();
                    item.title = Some(found.title);
                    item.content = Some(found.content);
                }
                None => {
                    bytes_left = 0;
                    item.content_omitted = true;
                }
            }
        }
    }
    Ok(())
}
