//! Tests of the time that one call of the fan-out takes while events keep arriving.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use knowledge_core::env::Env;
use knowledge_core::model::{EventType, ReviewStatus};
use knowledge_core::service::{FanOutLimits, KnowledgeService, Options, SealingKey};
use knowledge_core::store::{Commit, CommitOutcome, Found, Read, Store, StoreError};

use crate::make::{SEALING_KEY, review};
use crate::world::{Time, World};

/// Time that a commit takes.
const COMMIT_TIME: Duration = Duration::from_millis(300);

/// A store whose commits take their time.
struct SlowStore {
    inner: Arc<dyn Store>,
    time: Time,
    commits: AtomicUsize,
}

#[async_trait]
impl Store for SlowStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.inner.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.time.pass(COMMIT_TIME);
        self.inner.commit(commit).await
    }
}

#[tokio::test]
async fn call_over_a_slow_store_ends_before_all_is_fanned_out() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::MemoryUpdated).await;
    let ids = world.memories(1).await;
    for number in 0..5 {
        let to = [ReviewStatus::Approved, ReviewStatus::Pending][number % 2];
        world.change(&ids, review(to)).await.unwrap();
    }
    let store = Arc::new(SlowStore {
        inner: Arc::clone(&world.probe) as Arc<dyn Store>,
        time: world.time.clone(),
        commits: AtomicUsize::new(0),
    });
    let (served, clock) = (Arc::clone(&store) as Arc<dyn Store>, world.time.clone());
    let env = Env::new(move || clock.now(), |buffer: &mut [u8]| buffer.fill(7));
    let options = Options::new(SealingKey::new(SEALING_KEY));
    let service = KnowledgeService::open(served, env, options).await.unwrap();
    let limits = FanOutLimits {
        deliveries: 1,
        ..FanOutLimits::default()
    };
    let mut calls = 0;
    loop {
        store.commits.store(0, Ordering::Relaxed);
        let done = service
            .dispatcher()
            .fan_out_within(world.time.now(), limits)
            .await;
        let done = done.unwrap();
        calls += 1;
        // The second commit ends after half a second.
        assert!(store.commits.load(Ordering::Relaxed) <= 2, "{done:?}");
        if !done.has_more {
            break;
        }
    }
    assert_eq!(calls, 3);
    assert_eq!(world.queued_events(webhook.id).await.len(), 5);
    world.assert_whole().await;
}
