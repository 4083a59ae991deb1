//! Acknowledged requests survive kill -9 of the real server under load, completely and once.
//!
//! In each round, the server starts on the directory of the previous round and gets its
//! unacknowledged requests again, clients send bulk updates as fast as they are acknowledged, and
//! the process is killed with requests in flight. Then the library opens the directory, and all of
//! it is compared with the clients' knowledge. `terminate` does the same with SIGTERM, which
//! promises more; `deliveries` watches what is sent.

#[cfg(unix)]
mod deliveries;
mod lane;
mod ledger;
mod load;
mod terminate;

#[path = "../support/knowledge.rs"]
mod knowledge;

use std::path::Path;
use std::time::Instant;

use futures::future::join_all;
use knowledge_core::model::{MemoryId, OrgId, WorkspaceId};
use knowledge_testing::fixture;
use knowledge_testing::requests::new_memory;

use self::knowledge::{Knowledge, open};
use self::lane::{Lane, Request};
use self::ledger::Ledger;
use self::load::{Load, is_replay, send};

const ROUNDS: usize = 20;
/// Maximum number of kills.
///
/// A kill with no request of any client in flight is checked as well, but is not counted as a
/// round.
const KILLS_MAX: usize = 30;
/// Number of concurrent clients, each with memories of its own.
const CLIENTS: usize = 8;
const MEMORIES: usize = 2_000;
/// Bounds of the number of acknowledged requests before a kill.
const ACKNOWLEDGED_MIN: usize = 100;
const ACKNOWLEDGED_MAX: usize = 150;
/// Number of memories in one ingest.
const BATCH: usize = 100;

/// The organisation under load.
struct World {
    org: OrgId,
    workspace: WorkspaceId,
    token: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_requests_survive_kill_9_completely_and_once() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let (world, memories) = seeded(&data_dir).await;
    let mut lanes: Vec<_> = memories
        .chunks(MEMORIES / CLIENTS)
        .map(|memories| Lane::new(memories, &mut rng))
        .collect();
    let mut ledger = Ledger::begin(&open(&data_dir).await, &world).await;
    let mut pending: Vec<Request> = Vec::new();

    let mut round = 1;
    for kill in 1.. {
        assert!(kill <= KILLS_MAX, "too often nothing was in flight");
        let began = Instant::now();
        let server = Knowledge::serve(&data_dir);
        let unanswered = std::mem::take(&mut pending);
        let settled = settle(&server, &world, &mut ledger, &mut lanes, unanswered).await;

        let wanted = rng.usize(ACKNOWLEDGED_MIN..=ACKNOWLEDGED_MAX);
        let load = Load::start(&server.base_url, &world.token, lanes);
        load.acknowledged(wanted).await;
        server.kill();
        let outcomes = load.ended().await;

        let (mut acknowledged, mut in_flight) = (0, 0);
        lanes = Vec::new();
        for outcome in outcomes {
            acknowledged += outcome.acknowledged.len();
            in_flight += usize::from(outcome.was_in_flight);
            ledger.note_acknowledged(outcome.acknowledged);
            pending.push(outcome.unanswered);
            lanes.push(outcome.lane);
        }
        assert!(
            acknowledged >= ACKNOWLEDGED_MIN,
            "{acknowledged} acknowledged"
        );

        let service = open(&data_dir).await;
        let applied = ledger.compare(&service, &world, &mut lanes, &pending).await;
        println!(
            "round {round:2}: {acknowledged} acknowledged, {in_flight} in flight, of these {applied} \
             applied; before that {settled}; {} ms",
            began.elapsed().as_millis()
        );
        if in_flight >= 1 && round == ROUNDS {
            break;
        }
        round += usize::from(in_flight >= 1);
    }

    // The requests of the last round are settled as well.
    let server = Knowledge::serve(&data_dir);
    let settled = settle(&server, &world, &mut ledger, &mut lanes, pending).await;
    server.kill();
    ledger
        .compare(&open(&data_dir).await, &world, &mut lanes, &[])
        .await;
    println!("at the end {settled}");
}

/// Creates a directory with an organisation and its memories, all pending review.
async fn seeded(data_dir: &Path) -> (World, Vec<MemoryId>) {
    let service = open(data_dir).await;
    let fixture = fixture::seed_orgs(&service, 1)
        .await
        .expect("seed the store");
    let org = &fixture.orgs[0];
    let (owner, workspace) = (org.trusted_owner(), org.empty.id);
    let memory = |number| new_memory(&format!("Note {number}"));
    let batch: Vec<_> = (0..BATCH).map(memory).collect();
    let ingests = (0..MEMORIES / BATCH).map(|_| {
        service
            .memories()
            .ingest(&owner, workspace, org.sources[0], &batch)
    });
    let mut memories = Vec::new();
    for ingested in join_all(ingests).await {
        let ingested = ingested.expect("ingested");
        memories.extend(ingested.iter().filter_map(|memory| memory.id));
    }
    let world = World {
        org: org.id,
        workspace,
        token: org.members.owner.token.clone(),
    };
    (world, memories)
}

/// Sends the unacknowledged and the acknowledged requests again.
///
/// The former are executed unless they already were, the latter are not. Returns the number of
/// each.
async fn settle(
    server: &Knowledge,
    world: &World,
    ledger: &mut Ledger,
    lanes: &mut [Lane],
    unanswered: Vec<Request>,
) -> String {
    let resend = async |request: &Request| {
        let answer = send(&server.base_url, &world.token, request).await;
        answer.expect("the server is up")
    };
    let (mut done_now, mut done_then) = (0, 0);
    for (lane, request) in lanes.iter_mut().zip(unanswered) {
        let answer = resend(&request).await;
        let was_applied = ledger.was_applied(&request);
        assert_eq!(is_replay(&answer), was_applied, "{request:?}");
        if was_applied {
            done_then += 1;
        } else {
            done_now += 1;
            lane.apply(&request);
        }
        ledger.note_acknowledged(vec![(request, answer)]);
    }
    let answered = ledger.take_compared();
    let replays = join_all(answered.iter().map(|(request, _)| resend(request))).await;
    for ((request, first), replay) in answered.iter().zip(&replays) {
        assert!(is_replay(replay), "{request:?}");
        assert_eq!(replay["operationId"], first["operationId"], "{request:?}");
        assert_eq!(replay["results"], first["results"], "{request:?}");
    }
    format!(
        "{done_then} replayed and {done_now} done of what was not answered, {} replayed of what was",
        answered.len()
    )
}
