//! Metrics of the memories, as of the last scrape.

use std::sync::{Arc, Mutex, PoisonError};

use knowledge_core::service::{KnowledgeService, MemoryCounts};
use prometheus::Registry;

use super::catalogue::{MEMORIES, REVIEW_BACKLOG, register};
use super::scrape::{ScrapeCollector, read_store};

/// Numbers of memories of one service.
#[derive(Clone, Debug, Default)]
pub struct MemoryMetrics {
    counts: Arc<Mutex<Option<MemoryCounts>>>,
}

impl MemoryMetrics {
    pub(super) fn register(&self, registry: &Registry) {
        let counts = Arc::clone(&self.counts);
        let collector = ScrapeCollector::new(&[MEMORIES, REVIEW_BACKLOG], move |samples| {
            let read = *counts.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(MemoryCounts { memories, pending }) = read {
                samples.integer(&MEMORIES, memories);
                samples.integer(&REVIEW_BACKLOG, pending);
            }
        });
        register(registry, vec![Box::new(collector)]);
    }

    /// Reads the numbers for the next rendering. On failure they are omitted.
    pub async fn read(&self, service: &KnowledgeService) {
        let read = read_store("memories", service.memory_counts()).await;
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = read;
    }
}
