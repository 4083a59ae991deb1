//! Tests of bulk updates that change the same memories at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::future::join_all;
use knowledge_core::env::Env;
use knowledge_core::model::{BulkUpdate, MemoryChange};
use knowledge_core::service::{KnowledgeService, Options, SealingKey};
use knowledge_core::store::{Commit, CommitOutcome, Found, Read, Store, StoreError};

use crate::make::SEALING_KEY;
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
