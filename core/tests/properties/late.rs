//! Test of a commit of unknown outcome that is applied only after its retry.
//!
//! Each operation still takes effect once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Read, Store, StoreError, StoreErrorKind,
};
use knowledge_store::faults::FaultRates;
use knowledge_testing::simulation::{Config, Divergence, Simulation, check_cases};
use knowledge_testing::strategies::{Op, operations};

use crate::{cases, memory};

/// A store that delays a commit, on request.
///
/// It reports the outcome as unknown, and applies the commit after the following one.
struct Late {
    store: Arc<dyn Store>,
    loses_next: AtomicBool,
    on_its_way: Mutex<Option<Commit>>,
}

impl Late {
    async fn arrive(&self) {
        let late = self.on_its_way.lock().unwrap().take();
        if let Some(commit) = late {
            self.store.commit(commit).await.unwrap();
        }
    }
}

#[async_trait]
impl Store for Late {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        // With this empty read, the simulation waits for delayed commits.
        if matches!(reads, [Read::Keys([])]) {
            self.arrive().await;
        }
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        if self.loses_next.swap(false, Ordering::SeqCst) {
            *self.on_its_way.lock().unwrap() = Some(commit);
            let message = "a test lost the response to a commit";
            return Err(StoreError::new(StoreErrorKind::Unknown, message));
        }
        let outcome = self.store.commit(commit).await;
        self.arrive().await;
        outcome
    }
}

async fn check(seed: u64, ops: Vec<Op>) -> Result<(), Divergence> {
    let late = Arc::new(Late {
        store: memory().await,
        loses_next: AtomicBool::new(false),
        on_its_way: Mutex::default(),
    });
    // A rate this low never strikes; it only prepares the simulation for unknown outcomes.
    let rates = FaultRates {
        conflict: 1e-300,
        ..FaultRates::default()
    };
    let store = Arc::clone(&late) as Arc<dyn Store>;
    let mut simulation = Simulation::begin(store, seed, rates).await?;
    for op in &ops {
        late.loses_next.store(true, Ordering::SeqCst);
        simulation.step(op).await?;
    }
    late.loses_next.store(false, Ordering::SeqCst);
    simulation.finish().await
}

#[tokio::test]
async fn commit_applied_after_its_retry_takes_effect_once() {
    check_cases(&Config::new(cases(60)), operations(60), check).await;
}
