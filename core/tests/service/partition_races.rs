//! Test of moves of one organisation that run at the same time, and of some that are killed.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use knowledge_core::Error;
use knowledge_core::internals::keys;
use knowledge_core::model::MemoryId;
use knowledge_core::partition::{HOME, MoveError, MoveOutcome, Relocation};
use knowledge_core::service::{Caller, KnowledgeService};
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Key, MemoryStore, Read, Store, StoreError, StoreExt,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::partitions::{Site, knows, service_over, token, verify};

/// Number of random schedules, unless the environment sets another.
const SCHEDULES: u64 = 120;

/// Sequence of pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Returns a number of calls that a process makes in a row: a few, or a part of a move.
    fn burst(&mut self) -> u64 {
        let end = if self.one_in(2) { 8 } else { 60 };
        1 + self.below(end)
    }
}

/// Store in which the scheduler decides when each call of a process goes on.
///
/// Only commits wait, and reads of what competing moves tell each other: other reads are in between.
struct Scheduled {
    store: Arc<dyn Store>,
    turns: Arc<Turns>,
}

struct Turns {
    arrived: UnboundedSender<()>,
    go: tokio::sync::Mutex<UnboundedReceiver<()>>,
}

impl Turns {
    async fn pass(&self) {
        self.arrived.send(()).unwrap();
        self.go.lock().await.recv().await.unwrap();
    }
}

fn is_of_moves(key: &Key) -> bool {
    let key = key.to_string();
    ["hold/", "placement/"]
        .iter()
        .any(|family| key.starts_with(family))
}

#[async_trait]
impl Store for Scheduled {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let concerns_moves = |read: &Read<'_>| match read {
            Read::Keys(keys) => keys.iter().any(is_of_moves),
            Read::Range { .. } => false,
        };
        if reads.iter().any(concerns_moves) {
            self.turns.pass().await;
        }
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.turns.pass().await;
        self.store.commit(commit).await
    }
}

/// A process that moves the organisation.
struct Process {
    arrived: UnboundedReceiver<()>,
    go: UnboundedSender<()>,
    ended: JoinHandle<Result<MoveOutcome, MoveError>>,
}

impl Process {
    async fn start(site: &Site, to: &'static str) -> Self {
        let (arrived, mut arrivals) = unbounded_channel();
        let (go, waiting) = unbounded_channel();
        let turns = Arc::new(Turns {
            arrived,
            go: tokio::sync::Mutex::new(waiting),
        });
        let stores = site.stores_with(|store| {
            let turns = Arc::clone(&turns);
            Arc::new(Scheduled { store, turns })
        });
        drop(turns);
        let org = site.org.id;
        let run = async move { Relocation { org, to }.run(&stores, |_, _| {}).await };
        let ended = tokio::spawn(run);
        arrivals.recv().await;
        Self {
            arrived: arrivals,
            go,
            ended,
        }
    }

    /// Lets it make one call; returns false if it has ended.
    async fn step(&mut self) -> bool {
        self.go.send(()).unwrap();
        self.arrived.recv().await.is_some()
    }
}

/// Client that deletes memories of the organisation, wherever it is served.
struct Client {
    services: [KnowledgeService; 2],
    token: Caller,
    memories: Vec<MemoryId>,
    /// Number of memories that are deleted, which are the first ones.
    deleted: usize,
}

impl Client {
    async fn new(site: &Site) -> Self {
        Self {
            services: [service_over(&site.home).await, service_over(&site.eu).await],
            token: token(&site.org),
            memories: site.org.side.memories.internal.to_vec(),
            deleted: 0,
        }
    }

    async fn delete_one(&mut self) {
        let Some(memory) = self.memories.get(self.deleted) else {
            return;
        };
        for service in &self.services {
            match service.memories().delete(&self.token, *memory).await {
                Ok(_) => {
                    self.deleted += 1;
                    return;
                }
                Err(Error::Unauthenticated { .. }) => {}
                Err(Error::Unavailable { .. }) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Asserts that what was acknowledged is done in the second partition, and nothing else.
    async fn assert_deleted(&self, seed: u64) {
        for (index, memory) in self.memories.iter().enumerate() {
            let found = self.services[1].memories().get(&self.token, *memory).await;
            match found {
                Ok(_) => assert!(index >= self.deleted, "seed {seed}: it was deleted"),
                Err(Error::NotFound { .. }) => {
                    assert!(index < self.deleted, "seed {seed}: it is lost");
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
    }
}

/// Runs up to three processes and a client in a random order.
async fn run_schedule(site: &Site, seed: u64) -> Client {
    let mut random = Random(seed);
    let mut client = Client::new(site).await;
    if random.one_in(2) {
        // A move that was interrupted before.
        let commits = usize::try_from(random.below(60)).unwrap();
        site.stopped_after("eu", commits).await;
    }
    let mut processes = Vec::new();
    for _ in 0..2 + random.below(2) {
        let to = if random.one_in(3) { HOME } else { "eu" };
        processes.push(Process::start(site, to).await);
    }
    // A cancellation begins within a move, which then goes on.
    let mut bursts = VecDeque::new();
    if random.one_in(3) {
        processes = vec![
            Process::start(site, "eu").await,
            Process::start(site, HOME).await,
        ];
        bursts.extend([
            (0, random.below(60)),
            (1, random.below(10)),
            (0, random.below(30)),
            (1, 60),
        ]);
    }
    let (mut current, mut left) = (0, 0);
    while !processes.is_empty() {
        if left == 0 {
            client.delete_one().await;
            let next = || (usize::try_from(random.below(6)).unwrap(), random.burst());
            (current, left) = bursts.pop_front().unwrap_or_else(next);
        }
        left = left.saturating_sub(1);
        current %= processes.len();
        let is_killed = random.one_in(150);
        if is_killed || !processes[current].step().await {
            let process = processes.swap_remove(current);
            process.ended.abort();
            if let Err(error) = process.ended.await {
                assert!(error.is_cancelled(), "seed {seed}: {error}");
            }
        }
    }
    client
}

#[expect(
    clippy::disallowed_methods,
    reason = "the environment sets the number of schedules"
)]
fn schedules() -> u64 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked
        .and_then(|asked| asked.parse().ok())
        .unwrap_or(SCHEDULES)
}

#[tokio::test]
async fn moves_at_the_same_time_lose_nothing_that_was_acknowledged() {
    let original = Site::small().await;
    for seed in 0..schedules() {
        let site = original.copy().await;
        let mut client = run_schedule(&site, seed).await;
        client.delete_one().await;
        if let Err(MoveError::OtherMove { to }) = site.move_to("eu").await {
            assert_eq!(to, HOME, "seed {seed}");
            site.move_to(HOME).await.unwrap();
        }
        let completed = site.move_to("eu").await;
        assert!(completed.is_ok(), "seed {seed}: {completed:?}");
        assert!(knows(&site.eu, &site.org).await && !knows(&site.home, &site.org).await);
        client.assert_deleted(seed).await;
        site.assert_nothing_left_at_home().await;
        for store in [&site.home, &site.eu] {
            assert!(!has_hold(store, &site).await, "seed {seed}: a hold is left");
            verify(store).await;
        }
    }
}

async fn has_hold(store: &MemoryStore, site: &Site) -> bool {
    store.get(&[keys::hold(site.org.id)]).await.unwrap()[0].is_some()
}
