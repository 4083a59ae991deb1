//! A commit whose answer was lost arrives later than anybody would wait: only after the attempt that was made instead of
//! it. Whatever is done is still done once.

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

/// Loses the answer to the next commit once it is told to, and applies it after the commit that follows.
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
        // The simulation reads nothing where it waits for whatever is still on its way.
        if matches!(reads, [Read::Keys([])]) {
            self.arrive().await;
        }
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        if self.loses_next.swap(false, Ordering::SeqCst) {
            *self.on_its_way.lock().unwrap() = Some(commit);
            let message = "the answer to a commit was lost by a test";
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
    // So rare that it never happens: the simulation only has to know that answers can be lost.
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
async fn what_arrives_after_its_second_attempt_is_not_done_twice() {
    check_cases(&Config::new(cases(60)), operations(60), check).await;
}
