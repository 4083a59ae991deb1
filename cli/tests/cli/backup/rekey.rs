//! Tests of `knowledge rekey`: every secret stays readable, whatever interrupts the command.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::model::EventType;
use knowledge_core::service::KnowledgeService;
use knowledge_core::store::{Commit, KeyRange, MemoryStore, StoreExt};
use knowledge_server::data::DataConfig;
use knowledge_testing::requests::{new_organization, new_workspace};
use knowledge_testing::seed::Seed;
use serde_json::{Value, json};

use super::{complete, dumped, on};
use crate::support::{AssertText, Scratch, start};

/// Time limit of a test that would hang.
const GUARD: Duration = Duration::from_secs(60);
/// Number of webhooks of the store whose replacement is killed.
const MANY: u64 = 1_000;

/// Returns the key files in the scratch directory.
fn key_files(scratch: &Scratch) -> Vec<String> {
    let found = fs::read_dir(scratch.path(".")).unwrap();
    let names = found.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.contains(".key")).collect();
    names.sort();
    names
}

/// Verifies the store, with its keys, and returns the number of opened secrets.
fn verified(scratch: &Scratch) -> Value {
    let verified = on(scratch, "data", &["verify", "--output=json"]).ok();
    let report: Value = serde_json::from_str(&verified.stdout).unwrap();
    report["secrets_opened"].clone()
}

fn rekeyed(scratch: &Scratch, args: &[&str]) -> Value {
    let done = on(
        scratch,
        "data",
        &[&["rekey", "--output=json"], args].concat(),
    )
    .ok();
    serde_json::from_str(&done.stdout).unwrap()
}

#[tokio::test]
async fn rekey_replaces_the_key_and_keeps_the_old_one() {
    let scratch = complete().await;
    let old = fs::read_to_string(scratch.path("data.key")).unwrap();
    dumped(&scratch, "data", "before.jsonl");
    let report = rekeyed(&scratch, &[]);
    let fingerprint = report["old_sealing_key"].as_str().unwrap();
    let former = format!("data.key.{fingerprint}");
    assert_eq!(
        report,
        json!({
            "directory": report["directory"],
            "secrets_resealed": 6,
            "secrets_damaged": 0,
            "sealing_key": report["sealing_key"],
            "sealing_key_file": scratch.path("data.key").canonicalize().unwrap(),
            "old_sealing_key": fingerprint,
            "old_sealing_key_file": scratch.path(".").canonicalize().unwrap().join(&former),
        })
    );
    assert_eq!(key_files(&scratch), ["data.key".to_owned(), former.clone()]);
    assert_ne!(fs::read_to_string(scratch.path("data.key")).unwrap(), old);
    assert_eq!(fs::read_to_string(scratch.path(&former)).unwrap(), old);
    assert_eq!(verified(&scratch), 6);
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.base_url();
    assert_eq!(server.terminate(), 0);

    // A dump made before needs the old key, which is found by its fingerprint.
    let dump = scratch.arg("before.jsonl");
    let verified = on(&scratch, "data", &["verify", "--dump", &dump]).ok();
    verified.shows("6 secrets opened");
    // One made now needs only the new one.
    dumped(&scratch, "data", "after.jsonl");
    fs::remove_file(scratch.path(&former)).unwrap();
    let dump = scratch.arg("after.jsonl");
    on(&scratch, "data", &["verify", "--dump", &dump]).ok();
    let dump = scratch.arg("before.jsonl");
    let differs = on(&scratch, "data", &["verify", "--dump", &dump]);
    assert_eq!(differs.code, 1, "{}", differs.stdout);
}

#[tokio::test]
async fn rekey_takes_the_new_key_from_a_file() {
    let scratch = complete().await;
    let file = scratch.path("new");
    fs::copy(scratch.path("data.key"), &file).unwrap();
    let new_key = format!("--new-key-file={}", scratch.arg("new"));
    // The key of the store already.
    let same = on(&scratch, "data", &["rekey", &new_key]).ok();
    same.shows("nothing to do");
    assert_eq!(key_files(&scratch), ["data.key"]);

    fs::write(&file, "0".repeat(64)).unwrap();
    assert_eq!(rekeyed(&scratch, &[&new_key])["secrets_resealed"], 6);
    assert_eq!(key_files(&scratch).len(), 2);
    assert_eq!(verified(&scratch), 6);
    // Repeated, it changes nothing.
    let report = rekeyed(&scratch, &[&new_key]);
    assert_eq!(report["secrets_resealed"], 0);
    assert_eq!(report["old_sealing_key_file"], Value::Null);
    let malformed = scratch.write("malformed", "no key");
    let malformed = format!("--new-key-file={malformed}");
    #[cfg(unix)]
    set_private(&scratch.path("malformed"));
    let refused = on(&scratch, "data", &["rekey", &malformed]).failed();
    refused.assert_has("contains no sealing key");
    assert_eq!(verified(&scratch), 6);
}

#[cfg(unix)]
fn set_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;

    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn rekey_needs_the_present_key_and_the_directory() {
    let scratch = complete().await;
    let right = fs::read_to_string(scratch.path("data.key")).unwrap();
    fs::write(scratch.path("data.key"), "1".repeat(64)).unwrap();
    let refused = on(&scratch, "data", &["rekey"]).failed();
    refused.assert_has("is not the one that sealed");
    fs::remove_file(scratch.path("data.key")).unwrap();
    let refused = on(&scratch, "data", &["rekey"]).failed();
    refused.assert_has("is missing; restore it");
    assert_eq!(key_files(&scratch), Vec::<String>::new());
    fs::write(scratch.path("data.key"), right).unwrap();
    #[cfg(unix)]
    set_private(&scratch.path("data.key"));
    assert_eq!(verified(&scratch), 6);

    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.base_url();
    let refused = on(&scratch, "data", &["rekey"]).failed();
    refused.assert_has("in use");
    assert_eq!(server.terminate(), 0);
    assert_eq!(key_files(&scratch), ["data.key"]);
}

/// Creates a store with many webhooks, in `data`. It is filled in memory, which is faster.
async fn large() -> Scratch {
    let scratch = Scratch::new();
    let data = DataConfig::at(scratch.path("data")).open().await.unwrap();
    let mut limits = Limits::default();
    limits.webhooks_per_workspace_max = MANY;
    let filled = Arc::new(MemoryStore::new());
    let options = data.options(limits);
    let service = KnowledgeService::open(filled.clone(), Env::system(), options);
    let service = service.await.unwrap();
    let new = new_organization("acme", "ada");
    let seed = Seed::new(&service, &new).await.unwrap();
    let workspace = seed.workspace(&new_workspace("research")).await.unwrap();
    for _ in 0..MANY {
        let url = "https://hooks.invalid/hook";
        let made = seed.webhook(workspace.id, EventType::ChunkCreated, url);
        made.await.unwrap();
    }
    let all = filled.scan_all(&KeyRange::all()).await.unwrap();
    for part in all.chunks(1_000) {
        let commit = part.iter().fold(Commit::builder(), |commit, found| {
            commit.put(found.key.clone(), found.entry.value.clone())
        });
        data.store.commit(commit.build().unwrap()).await.unwrap();
    }
    scratch
}

/// Starts the command and kills it `after` its next key is stored, unless it ends before.
fn kill_rekey(scratch: &Scratch, after: Duration) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_knowledge"));
    command.args(["rekey", &scratch.data_dir()]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    let began = Instant::now();
    let next = scratch.path("data.key.next");
    while !next.exists() && running.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < GUARD, "it does not begin");
        std::thread::yield_now();
    }
    std::thread::sleep(after);
    let _ = running.kill();
    running.wait().unwrap();
}

#[tokio::test]
async fn killed_rekey_is_completed_by_the_next() {
    let scratch = large().await;
    assert_eq!(verified(&scratch), MANY);
    for after in [0, 1, 5, 20, 60, 120, 250] {
        kill_rekey(&scratch, Duration::from_millis(after));
        // Between the keys, every secret is opened by one of them.
        assert_eq!(verified(&scratch), MANY, "{after} ms");
    }
    rekeyed(&scratch, &[]);
    assert_eq!(verified(&scratch), MANY);
    assert!(!scratch.path("data.key.next").exists());
}

/// A store as an interrupted command leaves it: no server starts, and the command completes it.
#[tokio::test]
async fn unfinished_rekey_stops_the_start() {
    let scratch = complete().await;
    let data = DataConfig::at(scratch.path("data")).open().await.unwrap();
    let new = knowledge_core::service::SealingKey::new([1; 32]);
    let (store, env, old) = (Arc::clone(&data.store), Env::system(), &data.sealing_key);
    let begun = knowledge_core::service::Rekey::begin(store, env, old, &new);
    assert!(begun.await.unwrap().step().await.unwrap());
    drop(data);
    let refused = on(&scratch, "data", &["serve", "--listen=127.0.0.1:0"]).failed();
    refused.assert_has("knowledge rekey");
    let refused = on(&scratch, "data", &["rekey"]).failed();
    assert!(refused.contains(&new.fingerprint()), "{refused}");
    let other = scratch.write("other", &"2".repeat(64));
    #[cfg(unix)]
    set_private(&scratch.path("other"));
    let refused = on(&scratch, "data", &["rekey", "--new-key-file", &other]).failed();
    refused.assert_has("complete it first");
    let right = scratch.write("right", &"01".repeat(32));
    #[cfg(unix)]
    set_private(&scratch.path("right"));
    let report = rekeyed(&scratch, &["--new-key-file", &right]);
    assert_eq!(report["secrets_resealed"], 6);
    assert_eq!(verified(&scratch), 6);
}
