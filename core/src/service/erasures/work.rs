//! Stored form of erasures: the receipt, with the progress while it is running.

use serde::{Deserialize, Serialize};

use crate::keys;
use crate::model::{
    ChatId, CredentialId, Erasure, ErasureStatus, MemoryId, Organization, RecallId,
};
use crate::store::{KeyEntry, Transaction};

/// Records that an erasure examines, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    Memories,
    Recalls,
    Chats,
}

/// Progress of an erasure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErasureWork {
    /// Credential of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) credential: Option<CredentialId>,
    /// Removed memories; the recalls that cite them are to be examined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::service) memories: Vec<MemoryId>,
    /// Last of these recalls that was examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recall: Option<RecallId>,
    /// Records that are examined next; none of a list of memories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::service) phase: Option<Phase>,
    /// Removed chat with messages that are to be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chat: Option<ChatId>,
    /// Last record that was examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
}

/// Erasure as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredErasure {
    pub(crate) receipt: Erasure,
    /// Progress; `None` if it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<ErasureWork>,
}

/// Adds a running erasure to the record of its organisation, or removes a completed one.
pub(super) fn mark(transaction: &mut Transaction, mut org: Organization, receipt: &Erasure) {
    let known = match receipt.status {
        ErasureStatus::Running => org
            .erasing
            .insert(receipt.id, receipt.scope.clone())
            .is_some(),
        ErasureStatus::Completed => org.erasing.remove(&receipt.id).is_none(),
    };
    if !known {
        transaction.put(keys::org(org.id), &org);
    }
}

impl ErasureWork {
    /// Returns the progress of a new beginning; the recalls of removed memories remain to be
    /// examined.
    pub(crate) fn restarted(self) -> Self {
        Self {
            phase: Some(Phase::Memories),
            after: None,
            ..self
        }
    }

    /// Leaves out what is left of a phase, which is the last one.
    pub(in crate::service) fn end_phase(&mut self) {
        (self.phase, self.after) = (None, None);
    }

    /// Returns true if nothing is left to be done.
    pub(in crate::service) fn is_complete(&self) -> bool {
        self.memories.is_empty() && self.phase.is_none()
    }

    /// Moves the progress back to before a record of a page, for which the commit has no room.
    pub(in crate::service) fn resume_before(
        &mut self,
        page: &[KeyEntry],
        found: &KeyEntry,
        phase: Phase,
    ) {
        let done = page.iter().take_while(|entry| entry.key != found.key);
        if let Some(last) = done.last() {
            self.resume_after(last, phase);
        }
    }

    /// Moves the progress back to after a record.
    pub(super) fn resume_after(&mut self, found: &KeyEntry, phase: Phase) {
        self.after = Some(found.key.to_string());
        self.phase = Some(phase);
    }
}
