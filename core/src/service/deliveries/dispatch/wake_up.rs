//! Notification of the dispatcher about commits that give it work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::StreamExt;
use futures::channel::mpsc;

use crate::keys;
use crate::store::{
    Commit, CommitOutcome, Found, KeyRange, Mark, Mutation, Read, Store, StoreError, StoreErrorKind,
};

/// Signal that is kept, once, until a waiter takes it.
pub(crate) struct Signal {
    sender: Mutex<mpsc::Sender<()>>,
    receiver: futures::lock::Mutex<mpsc::Receiver<()>>,
    /// Number of commits that added to the outbox.
    outbox_additions: AtomicU64,
}

impl Signal {
    pub(crate) fn new() -> Arc<Self> {
        // The only sender has one place of its own, which holds the signal.
        let (sender, receiver) = mpsc::channel(0);
        Arc::new(Self {
            sender: Mutex::new(sender),
            receiver: futures::lock::Mutex::new(receiver),
            outbox_additions: AtomicU64::new(0),
        })
    }

    fn give(&self) {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        // A full channel holds the signal already.
        let _ = sender.try_send(());
    }

    pub(super) async fn wait(&self) {
        self.receiver.lock().await.next().await;
    }

    /// Returns the number of commits that added to the outbox.
    pub(super) fn outbox_additions(&self) -> u64 {
        self.outbox_additions.load(Ordering::SeqCst)
    }
}

/// Store that gives the signal when a commit adds to the outbox or to the ready queue.
pub(crate) struct NotifyingStore {
    store: Arc<dyn Store>,
    signal: Arc<Signal>,
    outbox: KeyRange,
    ready: KeyRange,
}

impl NotifyingStore {
    pub(crate) fn new(store: Arc<dyn Store>, signal: Arc<Signal>) -> Self {
        Self {
            store,
            signal,
            outbox: keys::outbox_events(),
            ready: keys::endpoints_due(),
        }
    }
}

fn adds_to(range: &KeyRange, commit: &Commit) -> bool {
    commit.mutations().iter().any(|mutation| match mutation {
        Mutation::Put { key, .. } => range.contains(key),
        Mutation::Delete { .. } | Mutation::Add { .. } => false,
    })
}

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl Store for NotifyingStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let adds_events = adds_to(&self.outbox, &commit);
        let adds_work = adds_events || adds_to(&self.ready, &commit);
        let result = self.store.commit(commit).await;
        let may_be_applied = match &result {
            Ok(outcome) => matches!(outcome, CommitOutcome::Committed(_)),
            Err(error) => error.kind() == StoreErrorKind::Unknown,
        };
        if adds_work && may_be_applied {
            let additions = u64::from(adds_events);
            let counter = &self.signal.outbox_additions;
            counter.fetch_add(additions, Ordering::SeqCst);
            self.signal.give();
        }
        result
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.store.mark(area)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use uuid::Uuid;

    use super::*;
    use crate::model::{EndpointId, EventId, OrgId, Timestamp};
    use crate::store::{Key, MemoryStore};

    fn outbox() -> Key {
        keys::outbox(EventId(Uuid::from_u128(1)))
    }

    fn ready_entry() -> Key {
        let (org, endpoint) = (Uuid::from_u128(2), Uuid::from_u128(3));
        keys::endpoint_due(Timestamp::UNIX_EPOCH, OrgId(org), EndpointId(endpoint))
    }

    fn notifying() -> (NotifyingStore, Arc<Signal>) {
        let signal = Signal::new();
        let store = NotifyingStore::new(Arc::new(MemoryStore::new()), Arc::clone(&signal));
        (store, signal)
    }

    /// Returns true if the commit gives the signal.
    async fn signals(store: &NotifyingStore, signal: &Signal, commit: Commit) -> bool {
        store.commit(commit).await.unwrap();
        signal.wait().now_or_never().is_some()
    }

    #[tokio::test]
    async fn new_events_and_ready_entries_give_signal() {
        let (store, signal) = notifying();
        let put = |key: Key| Commit::builder().put(key, "1").build().unwrap();
        assert!(signals(&store, &signal, put(outbox())).await);
        assert!(signals(&store, &signal, put(ready_entry())).await);
        let other = put(keys::undelivered_count(OrgId(Uuid::from_u128(2))));
        assert!(!signals(&store, &signal, other).await);
        for key in [outbox(), ready_entry()] {
            let delete = Commit::builder().delete(key).build().unwrap();
            assert!(!signals(&store, &signal, delete).await);
        }
    }

    #[tokio::test]
    async fn additions_to_the_outbox_are_counted() {
        let (store, signal) = notifying();
        let mut counts = Vec::new();
        for commit in [
            Commit::builder().put(outbox(), "1"),
            Commit::builder().put(ready_entry(), "1"),
            Commit::builder().delete(outbox()),
            Commit::builder().put(outbox(), "1").put(ready_entry(), "1"),
            // Its check fails.
            Commit::builder().check(outbox(), None).put(outbox(), "1"),
        ] {
            store.commit(commit.build().unwrap()).await.unwrap();
            counts.push(signal.outbox_additions());
        }
        assert_eq!(counts, [1, 1, 1, 2, 2]);
    }

    #[tokio::test]
    async fn conflicting_commit_gives_no_signal() {
        let (store, signal) = notifying();
        let first = Commit::builder().check(outbox(), None).put(outbox(), "1");
        assert!(signals(&store, &signal, first.clone().build().unwrap()).await);
        // The check fails now.
        assert!(!signals(&store, &signal, first.build().unwrap()).await);
    }

    /// Store whose commits fail.
    struct Failing(StoreErrorKind);

    #[async_trait]
    impl Store for Failing {
        async fn read(&self, _: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
            Err(StoreError::new(self.0, "no reads"))
        }

        async fn commit(&self, _: Commit) -> Result<CommitOutcome, StoreError> {
            Err(StoreError::new(self.0, "no commits"))
        }
    }

    #[tokio::test]
    async fn failed_commit_gives_signal_only_if_it_may_be_applied() {
        for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Unknown] {
            let signal = Signal::new();
            let store = NotifyingStore::new(Arc::new(Failing(kind)), Arc::clone(&signal));
            let commit = Commit::builder().put(ready_entry(), "1").build().unwrap();
            store.commit(commit).await.unwrap_err();
            let is_signalled = signal.wait().now_or_never().is_some();
            assert_eq!(is_signalled, kind == StoreErrorKind::Unknown);
        }
    }

    #[test]
    fn signal_without_waiter_is_kept_once() {
        let (_, signal) = notifying();
        signal.give();
        signal.give();
        assert!(signal.wait().now_or_never().is_some());
        assert!(signal.wait().now_or_never().is_none());
    }
}
