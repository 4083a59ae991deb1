//! A disk that is really full: that of a server in a small file system.

use std::io::Write;
use std::process::Command;

use knowledge_storage_postgres::PostgresStore;
use knowledge_storage_postgres::testing::{self, Server, ServerOptions};
use knowledge_store::{Commit, CommitOutcome, Store, StoreErrorKind};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::support::{commit_when_possible, key, open, put, read};

const TEST: &str = "full_disk::full_disk_refuses_commits_whole_and_loses_none";
/// Variable with the directory of the file system, which is set inside its mount namespace.
const INSIDE: &str = "KNOWLEDGE_FULL_DISK";
/// Mounts the file system in the first argument, and runs the other arguments.
const MOUNT: &str = r#"mount -t tmpfs -o size=400m,mode=1777 tmpfs "$1" && shift && exec "$@""#;

/// Commits before the disk is filled.
const BEFORE: usize = 20;
/// Commits before it must be full: more than the free pages of the tables have room for.
const COMMITS_MAX: usize = 2_000;
/// Commits once it is full.
const REFUSED: usize = 20;
/// Size of a value, most of a page.
const VALUE_BYTES: usize = 6_000;

/// Runs a test of this program in a mount namespace with the file system.
///
/// # Panics
/// If the test fails, or nothing can be mounted although `CI` is set.
fn run_inside(test: &str) {
    let directory = tempfile::tempdir().expect("a new directory");
    let unshare = |program: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--", "sh", "-c", MOUNT, "sh"])
            .arg(directory.path())
            .args(program)
            .env(INSIDE, directory.path())
            .env("TMPDIR", directory.path());
        command
    };
    let mounted = unshare(&["true"]).output();
    if !mounted.as_ref().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "not mounted: {mounted:?}");
        // Past the test harness, which shows the output of failed tests only.
        let line = format!("\nskipped: 1 test, {test}: a mount needs root: {mounted:?}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    }
    let itself = std::env::current_exe().expect("the path of the test");
    let itself = itself.to_str().expect("a path in UTF-8");
    let status = unshare(&[itself, "--exact", test, "--nocapture"]).status();
    assert!(status.expect("unshare runs").success());
}

/// Takes all space of the disk that is left, without a log of it.
async fn fill(client: &Client) {
    let create = "CREATE UNLOGGED TABLE ballast (filler bytea);
                  ALTER TABLE ballast ALTER filler SET STORAGE EXTERNAL;";
    client.batch_execute(create).await.expect("a table");
    // Small rows for what the large ones have left.
    for bytes in [1_000_000, 1_000] {
        let filler = vec![1_u8; bytes];
        loop {
            let insert = "INSERT INTO ballast VALUES ($1)";
            let Err(error) = client.execute(insert, &[&filler]).await else {
                continue;
            };
            assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");
            break;
        }
    }
}

/// Returns a commit of two entries that fill two pages.
fn commit(number: usize) -> Commit {
    let mut commit = Commit::builder();
    for name in names(number) {
        // Random, as the server compresses what it stores.
        let value: Vec<u8> = std::iter::repeat_with(|| fastrand::alphanumeric() as u8)
            .take(VALUE_BYTES)
            .collect();
        commit = commit.put(key(&name), value);
    }
    commit.build().expect("a valid commit")
}

fn names(number: usize) -> [String; 2] {
    ["one", "other"].map(|name| format!("{name}-{number}"))
}

async fn check(server: &Server) {
    let database = server.create_database().await;
    let store = open(server, &database).await;
    let client = server.connect(&database).await;
    let (mut stored, mut refused) = (Vec::new(), Vec::new());
    for number in 0..COMMITS_MAX {
        if number == BEFORE {
            assert_eq!(stored.len(), BEFORE);
            fill(&client).await;
        }
        match store.commit(commit(number)).await {
            Ok(CommitOutcome::Committed(_)) => stored.push(number),
            Err(error) if error.kind() == StoreErrorKind::Full => refused.push(number),
            other => panic!("{other:?}"),
        }
        if refused.len() == REFUSED {
            break;
        }
    }
    println!("{} commits stored, {} refused", stored.len(), refused.len());
    assert_eq!(refused.len(), REFUSED, "the disk is full");
    assert_entries(&store, &stored, &refused).await;

    client
        .batch_execute("DROP TABLE ballast")
        .await
        .expect("space becomes free");
    commit_when_possible(&store, &put("after", "1")).await;
    assert_entries(&store, &stored, &refused).await;
}

async fn assert_entries(store: &PostgresStore, stored: &[usize], refused: &[usize]) {
    for (numbers, is_stored) in [(stored, true), (refused, false)] {
        for number in numbers {
            for name in names(*number) {
                assert_eq!(read(store, &name).await.is_some(), is_stored, "{name}");
            }
        }
    }
}

#[test]
fn full_disk_refuses_commits_whole_and_loses_none() {
    if std::env::var_os(INSIDE).is_none() {
        return run_inside(TEST);
    }
    for installation in testing::installations() {
        testing::run_alone(
            &[installation],
            &ServerOptions::default(),
            |server| async move {
                check(&server).await;
            },
        );
    }
}
