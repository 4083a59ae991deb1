//! Clients that make one call after another, until the server fails or they are told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::calls::{Added, Change, Labels, Owner, Relabel};
use crate::ledger::Ledger;
use knowledge_http_suite::client::{Answer, GUARD};

/// Content of a small memory, in bytes.
pub(crate) const SMALL: usize = 200;
/// Content of the largest possible memory, in bytes.
const LARGE: usize = 32 * 1024;

/// The calls of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Bulk updates of this many memories.
    Relabel(usize),
    /// Single memories with the largest content.
    CreateLarge,
    /// Batches of this many memories, with contents of this many bytes.
    Ingest(usize, usize),
}

impl Traffic {
    pub(crate) const INGEST_LARGE: Self = Self::Ingest(25, LARGE);
    pub(crate) const INGEST_SMALL: Self = Self::Ingest(100, SMALL);

    /// Returns the number of concurrent clients.
    fn clients(self) -> usize {
        match self {
            Self::Relabel(1_000..) | Self::INGEST_LARGE => 2,
            _ => 8,
        }
    }

    /// Returns the bounds of the number of acknowledged calls before a cut.
    fn acknowledged(self) -> (usize, usize) {
        match self {
            Self::Relabel(1_000..) | Self::Ingest(..) => (2, 10),
            Self::Relabel(_) => (30, 100),
            Self::CreateLarge => (20, 60),
        }
    }

    /// Draws the number of acknowledged calls to wait for.
    pub(crate) fn pick_acknowledged(self, rng: &mut fastrand::Rng) -> usize {
        let (min, max) = self.acknowledged();
        rng.usize(min..=max)
    }
}

/// The running clients.
pub(crate) struct Load {
    acknowledged: Arc<Semaphore>,
    is_over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Outcome>>,
}

/// The responses that a client got.
struct Outcome {
    answered: Vec<(Change, Answer)>,
    unanswered: Option<Change>,
}

impl Load {
    /// Starts the clients, each with memories of its own.
    pub(crate) fn start(
        traffic: Traffic,
        owner: &Owner,
        base_url: &str,
        ledger: &Ledger,
        rng: &mut fastrand::Rng,
    ) -> Self {
        let acknowledged = Arc::new(Semaphore::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let parts = ledger.parts(traffic.clients());
        let clients = parts.into_iter().map(|memories| Client {
            traffic,
            owner: owner.clone(),
            base_url: base_url.to_owned(),
            memories,
            rng: rng.fork(),
            acknowledged: Arc::clone(&acknowledged),
            is_over: Arc::clone(&is_over),
        });
        Self {
            clients: clients.map(|client| tokio::spawn(client.run())).collect(),
            acknowledged,
            is_over,
        }
    }

    /// Waits until this many calls are acknowledged; the clients continue meanwhile.
    pub(crate) async fn acknowledged(&self, count: usize) {
        let count = u32::try_from(count).expect("not many");
        let waited = tokio::time::timeout(GUARD, self.acknowledged.acquire_many(count)).await;
        drop(waited.expect("the server answers"));
    }

    /// Lets each client finish its call, records all calls and returns the number acknowledged.
    pub(crate) async fn end(self, ledger: &mut Ledger) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        let mut acknowledged = 0;
        for client in self.clients {
            let outcome = client.await.expect("a client panicked");
            acknowledged += outcome.answered.len();
            for (change, answer) in outcome.answered {
                ledger.note_answered(change, &answer);
            }
            if let Some(change) = outcome.unanswered {
                ledger.note_unanswered(change);
            }
        }
        acknowledged
    }
}

struct Client {
    traffic: Traffic,
    owner: Owner,
    base_url: String,
    memories: Vec<(String, Labels)>,
    rng: fastrand::Rng,
    acknowledged: Arc<Semaphore>,
    is_over: Arc<AtomicBool>,
}

impl Client {
    async fn run(mut self) -> Outcome {
        let (mut answered, mut unanswered) = (Vec::new(), None);
        while !self.is_over.load(Ordering::Relaxed) {
            let change = self.next();
            match self.owner.make(&self.base_url, &change).await {
                Some(answer) => {
                    answered.push((change, answer));
                    self.acknowledged.add_permits(1);
                }
                None => {
                    unanswered = Some(change);
                    break;
                }
            }
        }
        Outcome {
            answered,
            unanswered,
        }
    }

    fn next(&mut self) -> Change {
        match self.traffic {
            Traffic::Relabel(count) => Change::Relabel(self.relabel(count)),
            Traffic::CreateLarge => Change::Create(new_memory(LARGE, &mut self.rng)),
            Traffic::Ingest(count, content_bytes) => {
                Change::Ingest(new_memories(count, content_bytes, &mut self.rng))
            }
        }
    }

    fn relabel(&mut self, count: usize) -> Relabel {
        self.rng.shuffle(&mut self.memories);
        let labels = Labels::other_than(self.memories[0].1, &mut self.rng);
        let memories = self.memories.iter_mut().take(count);
        Relabel {
            key: format!("{:016x}", self.rng.u64(..)),
            memories: memories
                .map(|(id, known)| {
                    *known = labels;
                    id.clone()
                })
                .collect(),
            labels,
        }
    }
}

/// Returns memories to add.
pub(crate) fn new_memories(
    count: usize,
    content_bytes: usize,
    rng: &mut fastrand::Rng,
) -> Vec<Added> {
    std::iter::repeat_with(|| new_memory(content_bytes, rng))
        .take(count)
        .collect()
}

fn new_memory(content_bytes: usize, rng: &mut fastrand::Rng) -> Added {
    Added {
        title: format!("Note {:016x}", rng.u64(..)),
        content_bytes,
    }
}
