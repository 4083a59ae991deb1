//! Progress through the due tasks between two calls.

use std::sync::{Mutex, PoisonError};

use crate::model::OrgId;
use crate::store::Key;

/// Progress of this process through the due tasks.
#[derive(Debug, Default)]
pub(in crate::service) struct TaskTurns(Mutex<Progress>);

#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Last task that the previous call looked at, unless it reached the end.
    pub(super) after: Option<Key>,
    /// Organisation that was served last; `None` also for tasks of none.
    pub(super) served: Option<OrgId>,
    /// True if a call has completed a task since one began with the oldest.
    pub(super) has_completed: bool,
}

impl TaskTurns {
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self) -> Progress {
        self.lock().clone()
    }

    pub(super) fn set_served(&self, org: Option<OrgId>) {
        self.lock().served = org;
    }
}
