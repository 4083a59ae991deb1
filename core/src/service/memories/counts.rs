//! Numbers of memories in the whole store, from counters.

use crate::error::Error;
use crate::keys;
use crate::service::KnowledgeService;
use crate::store::{KeyRange, StoreExt, decode_value};

/// Numbers of memories of all organisations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Number of memories.
    pub memories: u64,
    /// Number of memories that await review.
    pub pending: u64,
}

impl KnowledgeService {
    /// Returns the numbers of memories of all organisations, for metrics.
    ///
    /// It reads two counters of each workspace and no memory.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn memory_counts(&self) -> Result<MemoryCounts, Error> {
        Ok(MemoryCounts {
            memories: self.sum_counters(&keys::memory_counts()).await?,
            pending: self.sum_counters(&keys::pending_counts()).await?,
        })
    }

    /// Returns the sum of the counters in a range.
    pub(in crate::service) async fn sum_counters(&self, counters: &KeyRange) -> Result<u64, Error> {
        let mut sum = 0_i64;
        for counter in self.store().scan_all(counters).await? {
            sum += decode_value::<i64>(&counter)?;
        }
        Ok(u64::try_from(sum).unwrap_or(0))
    }
}
