//! What was acknowledged survives kill -9 at any moment.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{child_directory, key, open, put, spawn_child};
use knowledge_core::store::{Commit, CommitOutcome, Direction, KeyRange, Store, StoreExt};

const ROUNDS: u64 = 10;
const TASKS: usize = 4;

/// Commits without end, from several tasks, and prints the number of each commit once it is acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run as a process of its own by the test below"]
async fn child_that_commits_until_it_is_killed() {
    let Some(directory) = child_directory() else {
        return;
    };
    let store = Arc::new(open(&directory));
    let begin = store.counter(&key("total")).await.unwrap();
    let output = Arc::new(Mutex::new(std::io::stdout()));
    println!();
    let tasks = (0..TASKS).map(|task| {
        let (store, output) = (Arc::clone(&store), Arc::clone(&output));
        tokio::spawn(async move {
            for i in 0.. {
                let name = format!("n{begin:09}-{task}-{i:09}");
                let commit = Commit::builder()
                    .put(key(&name), "x".repeat(200))
                    .put(key(&format!("copy/{name}")), "y".repeat(2_000))
                    .add(key("total"), 1);
                let outcome = store.commit(commit.build().unwrap()).await.unwrap();
                assert!(matches!(outcome, CommitOutcome::Committed(_)));
                writeln!(output.lock().unwrap(), "done {name}").unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let mut child = spawn_child("child_that_commits_until_it_is_killed", directory.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let done = |line: &str| line.strip_prefix("done ").map(str::to_owned);
        // The clock of the round begins with the first answer.
        let first = lines.by_ref().find_map(|line| done(&line.unwrap()));
        let reader = std::thread::spawn(move || {
            let lines = lines.map_while(Result::ok);
            lines.filter_map(|line| done(&line)).collect::<Vec<_>>()
        });
        std::thread::sleep(Duration::from_micros(rng.u64(..80_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(first);
        acknowledged.extend(reader.join().unwrap());

        let store = open(directory.path());
        let found = store
            .scan(&KeyRange::prefix(&key("n")), usize::MAX, Direction::Forward)
            .await
            .unwrap();
        let copies = store
            .scan(
                &KeyRange::prefix(&key("copy/")),
                usize::MAX,
                Direction::Forward,
            )
            .await
            .unwrap();
        let there: std::collections::HashSet<_> = found.iter().map(|found| &found.key).collect();
        for name in &acknowledged {
            assert!(
                there.contains(&key(name)),
                "round {round}: {name} was acknowledged"
            );
        }
        assert_eq!(copies.len(), found.len(), "round {round}: half a commit");
        let total = store.counter(&key("total")).await.unwrap();
        assert_eq!(total, found.len() as i64, "round {round}: the counter");
        store
            .commit(put("round", &round.to_string()))
            .await
            .unwrap();
    }
    assert!(acknowledged.len() as u64 > ROUNDS, "nothing was written");
}
