//! Acknowledged commits survive kill -9 at any time.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use knowledge_store::{Commit, CommitOutcome, Direction, KeyRange, Store, StoreExt};

use super::support::{
    child_directory, key, open, put, seeded_rng, spawn_child, temp_directory, wait_for_check,
};
use crate::{CheckState, Engine};

const ROUNDS: u64 = 10;
const TASKS: usize = 4;
const CHILD: &str = "killed_process::child_that_commits_until_it_is_killed";

/// Commits from several tasks until it is killed, and prints the name of each acknowledged commit.
///
/// Does nothing outside a child process.
pub async fn child_that_commits_until_it_is_killed<E: Engine>() {
    let Some(directory) = child_directory() else {
        return;
    };
    let store = Arc::new(open::<E>(&directory));
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

/// After each kill all acknowledged commits are stored, none in part, and the check passes.
pub async fn acknowledged_commits_survive_kill_9<E: Engine>() {
    let directory = temp_directory();
    let mut rng = seeded_rng();
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let mut child = spawn_child(CHILD, directory.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let done = |line: &str| line.strip_prefix("done ").map(str::to_owned);
        // The round is timed from the first reply.
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

        let store = open::<E>(directory.path());
        let scan = async |prefix| {
            let range = KeyRange::prefix(&key(prefix));
            let found = store.scan(&range, usize::MAX, Direction::Forward).await;
            found.unwrap()
        };
        let (found, copies) = (scan("n").await, scan("copy/").await);
        let stored: HashSet<_> = found.iter().map(|found| &found.key).collect();
        for name in &acknowledged {
            assert!(
                stored.contains(&key(name)),
                "round {round}: {name} was acknowledged and is lost"
            );
        }
        assert_eq!(copies.len(), found.len(), "round {round}: half a commit");
        let total = store.counter(&key("total")).await.unwrap();
        assert_eq!(total, found.len() as i64, "round {round}: the counter");
        let commit = put("round", &round.to_string());
        store.commit(commit).await.unwrap();
        let checked = wait_for_check(&store).await;
        assert_eq!(checked, CheckState::Passed, "round {round}");
    }
    assert!(acknowledged.len() as u64 > ROUNDS, "nothing was written");
}
