//! One store on one disk, through several power cuts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::calls::{Change, Owner};
use crate::disk::Disk;
use crate::ledger::Ledger;
use crate::load::{Load, SMALL, Traffic, new_memories};
use crate::program::{Engine, Process, Server, Store};

/// Number of batches of memories in a new store.
const BATCHES: usize = 20;
const BATCH_MEMORIES: usize = 100;
/// Acknowledged calls before a compaction.
const RELABELLED_BEFORE_COMPACTION: usize = 30;
/// Approximate number of changes of the directory entries beside the store during a compaction.
const COMPACTION_CHANGES: usize = 6;

/// Longest times from an observable moment to the power cut, in milliseconds.
const AFTER_ACKNOWLEDGED_MS: u64 = 50;
const AFTER_START_MS: u64 = 500;
const AFTER_LISTENING_MS: u64 = 200;
const AFTER_CHANGE_MS: u64 = 100;
/// Longest time that the server runs without a disk, in milliseconds.
const WITHOUT_DISK_MS: u64 = 300;

/// The activity that the power cut interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Calls of clients.
    Calls(Traffic),
    /// `knowledge compact`, after some calls.
    Compaction,
    /// A server that opens its store, or has just opened it.
    Opening,
}

impl Workload {
    /// Returns its name in the report.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Calls(Traffic::Relabel(count)) => format!("bulk updates of {count}"),
            Self::Calls(Traffic::CreateLarge) => "large memories".to_owned(),
            Self::Calls(Traffic::INGEST_LARGE) => "ingest of large memories".to_owned(),
            Self::Calls(Traffic::Ingest(..)) => "ingest".to_owned(),
            Self::Compaction => "compaction".to_owned(),
            Self::Opening => "opening".to_owned(),
        }
    }
}

/// A store with an organisation.
pub(crate) struct Site {
    // Dropped before the disk, which cannot be unmounted while the server uses it.
    server: Option<Server>,
    store: Store,
    owner: Owner,
    ledger: Ledger,
    disk: Disk,
}

impl Site {
    /// Creates a store with its first memories, on a new disk. The results of the earlier commands
    /// survive a power cut.
    pub(crate) async fn new(engine: &'static Engine, rng: &mut fastrand::Rng) -> Self {
        let disk = Disk::new().expect("a disk");
        // Two directories that the first command creates.
        let directory = disk.root().join("data/store");
        let store = Store { engine, directory };
        store.run(&["init", "--org-slug=acme", "--workspace=main"]);
        let token = store.run(&["token", "create", "--member=owner"]);
        let switch = disk.switch().expect("a switch");
        switch.cut().expect("a power cut");
        disk.remount().expect("the power is back");
        let server = store.serve().listening();
        let owner = Owner::enter(&server.base_url, token).await;
        let mut ledger = Ledger::default();
        for _ in 0..BATCHES {
            let batch = Change::Ingest(new_memories(BATCH_MEMORIES, SMALL, rng));
            let answer = owner.make(&server.base_url, &batch).await;
            ledger.note_answered(batch, &answer.expect("an answer"));
        }
        Self {
            server: Some(server),
            store,
            owner,
            ledger,
            disk,
        }
    }

    /// Cuts the power during the workload, restores it, and compares the store.
    ///
    /// Returns a line for the report.
    pub(crate) async fn survive(&mut self, workload: Workload, rng: &mut fastrand::Rng) -> String {
        let acknowledged = match workload {
            Workload::Calls(traffic) => self.cut_calls(traffic, rng).await,
            Workload::Compaction => self.cut_compaction(rng).await,
            Workload::Opening => {
                self.cut_opening(rng);
                0
            }
        };
        self.disk.remount().expect("the power is back");
        let compared = self.compare(rng).await;
        format!("{acknowledged} acknowledged, {compared}")
    }

    async fn cut_calls(&mut self, traffic: Traffic, rng: &mut fastrand::Rng) -> usize {
        let server = self.server();
        let switch = self.disk.switch().expect("a switch");
        let load = Load::start(traffic, &self.owner, &server.base_url, &self.ledger, rng);
        load.acknowledged(traffic.pick_acknowledged(rng)).await;
        // The clients continue.
        tokio::time::sleep(random(AFTER_ACKNOWLEDGED_MS, rng)).await;
        switch.cut().expect("a power cut");
        tokio::time::sleep(random(WITHOUT_DISK_MS, rng)).await;
        drop(server);
        load.end(&mut self.ledger).await
    }

    async fn cut_compaction(&mut self, rng: &mut fastrand::Rng) -> usize {
        let server = self.server();
        let traffic = Traffic::Relabel(20);
        let load = Load::start(traffic, &self.owner, &server.base_url, &self.ledger, rng);
        load.acknowledged(RELABELLED_BEFORE_COMPACTION).await;
        let acknowledged = load.end(&mut self.ledger).await;
        stop(server, rng);
        let switch = self.disk.switch().expect("a switch");
        let beside = self.store.directory.parent().expect("a directory");
        let before = names(beside);
        let mut compaction = self.store.start(&["compact"]);
        let changes = rng.usize(1..=COMPACTION_CHANGES);
        wait_for_changes(beside, before, changes, &mut compaction);
        // The renames are close to each other: half of the cuts are as close to one as possible.
        if rng.bool() {
            thread::sleep(random(AFTER_CHANGE_MS, rng));
        }
        switch.cut().expect("a power cut");
        acknowledged
    }

    fn cut_opening(&mut self, rng: &mut fastrand::Rng) {
        if let Some(server) = self.server.take() {
            stop(server, rng);
        }
        let switch = self.disk.switch().expect("a switch");
        let starting = self.store.serve();
        let cut = || switch.cut().expect("a power cut");
        if rng.bool() {
            thread::sleep(random(AFTER_START_MS, rng));
            cut();
        } else {
            let _server = starting.listening();
            thread::sleep(random(AFTER_LISTENING_MS, rng));
            cut();
        }
    }

    /// Opens the store as it is and compares it.
    ///
    /// Half of the compared servers continue to the next cut; the others are stopped and the store
    /// is verified.
    async fn compare(&mut self, rng: &mut fastrand::Rng) -> String {
        let verifies_first = rng.bool();
        if verifies_first {
            self.store.run(&["verify"]);
        }
        let server = self.server();
        let compared = self
            .ledger
            .compare(&self.owner, &server.base_url, &mut rng.fork())
            .await;
        if verifies_first {
            self.server = Some(server);
        } else {
            stop(server, rng);
            self.store.run(&["verify"]);
        }
        compared
    }

    /// Returns the server, and starts it if there is none.
    fn server(&mut self) -> Server {
        let running = self.server.take();
        running.unwrap_or_else(|| self.store.serve().listening())
    }
}

/// Stops a server by one of the two signals.
fn stop(server: Server, rng: &mut fastrand::Rng) {
    if rng.bool() {
        server.terminate();
    }
}

fn random(max_ms: u64, rng: &mut fastrand::Rng) -> Duration {
    Duration::from_micros(rng.u64(..=max_ms * 1_000))
}

fn names(directory: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    entries
        .map(|entry| entry.expect("an entry").file_name())
        .collect()
}

/// Waits until the names in the directory have changed this often, or the process has ended.
///
/// Polls without pause, since some changes are a millisecond apart.
fn wait_for_changes(
    directory: &Path,
    mut before: BTreeSet<OsString>,
    changes: usize,
    process: &mut Process,
) {
    let mut seen = 0;
    while seen < changes && !process.has_succeeded() {
        let now = names(directory);
        if now != before {
            seen += 1;
            before = now;
        }
    }
}
