//! Visibility of memories to a caller.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::access::{Action, ActionSet};
use crate::error::Error;
use crate::keys;
use crate::model::{AudienceScope, MemoryLabels, Workspace, WorkspaceId};
use crate::service::kit::principal::{Denial, Principal};
use crate::store::{Key, Store, StoreError, StoreExt};

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
pub(crate) struct MemoryReader<'v> {
    caller: &'v Principal,
    /// Actions of the caller in the workspace.
    held: ActionSet,
    /// Workspaces that the audience labels of the memories name.
    named: Vec<Workspace>,
}

impl<'v> MemoryReader<'v> {
    /// Creates a reader for memories with these labels.
    ///
    /// The workspaces that their audience labels name are looked up. The time of the look-up does
    /// not matter, because the slug of a workspace never changes.
    pub(crate) async fn of<'l>(
        store: &Arc<dyn Store>,
        caller: &'v Principal,
        held: ActionSet,
        labels: impl Iterator<Item = &'l MemoryLabels>,
    ) -> Result<Self, StoreError> {
        let named = labels.filter(|labels| labels.audience.scope() == AudienceScope::Workspace);
        let named: BTreeSet<&str> = named.map(|labels| labels.audience.name()).collect();
        let org = caller.org_id();
        let slugs: Vec<Key> = named
            .into_iter()
            .map(|name| keys::workspace_slug(org, name))
            .collect();
        let mut named = Vec::new();
        if !slugs.is_empty() {
            let ids = store.get_many_as::<WorkspaceId>(&slugs).await?;
            let found = ids.into_iter().flatten();
            let found: Vec<Key> = found.map(|id| keys::workspace(org, id.value)).collect();
            let found = store.get_many_as::<Workspace>(&found).await?;
            named.extend(found.into_iter().flatten().map(|found| found.value));
        }
        Ok(Self {
            caller,
            held,
            named,
        })
    }

    /// Returns true if the audience of a memory covers the caller.
    fn is_covered_by(&self, labels: &MemoryLabels) -> bool {
        self.caller.is_covered_by(&labels.audience, &self.named)
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
