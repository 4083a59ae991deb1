//! Sizes of a run.

use std::ops::Range;
use std::time::Duration;

use crate::load::Until;
use crate::spec::Engine;

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
    /// Connections of an overload, and clients that hang.
    pub(crate) clients: usize,
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
    clients: 50,
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
    clients: 2_000,
    batches: 40,
};

impl Scale {
    /// Returns the memories that small updates change, by their index.
    pub(crate) fn updated(&self) -> Range<usize> {
        self.bulk + self.contended..self.memories
    }
}

/// Sizes of the rows about size.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Memories of the reference, and holders of its role.
    pub(crate) few: usize,
    /// Memories of the largest store.
    pub(crate) memories: usize,
    /// Holders of the role with most of them.
    pub(crate) holders: usize,
    /// Memories of an imported file.
    pub(crate) imported: usize,
    pub(crate) rounds: usize,
    /// End of a round of dashboard summaries.
    pub(crate) small: Until,
    /// Dashboard summaries after which memory is measured.
    pub(crate) summaries: usize,
    /// Deletions of roles of each size.
    pub(crate) deletions: usize,
}

pub(crate) const SHORT_SIZE: Size = Size {
    few: 10,
    memories: 1_000,
    holders: 100,
    imported: 200,
    rounds: 1,
    small: Until::Count(20),
    summaries: 20,
    deletions: 2,
};
pub(crate) const FULL_SIZE: Size = Size {
    few: 1_000,
    memories: 10_000_000,
    holders: 1_000_000,
    imported: 100_000,
    rounds: 5,
    small: Until::Elapsed(Duration::from_secs(2)),
    summaries: 1_000,
    deletions: 20,
};

impl Size {
    /// Limits the number of memories, and the others to their parts of it.
    pub(crate) fn limit(self, memories: usize) -> Self {
        Self {
            memories,
            holders: self.holders.min(memories / 10),
            imported: self.imported.min(memories),
            ..self
        }
    }

    /// Returns the sizes for an engine: sled takes ten times the disk of fjall for a memory.
    pub(crate) fn of(self, engine: Engine) -> Self {
        match engine {
            Engine::Sled => self.limit(self.memories / 10),
            Engine::Fjall => self,
        }
    }
}
