//! Tests of bulk updates that change the same memories at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::channel::oneshot;
use futures::future::join_all;
use knowledge_core::env::Env;
use knowledge_core::model::{BulkUpdate, MemoryChange, MemoryId};
use knowledge_core::service::{KnowledgeService, Options, SealingKey};
use knowledge_core::store::{Commit, CommitOutcome, Found, Read, Store, StoreError};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::make::{SEALING_KEY, audience};
use crate::world::World;

/// Number of concurrent calls, more than a call has attempts.
const CALLS: usize = 40;

/// A store that lets all other calls run before each commit, and counts the commits.
struct SlowCommits {
    inner: Arc<dyn Store>,
    commits: AtomicUsize,
}

#[async_trait]
impl Store for SlowCommits {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.inner.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        self.inner.commit(commit).await
    }
}

#[tokio::test]
async fn conflicting_updates_are_decided_at_most_twice() {
    let world = World::new().await;
    let ids = world.memories(3).await;
    let store = Arc::new(SlowCommits {
        inner: Arc::clone(&world.probe) as Arc<dyn Store>,
        commits: AtomicUsize::new(0),
    });
    let served = Arc::clone(&store) as Arc<dyn Store>;
    let service = KnowledgeService::open(
        served,
        Env::system(),
        Options::new(SealingKey::new(SEALING_KEY)),
    );
    let service = &service.await.unwrap();
    store.commits.store(0, Ordering::Relaxed);
    let calls = (0..CALLS).map(|number| {
        let label = format!("team:t{number}").parse().unwrap();
        let change = MemoryChange::builder().audience_tag(label).build();
        let update = BulkUpdate::builder().memory_ids(ids.clone()).change(change);
        let (update, key) = (update.build(), format!("k{number}").parse().unwrap());
        let owner = &world.owner;
        async move { service.memories().bulk_update(owner, &key, &update).await }
    });
    for result in join_all(calls).await {
        assert_eq!(result.expect("no call is given up").summary.succeeded, 3);
    }
    let commits = store.commits.load(Ordering::Relaxed);
    assert!(commits <= 2 * CALLS, "{commits} commits of {CALLS} calls");
}

#[tokio::test]
async fn updates_wait_for_those_of_the_same_memories_in_order_of_arrival() {
    let world = World::new().await;
    let ids = world.memories(4).await;
    let plan = FaultPlan::none().at_commit(1, CommitFault::Conflict);
    let served = &world.served_with(plan).await;
    // The first update meets a conflict, and stops in its turn.
    let (stop, stopped) = oneshot::channel();
    let (go, gone) = oneshot::channel();
    let probe = Arc::clone(&served.probe);
    served.probe.before_commit(async move {
        probe.before_commit(async move {
            stop.send(()).unwrap();
            gone.await.unwrap();
        });
    });
    let done = &Mutex::new(Vec::new());
    let call = |number: usize, memories: &[MemoryId]| {
        let change = audience(&format!("team:t{number}"));
        let update = BulkUpdate::builder().memory_ids(memories.to_vec());
        let update = update.change(change).build();
        let key = format!("k{number}").parse().unwrap();
        async move {
            let memories = served.service.memories();
            let result = memories.bulk_update(&served.owner, &key, &update).await;
            assert_eq!(result.unwrap().summary.failed, 0);
            done.lock().unwrap().push(number);
        }
    };
    let first = call(1, &ids[..2]);
    let later = [
        call(2, &ids[1..3]),
        // Shares no memory with the first one, but with one that waits for it.
        call(3, &ids[2..3]),
        call(4, &[ids[2], ids[0]]),
        call(5, &ids[3..]),
    ];
    let arrivals = async {
        stopped.await.unwrap();
        let release = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(
                *done.lock().unwrap(),
                [5],
                "the others wait, and it does not"
            );
            go.send(()).unwrap();
        };
        futures::join!(join_all(later), release);
    };
    futures::join!(first, arrivals);
    assert_eq!(*done.lock().unwrap(), [5, 1, 2, 3, 4]);
    let commits = served.faults.counts().commits;
    assert_eq!(commits, 6, "one more than calls, for the conflict");
}
