//! The dispatcher is woken by what is committed: a store that notices.

use std::sync::Arc;

use async_trait::async_trait;
use knowledge_core::internals::keys;
use knowledge_core::store::{Commit, CommitOutcome, Found, KeyRange, Mutation, Read, Store, StoreError};
use tokio::sync::Notify;

/// Wakes the dispatcher of one server when something was committed that it has to do with.
///
/// Without it the dispatcher finds the same by looking, at most [a poll interval](super::Deliveries::poll_every) later.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    /// A signal that nobody has given yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The store, whose commits of events and of turns of endpoints give the signal from here on.
    #[must_use]
    pub fn watch_store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(WatchedStore {
            store,
            wake: self.clone(),
            watched: [keys::outbox_events(), keys::endpoints_due()],
        })
    }

    fn wake(&self) {
        self.0.notify_one();
    }

    /// Waits for the signal; at once where it was given since the last time.
    pub(super) async fn woken(&self) {
        self.0.notified().await;
    }
}

/// A store that wakes somebody.
struct WatchedStore {
    store: Arc<dyn Store>,
    wake: Wake,
    watched: [KeyRange; 2],
}

impl WatchedStore {
    /// Whether the commit puts something there that is to be done.
    fn concerns(&self, commit: &Commit) -> bool {
        commit.mutations().iter().any(|mutation| match mutation {
            Mutation::Put { key, .. } => self.watched.iter().any(|range| range.contains(key)),
            Mutation::Delete { .. } | Mutation::Add { .. } => false,
        })
    }
}

#[async_trait]
impl Store for WatchedStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let concerns = self.concerns(&commit);
        let result = self.store.commit(commit).await;
        // A commit whose answer was lost may have been applied.
        if concerns && !matches!(result, Ok(CommitOutcome::Conflict)) {
            self.wake.wake();
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use knowledge_core::model::{EndpointId, EventId, OrgId, Timestamp};
    use knowledge_core::store::{Key, MemoryStore};
    use uuid::Uuid;

    use super::*;

    fn outbox() -> Key {
        keys::outbox(EventId(Uuid::from_u128(1)))
    }

    fn turn() -> Key {
        let (org, endpoint) = (Uuid::from_u128(2), Uuid::from_u128(3));
        keys::endpoint_due(Timestamp::UNIX_EPOCH, OrgId(org), EndpointId(endpoint))
    }

    /// Whether the commit gives the signal.
    async fn wakes(store: &Arc<dyn Store>, wake: &Wake, commit: Commit) -> bool {
        store.commit(commit).await.unwrap();
        let signal = tokio::time::timeout(Duration::ZERO, wake.woken());
        signal.await.is_ok()
    }

    #[tokio::test]
    async fn events_and_turns_that_are_put_give_the_signal() {
        let wake = Wake::new();
        let store = wake.watch_store(Arc::new(MemoryStore::new()));
        let puts = |key: Key| Commit::builder().put(key, "1").build().unwrap();
        assert!(wakes(&store, &wake, puts(outbox())).await);
        assert!(wakes(&store, &wake, puts(turn())).await);
        let other = puts(keys::undelivered_count(OrgId(Uuid::from_u128(2))));
        assert!(!wakes(&store, &wake, other).await);
        for key in [outbox(), turn()] {
            let takes = Commit::builder().delete(key).build().unwrap();
            assert!(!wakes(&store, &wake, takes).await);
        }
    }

    #[tokio::test]
    async fn what_was_not_committed_gives_no_signal() {
        let wake = Wake::new();
        let store = wake.watch_store(Arc::new(MemoryStore::new()));
        let first = Commit::builder().check(outbox(), None).put(outbox(), "1");
        assert!(wakes(&store, &wake, first.clone().build().unwrap()).await);
        // The check does not hold any more.
        assert!(!wakes(&store, &wake, first.build().unwrap()).await);
    }

    #[tokio::test]
    async fn a_signal_that_nobody_waits_for_is_kept_once() {
        let wake = Wake::new();
        wake.wake();
        wake.wake();
        wake.woken().await;
        let again = tokio::time::timeout(Duration::ZERO, wake.woken());
        assert!(again.await.is_err());
    }
}
