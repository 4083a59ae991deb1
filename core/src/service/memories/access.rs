//! Checks of the access to memories that the caller found elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::error::Error;
use crate::keys;
use crate::limits::ACCESS_CHECK_CONTENT_BYTES_MAX;
use crate::model::{
    AccessCheck, AccessCheckResult, AccessLabels, MemoryAccess, MemoryContent, MemoryId,
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
    /// A memory that the caller may not know of looks like one that does not exist.
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
                let ids = check.memory_ids.iter();
                let keys: Vec<Key> = ids.map(|id| keys::memory(org, *id)).collect();
                let prefetch = Prefetch::keys(keys.iter().cloned()).and_range(slugs_read(org));
                let mut caller = caller.authenticate(prefetch).await?;
                if check.include_content {
                    let first = contents_of(org, &check.memory_ids);
                    caller.prefetch(Prefetch::keys(first)).await?;
                }
                let mut op = caller.authorize_per_resource().await?;
                // Checked, because contents may be read later than these labels.
                let entries = op.transaction.get_many::<Entry>(&keys).await?;
                let mut found = BTreeMap::new();
                for ((id, key), entry) in check.memory_ids.iter().zip(&keys).zip(&entries) {
                    if let Some(entry) = entry {
                        let labels = decode::<MemoryLabels>(key, entry)?.value;
                        found.insert(*id, labels);
                    }
                }
                let items = visible(&mut op, &found).await?;
                let items = check.memory_ids.iter().map(|id| {
                    let item = items.get(id).cloned();
                    item.unwrap_or(MemoryAccess::none(*id))
                });
                let mut results: Vec<MemoryAccess> = items.collect();
                if check.include_content {
                    add_contents(&mut op, &mut results).await?;
                    let shown = results.iter().filter(|item| item.content.is_some());
                    let shown: BTreeSet<MemoryId> = shown.map(|item| item.memory_id).collect();
                    found.retain(|id, _| shown.contains(id));
                    op.audit_read(found.into_iter().collect());
                }
                op.done(AccessCheckResult { results })
            })
            .await
    }
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
