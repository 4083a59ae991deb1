//! Private items for the tests of this crate, of its front ends and of `knowledge-testing`. No stability is promised.

use serde::Deserialize;

/// The key layout.
pub mod keys {
    pub use crate::keys::*;
}

/// Returns the memories of an audit page, each with true if it has labels before.
///
/// A page about another resource has none.
#[must_use]
pub fn audited_memories(page: &serde_json::Value) -> Vec<(crate::model::MemoryId, bool)> {
    use crate::service::audit::pages::{AuditPage, PageBody};

    match AuditPage::deserialize(page).map(|page| page.body) {
        Ok(PageBody::Memories(memories)) => {
            let entries = memories.entries.iter();
            let entries = entries.map(|entry| (entry.memory_id, entry.before.is_some()));
            entries.collect()
        }
        _ => Vec::new(),
    }
}
