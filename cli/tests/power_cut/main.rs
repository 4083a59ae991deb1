//! Acknowledged calls survive power cuts under the real server.
//!
//! The server works on an ext4 file system in an image file, which is shut down without flushing
//! its log: unsynced data is lost, as when the power fails. Then the server process is killed, the
//! image mounted again and the server started again. Each round is one cut. A store goes through
//! several, so that each finds the half-synced data of the previous one.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `KNOWLEDGE_POWER_CUT_SEED` | replays the workloads and the moments of a run; every run prints its seed |
//! | `KNOWLEDGE_POWER_CUT_ROUNDS` | the number of rounds, 40 by default |
//! | `KNOWLEDGE_POWER_CUT_SKIP` | set to 1, skips the test |

mod calls;
mod disk;
mod ledger;
mod load;
mod machine;
mod program;
mod site;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use self::load::Traffic;
use self::program::{Engine, argument};
use self::site::{Site, Workload};

/// All engines that the server embeds.
const ENGINES: &[Engine] = &[
    Engine {
        name: "sled",
        store_argument: |directory| argument("--store=sled:", directory),
    },
    Engine {
        name: "fjall",
        store_argument: |directory| argument("--store=fjall:", directory),
    },
];

const ROUNDS: usize = 40;
/// Minimum number of concurrent series of rounds; each engine has at least one.
const SERIES_MIN: usize = 2;
/// Power cuts that a store goes through. No divisor of the number of workloads, so that each comes
/// first, second and last.
const CUTS_PER_STORE: usize = 5;

/// The workloads, in the order of the rounds.
const WORKLOADS: &[Workload] = &[
    Workload::Calls(Traffic::Relabel(20)),
    Workload::Calls(Traffic::CreateLarge),
    Workload::Opening,
    Workload::Calls(Traffic::Relabel(1_000)),
    Workload::Calls(Traffic::INGEST_SMALL),
    Workload::Compaction,
    Workload::Calls(Traffic::INGEST_LARGE),
    Workload::Calls(Traffic::Relabel(1)),
];

#[test]
fn acknowledged_calls_survive_power_cuts() {
    let rounds = machine::number("KNOWLEDGE_POWER_CUT_ROUNDS");
    let rounds = rounds.map_or(ROUNDS, |rounds| usize::try_from(rounds).expect("a number"));
    if !machine::enter_namespace("acknowledged_calls_survive_power_cuts", rounds) {
        return;
    }
    let seed = machine::number("KNOWLEDGE_POWER_CUT_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}: replay with KNOWLEDGE_POWER_CUT_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = ENGINES.len().max(SERIES_MIN);
    let series: Vec<_> = (0..count)
        .map(|number| Series {
            number,
            engine: &ENGINES[number % ENGINES.len()],
            rounds: (number..rounds).step_by(count).count(),
            rng: rng.fork(),
        })
        .collect();
    let failed: usize = thread::scope(|scope| {
        let running: Vec<_> = series
            .into_iter()
            .map(|series| scope.spawn(|| series.run()))
            .collect();
        let failed = running.into_iter().map(|series| series.join());
        failed.map(|failed| failed.expect("a series ends")).sum()
    });
    assert_eq!(failed, 0, "rounds that failed, of {rounds}; seed {seed}");
}

/// Consecutive rounds of one engine.
struct Series {
    number: usize,
    engine: &'static Engine,
    rounds: usize,
    rng: fastrand::Rng,
}

impl Series {
    /// Returns the number of rounds that failed.
    fn run(mut self) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (mut store, mut cuts, mut failed) = (None, 0, 0);
        for round in 0..self.rounds {
            // The duration of a round must not influence the draws of the next.
            let mut rng = self.rng.fork();
            let offset = self.number * WORKLOADS.len() / SERIES_MIN;
            let workload = WORKLOADS[(round + offset) % WORKLOADS.len()];
            let began = Instant::now();
            if cuts == CUTS_PER_STORE {
                (store, cuts) = (None, 0);
            }
            cuts += 1;
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on(async {
                    if store.is_none() {
                        store = Some(Site::new(self.engine, &mut rng).await);
                    }
                    let site = store.as_mut().expect("it was just made");
                    site.survive(workload, &mut rng).await
                })
            }));
            let (engine, workload, ms) = (
                self.engine.name,
                workload.name(),
                began.elapsed().as_millis(),
            );
            let line = format!("{engine} {}.{round}, {workload}, cut {cuts}", self.number);
            match outcome {
                Ok(report) => println!("{line}: {report}; {ms} ms"),
                Err(panic) => {
                    let message = panic.downcast_ref::<String>();
                    let message = message.map_or("see above", String::as_str);
                    println!("{line}: FAILED: {message}; {ms} ms");
                    failed += 1;
                    // Data that was lost once would be missing in each further round.
                    (store, cuts) = (None, 0);
                }
            }
        }
        failed
    }
}
