//! Tests of commands that are killed by `kill -9` and then repeated: no data is lost or half done.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use knowledge_core::store::{Commit, Key};
use knowledge_server::data::DataConfig;

use super::{dumped, on};
use crate::support::Scratch;

/// Time limit of a test that would hang.
const GUARD: Duration = Duration::from_secs(60);

/// Creates a store that takes a moment to read and to write.
async fn large() -> Scratch {
    let scratch = Scratch::with_org();
    let store = DataConfig::at(scratch.path("data")).open_store().unwrap();
    for part in 0..20 {
        let commit = (0..1_000).fold(Commit::builder(), |commit, number| {
            let key = Key::new(format!("stray/{part:02}/{number:04}")).unwrap();
            commit.put(key, format!("\"{}\"", "x".repeat(500)))
        });
        store.commit(commit.build().unwrap()).await.unwrap();
    }
    scratch
}

/// Starts a command and kills it once a file has this many bytes, unless it ends before.
fn kill_once(scratch: &Scratch, args: &[&str], grows: &Path, bytes: u64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_knowledge"));
    command.args(args).arg(scratch.data_dir());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    let began = Instant::now();
    let size = || fs::metadata(grows).map_or(0, |metadata| metadata.len());
    while size() < bytes && running.try_wait().unwrap().is_none() {
        assert!(
            began.elapsed() < GUARD,
            "{args:?} does not come to {bytes} bytes"
        );
        std::thread::yield_now();
    }
    let _ = running.kill();
    running.wait().unwrap();
}

#[tokio::test]
async fn killed_dump_is_completed_by_the_next() {
    let scratch = large().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    for (round, bytes) in [1, 1_000_000, 5_000_000].into_iter().enumerate() {
        let name = format!("{round}.jsonl");
        let (file, path) = (scratch.arg(&name), scratch.path(&name));
        let partial = scratch.path(&format!("{name}.partial"));
        kill_once(&scratch, &["dump", &file], &partial, bytes);
        // It had ended, or it resumes.
        let has_line = fs::read(&partial).is_ok_and(|found| found.contains(&b'\n'));
        let again = on(&scratch, "data", &["dump", &file, "--force"]).ok();
        let goes_on = again.stderr.contains("resuming after entry");
        assert!(goes_on || !has_line, "{bytes}: {}", again.stderr);
        assert!(fs::read_to_string(&path).unwrap() == whole, "{bytes}");
        assert!(!partial.exists());
    }
}

#[tokio::test]
async fn killed_restore_is_completed_by_the_next() {
    let scratch = large().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    let dump = scratch.arg("whole.jsonl");
    for bytes in [1, 3_000_000, 8_000_000] {
        fs::remove_dir_all(scratch.path("data")).unwrap();
        kill_once(
            &scratch,
            &["restore", &dump],
            &scratch.path("data/db"),
            bytes,
        );
        let again = on(&scratch, "data", &["restore", &dump]);
        // It had ended, or it resumes; either way the store is complete.
        assert!(
            again.code == 0 || again.stderr.contains("not empty"),
            "{}",
            again.stderr
        );
        let name = format!("after-{bytes}.jsonl");
        assert!(dumped(&scratch, "data", &name) == whole, "{bytes}");
    }
}

#[tokio::test]
async fn killed_compaction_leaves_a_complete_store() {
    let scratch = large().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    for bytes in [1, 3_000_000, 8_000_000] {
        let (db, away) = (
            scratch.path("data.compacting/db"),
            scratch.path("data.before-compaction"),
        );
        kill_once(&scratch, &["compact"], &db, bytes);
        let name = format!("after-{bytes}.jsonl");
        assert!(dumped(&scratch, "data", &name) == whole, "{bytes}");
        assert!(!scratch.path("data.compacting").exists() && !away.exists());
    }
    on(&scratch, "data", &["compact"]).ok();
    assert!(dumped(&scratch, "data", "compacted.jsonl") == whole);
}
