//! What one client does to memories of its own, one request after the other: so that it knows what is in each.

use std::collections::BTreeMap;

use knowledge_core::model::{AudienceLabel, MemoryId, ReviewStatus};
use serde_json::{Value, json};

/// How many memories a request names, at least and at most.
const MEMORIES_MIN: usize = 20;
const MEMORIES_MAX: usize = 50;

/// What a client sets of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) audience: AudienceLabel,
    pub(crate) review: ReviewStatus,
}

/// One bulk update. No other sets the same audience: what has it was changed by this one.
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

/// The memories of one client, as they have to be.
pub(crate) struct Lane {
    memories: Vec<MemoryId>,
    labels: BTreeMap<MemoryId, Labels>,
    rng: fastrand::Rng,
}

impl Lane {
    /// Memories as they were ingested.
    pub(crate) fn new(memories: &[MemoryId], rng: &mut fastrand::Rng) -> Self {
        let labels = Labels {
            audience: "workspace:empty".parse().expect("a label"),
            review: ReviewStatus::Pending,
        };
        Self {
            memories: memories.to_vec(),
            labels: memories.iter().map(|id| (*id, labels.clone())).collect(),
            rng: rng.fork(),
        }
    }

    /// A request that has not been sent.
    pub(crate) fn next(&mut self) -> Request {
        let name = format!("{:016x}", self.rng.u64(..));
        let review = match self.rng.bool() {
            true => ReviewStatus::Approved,
            false => ReviewStatus::Pending,
        };
        let count = self.rng.usize(MEMORIES_MIN..=MEMORIES_MAX);
        self.rng.shuffle(&mut self.memories);
        Request {
            memories: self.memories[..count].to_vec(),
            labels: Labels {
                audience: format!("team:{name}").parse().expect("a label"),
                review,
            },
            key: name,
        }
    }

    /// The request has changed the memories.
    pub(crate) fn apply(&mut self, request: &Request) {
        for id in &request.memories {
            self.labels.insert(*id, request.labels.clone());
        }
    }

    /// The memories and what each has to have.
    pub(crate) fn labels(&self) -> &BTreeMap<MemoryId, Labels> {
        &self.labels
    }

    /// The same, once the request has changed them.
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
