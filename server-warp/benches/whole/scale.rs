//! Sizes of a run.

use std::ops::Range;
use std::time::Duration;

use crate::load::Until;

/// Number of different updates that the reference commits.
pub(crate) const UPDATES: usize = 256;

/// Sizes of a run.
pub(crate) struct Scale {
    /// Memories of the store at the beginning.
    pub(crate) memories: usize,
    /// Memories of a large bulk update.
    pub(crate) bulk: usize,
    /// Memories from which concurrent clients choose those of their bulk updates.
    pub(crate) contended: usize,
    pub(crate) rounds: usize,
    /// Time of a round of small requests.
    pub(crate) small: Until,
    /// Commits of a round of the reference of small updates.
    pub(crate) commits: usize,
    /// Calls of a round of large updates.
    pub(crate) large: usize,
    /// Calls of each client in a round of contended updates.
    pub(crate) contended_calls: usize,
    /// Batches of a round of ingestion.
    pub(crate) batches: usize,
}

pub(crate) const SHORT: Scale = Scale {
    memories: 1_200,
    bulk: 100,
    contended: 200,
    rounds: 1,
    small: Until::Count(200),
    commits: 200,
    large: 4,
    contended_calls: 4,
    batches: 4,
};
pub(crate) const FULL: Scale = Scale {
    memories: 50_000,
    bulk: 1_000,
    contended: 2_000,
    rounds: 5,
    small: Until::Elapsed(Duration::from_secs(2)),
    commits: 20_000,
    large: 40,
    contended_calls: 40,
    batches: 40,
};

impl Scale {
    /// Returns the memories that small updates change, by their index.
    pub(crate) fn updated(&self) -> Range<usize> {
        self.bulk + self.contended..self.memories
    }
}
