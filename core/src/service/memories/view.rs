//! Visibility of memories to a caller.

use crate::access::{Action, ActionSet};
use crate::error::Error;
use crate::keys;
use crate::model::{AudienceScope, MemoryLabels, OrgId, WorkspaceId};
use crate::service::kit::act::Act;
use crate::service::kit::principal::{Denial, Principal};
use crate::store::{Key, RangeRead, decode};

/// Part of a memory that a caller may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Visibility {
    /// Nothing: the memory appears not to exist.
    Nothing,
    /// Labels without the content.
    Labels,
    /// Labels and content.
    Everything,
}

/// A caller that reads memories of one workspace.
pub(crate) struct MemoryReader {
    caller: Principal,
    /// Actions of the caller in the workspace.
    held: ActionSet,
    /// Workspaces that the audience labels of the memories name, in the order of their slugs.
    named: Vec<(String, WorkspaceId)>,
}

/// Returns the workspaces that the audience labels of these memories name: their slugs, in order,
/// and keys.
pub(crate) fn named_workspaces<'l>(
    org: OrgId,
    labels: impl IntoIterator<Item = &'l MemoryLabels>,
) -> Vec<(String, Key)> {
    let audiences = labels.into_iter().map(|labels| &labels.audience);
    let named = audiences.filter(|audience| audience.scope() == AudienceScope::Workspace);
    let mut slugs: Vec<&str> = named.map(|audience| audience.name()).collect();
    slugs.sort_unstable();
    slugs.dedup();
    let keys = slugs
        .into_iter()
        .map(|slug| (slug.to_owned(), keys::workspace_slug(org, slug)));
    keys.collect()
}

/// Number of workspaces of an organisation whose slugs a list reads ahead.
const SLUGS_AHEAD: usize = 64;

/// Returns the read of the slugs of an organisation's workspaces.
pub(crate) fn slugs_read(org: OrgId) -> RangeRead {
    RangeRead::first(keys::workspace_slugs(org), SLUGS_AHEAD)
}

impl Act<'_> {
    /// Returns the caller as a reader of memories with these labels.
    ///
    /// The workspaces that their audience labels name are looked up. The time of the look-up does
    /// not matter, because the slug of a workspace never changes.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn reader<'l>(
        &mut self,
        labels: impl IntoIterator<Item = &'l MemoryLabels>,
    ) -> impl Future<Output = Result<MemoryReader, Error>> {
        let named = named_workspaces(self.org(), labels);
        self.reader_with(named)
    }

    async fn reader_with(&mut self, slugs: Vec<(String, Key)>) -> Result<MemoryReader, Error> {
        let transaction = &mut self.transaction;
        let keys: Vec<Key> = slugs.iter().map(|(_, key)| key.clone()).collect();
        let found = if keys.is_empty() {
            Vec::new()
        } else {
            transaction.entries_unchecked(&keys).await?
        };
        let mut named = Vec::with_capacity(slugs.len());
        for ((slug, key), entry) in slugs.into_iter().zip(&found) {
            if let Some(entry) = entry {
                named.push((slug, decode::<WorkspaceId>(&key, entry)?.value));
            }
        }
        Ok(MemoryReader {
            caller: self.caller.clone(),
            held: self.held,
            named,
        })
    }
}

impl MemoryReader {
    /// Returns true if the audience of a memory covers the caller.
    fn is_covered_by(&self, labels: &MemoryLabels) -> bool {
        let named = |slug: &str| {
            let found = self.named.binary_search_by_key(&slug, |(known, _)| known);
            found.ok().map(|index| self.named[index].1)
        };
        self.caller.is_covered_by(&labels.audience, named)
    }

    /// Returns the part of a memory with these labels that the caller may see.
    ///
    /// Relabelling is governance, not reading: a caller that may relabel sees the labels of every
    /// memory.
    pub(crate) fn visibility(&self, labels: &MemoryLabels) -> Visibility {
        let knows = self.held.contains(Action::MemoryRead) && self.is_covered_by(labels);
        if knows && Principal::missing_for_reading(labels, self.held).is_none() {
            Visibility::Everything
        } else if knows || self.held.contains(Action::MemoryUpdate) {
            Visibility::Labels
        } else {
            Visibility::Nothing
        }
    }

    /// Returns the error for a caller that lacks an action on a memory.
    ///
    /// A memory that the caller may not know of appears not to exist.
    pub(crate) fn denial(&self, labels: &MemoryLabels, missing: Action) -> Error {
        if self.visibility(labels) == Visibility::Nothing && !self.is_covered_by(labels) {
            Error::NotFound { what: "memory" }
        } else {
            Denial::MissingPermission(missing).into()
        }
    }
}
