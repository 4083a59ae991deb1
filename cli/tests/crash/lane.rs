//! The memories of one client, which knows their state, as it sends one request after another.

use std::collections::BTreeMap;

use knowledge_core::model::{AudienceLabel, MemoryId, ReviewStatus};
use serde_json::{Value, json};

/// Bounds of the number of memories in a request.
const MEMORIES_MIN: usize = 20;
const MEMORIES_MAX: usize = 50;

/// The labels that a client sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) audience: AudienceLabel,
    pub(crate) review: ReviewStatus,
}

/// Audience of the memories before the first update.
const INITIAL: &str = "workspace:empty";

/// A bulk update.
///
/// Its audience is unique, so that a memory with it was changed by this request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) key: String,
    pub(crate) memories: Vec<MemoryId>,
    pub(crate) labels: Labels,
}

impl Request {
    pub(crate) fn body(&self) -> Value {
        json!({
            "memoryIds": self.memories,
            "audienceTag": self.labels.audience,
            "reviewStatus": self.labels.review,
        })
    }
}

/// The memories of one client, in their expected state.
pub(crate) struct Lane {
    memories: Vec<MemoryId>,
    labels: BTreeMap<MemoryId, Labels>,
    rng: fastrand::Rng,
}

impl Lane {
    /// Creates the lane of freshly ingested memories.
    pub(crate) fn new(memories: &[MemoryId], rng: &mut fastrand::Rng) -> Self {
        let labels = Labels {
            audience: INITIAL.parse().expect("a label"),
            review: ReviewStatus::Pending,
        };
        Self {
            memories: memories.to_vec(),
            labels: memories.iter().map(|id| (*id, labels.clone())).collect(),
            rng: rng.fork(),
        }
    }

    /// Returns the next request to send.
    pub(crate) fn next(&mut self) -> Request {
        let name = format!("{:016x}", self.rng.u64(..));
        let wanted = match self.rng.bool() {
            true => ReviewStatus::Approved,
            false => ReviewStatus::Pending,
        };
        let count = self.rng.usize(MEMORIES_MIN..=MEMORIES_MAX);
        self.rng.shuffle(&mut self.memories);
        // Only what has not been given to a team can be approved.
        let mut chosen = self.memories[..count].iter();
        let review = if chosen.all(|id| self.labels[id].audience.to_string() == INITIAL) {
            wanted
        } else {
            ReviewStatus::Pending
        };
        Request {
            memories: self.memories[..count].to_vec(),
            labels: Labels {
                audience: format!("team:{name}").parse().expect("a label"),
                review,
            },
            key: name,
        }
    }

    /// Applies a request that the server has executed.
    pub(crate) fn apply(&mut self, request: &Request) {
        for id in &request.memories {
            self.labels.insert(*id, request.labels.clone());
        }
    }

    /// Returns the memories with their expected labels.
    pub(crate) fn labels(&self) -> &BTreeMap<MemoryId, Labels> {
        &self.labels
    }

    /// Returns the expected labels once the request has been executed.
    pub(crate) fn labels_after(&self, request: &Request) -> BTreeMap<MemoryId, Labels> {
        let mut labels = self.labels.clone();
        labels.extend(
            request
                .memories
                .iter()
                .map(|id| (*id, request.labels.clone())),
        );
        labels
    }
}
