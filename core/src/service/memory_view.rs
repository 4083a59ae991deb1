//! Who may know of a memory, and who may read what it says.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::access::{Action, ActionSet, Denial, Principal};
use crate::error::Error;
use crate::model::{AudienceScope, MemoryLabels, Workspace, WorkspaceId};
use crate::keys;
use crate::store::{Key, Store, StoreError, StoreExt};

/// How much of a memory somebody sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sight {
    /// Nothing: it is as if it did not exist.
    Nothing,
    /// Its labels, and not what it says.
    Labels,
    /// All of it.
    Everything,
}

/// Somebody who looks at memories of a workspace.
pub(super) struct Viewer<'v> {
    caller: &'v Principal,
    /// What the caller may do in the workspace.
    held: ActionSet,
    /// The workspaces that the audience labels of the memories name.
    named: Vec<Workspace>,
}

impl<'v> Viewer<'v> {
    /// The caller before memories with these labels. The workspaces that they name are looked up; a workspace keeps
    /// its name, so that nothing depends on when.
    pub(super) async fn of<'l>(
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

    /// Whether the audience of a memory covers the caller.
    fn is_covered_by(&self, labels: &MemoryLabels) -> bool {
        self.caller.is_covered_by(&labels.audience, &self.named)
    }

    /// How much the caller sees of a memory with these labels.
    ///
    /// Relabelling is governance, not reading: who may relabel sees the labels of every memory.
    pub(super) fn sight(&self, labels: &MemoryLabels) -> Sight {
        let knows = self.held.contains(Action::MemoryRead) && self.is_covered_by(labels);
        if knows && Principal::reading_needs(labels, self.held).is_none() {
            Sight::Everything
        } else if knows || self.held.contains(Action::MemoryUpdate) {
            Sight::Labels
        } else {
            Sight::Nothing
        }
    }

    /// The refusal of somebody who lacks an action on a memory: what they may not know of is not there.
    pub(super) fn refusal(&self, labels: &MemoryLabels, missing: Action) -> Error {
        if self.sight(labels) == Sight::Nothing && !self.is_covered_by(labels) {
            Error::NotFound { what: "memory" }
        } else {
            Denial::Lacks(missing).into()
        }
    }
}
