//! Tests of `knowledge copy`: the same entries in a store of another engine.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use knowledge_core::store::{Commit, Key, StoreExt};
use knowledge_server::data::DataConfig;
use knowledge_server::store_address::StoreAddress;
use serde_json::Value;

use super::{complete, dumped, on, strays};
use crate::support::{AssertText, Finished, Scratch, knowledge, knowledge_in, start, words};

fn flag(name: &str, engine: &str, scratch: &Scratch, directory: &str) -> String {
    format!("--{name}={engine}:{}", scratch.arg(directory))
}

/// Copies from one engine and directory to another.
fn copy(scratch: &Scratch, from: (&str, &str), to: (&str, &str)) -> Finished {
    knowledge(&[
        "copy",
        &flag("from", from.0, scratch, from.1),
        &flag("to", to.0, scratch, to.1),
        "--output=json",
    ])
}

#[tokio::test]
async fn copy_between_engines_keeps_every_entry() {
    let scratch = complete().await;
    let before = dumped(&scratch, "data", "before.jsonl");
    for (from, to) in [
        (("sled", "data"), ("fjall", "there")),
        (("fjall", "there"), ("sled", "back")),
        (("sled", "back"), ("sled", "again")),
        (("fjall", "there"), ("fjall", "twice")),
    ] {
        let report = copy(&scratch, from, to).ok().stdout;
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["to"], format!("{}:{}", to.0, scratch.arg(to.1)));
        assert!(
            before.contains(report["sha256"].as_str().unwrap()),
            "{report}"
        );
        assert!(dumped(&scratch, to.1, &format!("{}.jsonl", to.1)) == before);
        // With the key copied, each secret is verified, and the copy can be served.
        let verified = on(&scratch, to.1, &["verify", "--output=json"]).ok().stdout;
        let verified: Value = serde_json::from_str(&verified).unwrap();
        assert!(verified["secrets_opened"].as_u64() > Some(0), "{verified}");
    }
    let server = start(&[
        "serve",
        &flag("store", "fjall", &scratch, "there"),
        "--listen=127.0.0.1:0",
    ]);
    server.base_url();
    assert_eq!(server.terminate(), 0);
}

/// Returns true if a slot of the mark, which follows each commit, names one.
fn has_commits(mark: &Path) -> bool {
    let bytes = fs::read(mark).unwrap_or_default();
    let slots = [0, 4_096].map(|at| bytes.get(at..at + 8));
    slots
        .iter()
        .flatten()
        .any(|slot| slot.iter().any(|byte| *byte != 0))
}

#[tokio::test]
async fn interrupted_copy_resumes_with_the_same_source() {
    let scratch = complete().await;
    let store = DataConfig::at(scratch.path("data")).open_store().unwrap();
    for part in 0..20 {
        let puts = (0..500).fold(Commit::builder(), |commit, number| {
            let key = Key::new(format!("stray/{part:02}/{number:05}")).unwrap();
            commit.put(key, format!("\"{number:0900}\""))
        });
        store.commit(puts.build().unwrap()).await.unwrap();
    }
    drop(store);
    let before = dumped(&scratch, "data", "before.jsonl");
    let (from, to) = (
        flag("from", "sled", &scratch, "data"),
        flag("to", "fjall", &scratch, "new"),
    );
    let copying = start(&["copy", &from, &to]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !has_commits(&scratch.path("new/knowledge-store.mark")) {
        assert!(Instant::now() < deadline, "nothing is copied");
        std::thread::yield_now();
    }
    copying.kill();
    let half = flag("store", "fjall", &scratch, "new");
    let key = scratch.arg("data.key");
    let refused = knowledge(&words(&format!(
        "serve {half} --listen=127.0.0.1:0 --sealing-key-file {key}"
    )));
    assert!(
        refused.failed().contains("restore"),
        "half a copy is not served"
    );
    copy(&scratch, ("sled", "data"), ("fjall", "new")).ok();
    assert!(dumped(&scratch, "new", "after.jsonl") == before);
}

#[tokio::test]
async fn copy_rejects_loss_of_data() {
    let scratch = complete().await;
    let refused = copy(&scratch, ("sled", "data"), ("sled", "./data"));
    assert!(refused.refused().contains("the same store"));
    let refused = copy(&scratch, ("fjall", "data"), ("sled", "new"));
    let message = refused.failed();
    message.assert_has("contains a sled store");
    let refused = copy(&scratch, ("sled", "none"), ("fjall", "new"));
    assert!(refused.failed().contains("there is no store in"));
    let other = DataConfig::of(
        format!("fjall:{}", scratch.arg("other"))
            .parse::<StoreAddress>()
            .unwrap(),
    );
    let store = other.make_store().unwrap();
    store.commit(strays(3).build().unwrap()).await.unwrap();
    drop(store);
    let refused = copy(&scratch, ("sled", "data"), ("fjall", "other"));
    let message = refused.failed();
    message.assert_has("is not empty");
    let store = other.make_store().unwrap();
    let kept = store
        .get(&[Key::new("stray/00001").unwrap()])
        .await
        .unwrap();
    assert!(kept[0].is_some());
    drop(store);
    for memory in [
        ["--from=memory:", "--to=sled:x"],
        ["--from=sled:x", "--to=memory:"],
    ] {
        let refused = knowledge(&[&["copy"], &memory[..]].concat());
        assert!(refused.failed().contains("exists only in the process"));
    }
    let held = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    held.base_url();
    let refused = copy(&scratch, ("sled", "data"), ("fjall", "new"));
    assert!(refused.failed().contains("is in use by process"));
    assert_eq!(held.terminate(), 0);
    assert!(
        fs::read_dir(scratch.path("new")).is_err(),
        "nothing was made"
    );
}

#[test]
fn store_in_memory_serves_until_its_process_ends() {
    let scratch = Scratch::new();
    let socket = scratch.arg("admin.sock");
    let server = start(&words(&format!(
        "serve --store=memory: --listen=127.0.0.1:0 --admin-socket={socket}"
    )));
    server.base_url();
    let admin = ["--store=memory:", &*format!("--admin-socket={socket}")];
    knowledge(&[&["org", "create", "acme", "--name=Acme"], &admin[..]].concat()).ok();
    let listed = knowledge(&[&["org", "list"], &admin[..]].concat()).ok();
    listed.shows("acme");
    let dump = scratch.arg("memory.jsonl");
    knowledge(&[&["backup", &*dump], &admin[..]].concat()).ok();
    assert!(fs::read_to_string(&dump).unwrap().contains("acme"));
    assert_eq!(server.terminate(), 0);
    let refused = knowledge(&["org", "list", "--store=memory:"]).failed();
    refused.assert_has("exists only in the process");
}

#[test]
fn store_address_is_validated() {
    let refused = knowledge(&["verify", "--store=redb:x"]).refused();
    assert!(
        refused.contains(
            "sled:DIR, fjall:DIR, postgres://USER@HOST/DATABASE or, for a server, memory:"
        ),
        "{refused}"
    );
    let refused = knowledge(&["verify", "--store=sled:x", "--data-dir=y"]).refused();
    refused.assert_has("set only one of them");
}

#[test]
fn flag_overrides_environment_for_store_and_directory() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.arg(name);
    let fjall = format!("fjall:{}", path("one"));
    // A flag may name a store although the environment names a directory.
    let by_flag = ["org", "create", "acme", "--name=Acme", "--store", &fjall];
    knowledge_in(&[("KNOWLEDGE_STORAGE__DATA_DIR", &path("two"))], &by_flag).ok();
    assert!(scratch.path("one/fjall").exists() && !scratch.path("two").exists());
    let by_flag = [
        "org",
        "create",
        "acme",
        "--name=Acme",
        "--data-dir",
        &path("two"),
    ];
    knowledge_in(&[("KNOWLEDGE_STORAGE__STORE", &fjall)], &by_flag).ok();
    assert!(scratch.path("two/db").exists());
    let both = [
        ("KNOWLEDGE_STORAGE__STORE", &*fjall),
        ("KNOWLEDGE_STORAGE__DATA_DIR", &*path("two")),
    ];
    let refused = knowledge_in(&both, &["org", "list"]).refused();
    refused.assert_has("set only one of them");
}

#[tokio::test]
async fn damaged_source_is_not_copied() {
    let scratch = complete().await;
    let config = DataConfig::at(scratch.path("data"));
    drop(config.open_store().unwrap());
    // Removes an entry directly from the database.
    let database = sled_of(&scratch.path("data"));
    let (key, _) = database.range(b"d".to_vec()..).next().unwrap().unwrap();
    database.remove(key).unwrap();
    database.flush().unwrap();
    drop(database);
    let before = files(&scratch);
    for refused in [
        copy(&scratch, ("sled", "data"), ("fjall", "new")),
        on(&scratch, "data", &["compact"]),
        on(&scratch, "data", &["dump", &scratch.arg("dump.jsonl")]),
        on(&scratch, "data", &["verify"]),
    ] {
        let message = refused.failed();
        message.assert_has("differ from the ledger");
    }
    assert_eq!(files(&scratch), before, "the old store is where it was");
    assert!(!scratch.path("dump.jsonl").exists());
}

/// A mistyped address may have a password.
#[test]
fn copy_does_not_quote_an_invalid_address() {
    let address = "pgsql://app:hunter2@db/knowledge";
    for args in [
        ["copy", "--from", address, "--to", "sled:new"],
        ["copy", "--from", "sled:data", "--to", address],
        ["demo", "--store", address, "--memories", "10"],
    ] {
        let refused = knowledge(&args).refused();
        refused.assert_has("must be sled:DIR, fjall:DIR, postgres://USER@HOST/DATABASE");
        refused.assert_lacks("hunter2");
    }
}

#[tokio::test]
async fn complete_copy_is_compared_when_copied_again() {
    let scratch = complete().await;
    copy(&scratch, ("sled", "data"), ("fjall", "new")).ok();
    fs::remove_file(scratch.path("new.key")).unwrap();
    // The state of an interruption between the last entry and the key.
    copy(&scratch, ("sled", "data"), ("fjall", "new")).ok();
    assert!(scratch.path("new.key").exists());
    let store = DataConfig::at(scratch.path("new")).open_store().unwrap();
    store.commit(strays(1).build().unwrap()).await.unwrap();
    drop(store);
    let message = copy(&scratch, ("sled", "data"), ("fjall", "new")).failed();
    message.assert_has("is not empty");
}

/// Opens the database of a sled store directly. After a store is closed, sled may release it late.
fn sled_of(path: &Path) -> sled::Db {
    let config = sled::Config::new().path(path).segment_size(16 << 20);
    let began = Instant::now();
    loop {
        match config.open() {
            Ok(database) => return database,
            Err(error) if began.elapsed() > Duration::from_secs(10) => panic!("{error}"),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Returns the stores and keys in the scratch directory.
fn files(scratch: &Scratch) -> Vec<String> {
    let names = fs::read_dir(scratch.path(".")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names
        .filter(|name| ["data", "data.key"].contains(&name.as_str()))
        .collect();
    names.sort();
    names
}
