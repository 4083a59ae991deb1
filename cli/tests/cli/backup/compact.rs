//! Tests of `knowledge compact`: smaller, the same data, and recoverable after any interruption.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use knowledge_core::store::{Commit, Key};
use knowledge_http_suite::rows;
use knowledge_server::backup::compaction::{
    CompactionError, CompactionReport, Phase, Step, Watcher, compact,
};
use knowledge_server::backup::switch::SwitchError;
use knowledge_server::data::{DataConfig, DataError};
use knowledge_storage_embedded::OpenError;
use serde_json::Value;

use super::{complete, dumped, on};
use crate::support::{AssertText, Scratch, start};

/// Overwrites the same entries repeatedly.
async fn bloat(scratch: &Scratch) {
    let store = DataConfig::at(scratch.path("data")).open_store().unwrap();
    for round in 0..200 {
        let commit = (0..200).fold(Commit::builder(), |commit, number| {
            let key = Key::new(format!("stray/{number}")).unwrap();
            let value = format!("\"{round:0width$}\"", width = 1_000 + number);
            commit.put(key, value)
        });
        store.commit(commit.build().unwrap()).await.unwrap();
    }
}

/// Returns the names in the scratch directory, without dumps and the permanent journal.
fn names(scratch: &Scratch) -> Vec<String> {
    let found = fs::read_dir(scratch.path(".")).unwrap();
    let names = found.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names
        .filter(|name| !name.ends_with(".jsonl") && name != "data.compaction.lock")
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn compaction_shrinks_store_and_keeps_its_contents() {
    let scratch = complete().await;
    bloat(&scratch).await;
    let before = dumped(&scratch, "data", "before.jsonl");
    let compacted = on(&scratch, "data", &["compact", "--output=json"]).ok();
    let report: Value = serde_json::from_str(&compacted.stdout).unwrap();
    let bytes = |name: &str| report[name].as_u64().unwrap();
    assert!(bytes("bytes_after") < bytes("bytes_before") / 2, "{report}");
    assert_eq!(report["kept"], Value::Null);
    assert_eq!(names(&scratch), ["data", "data.key"]);
    assert!(dumped(&scratch, "data", "after.jsonl") == before);
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.base_url();
    assert_eq!(server.terminate(), 0);
}

/// Returns the space that the files of a directory take on the disk.
fn allocated_bytes(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap();
    let metadata = files.map(|file| file.unwrap().metadata().unwrap());
    let files = metadata.filter(fs::Metadata::is_file);
    files.map(|file| file.blocks() * 512).sum()
}

#[tokio::test]
async fn compaction_measures_both_stores_on_the_disk() {
    let scratch = complete().await;
    bloat(&scratch).await;
    for _ in 0..2 {
        let before = allocated_bytes(&scratch.path("data"));
        let compacted = on(&scratch, "data", &["compact", "--output=json"]).ok();
        let report: Value = serde_json::from_str(&compacted.stdout).unwrap();
        assert_eq!(report["bytes_before"], before, "{report}");
        let after = allocated_bytes(&scratch.path("data"));
        assert_eq!(report["bytes_after"], after, "{report}");
    }
}

/// Dumps the old store.
///
/// It only opens once its mark is removed, since it may have other names, by which no process must
/// continue to use it.
fn dumped_kept(scratch: &Scratch) -> String {
    let refused = on(scratch, "data.old", &["verify"]).refused();
    refused.assert_has("was replaced; open");
    fs::remove_file(scratch.path("data.old/knowledge-store.replaced")).unwrap();
    dumped(scratch, "data.old", "old.jsonl")
}

#[tokio::test]
async fn compaction_removes_only_files_of_the_store() {
    let scratch = complete().await;
    scratch.write("data/notes.txt", "mine");
    let refused = on(&scratch, "data", &["compact"]).failed();
    refused.assert_has("it contains notes.txt, which does not belong to the store");
    assert!(scratch.path("data/notes.txt").exists());
    let nested = DataConfig::at(scratch.path("data/inner")).make_store();
    assert!(
        matches!(nested, Err(DataError::Nested { .. })),
        "{nested:?}"
    );
    assert!(!scratch.path("data/inner").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn compaction_follows_link_between_two_renames() {
    let scratch = complete().await;
    let before = dumped(&scratch, "data", "before.jsonl");
    std::os::unix::fs::symlink("data", scratch.path("link")).unwrap();
    let config = DataConfig::at(scratch.path("data"));
    let ended = compact(&config, false, &mut Ends(Some(Step::OldRenamed))).await;
    assert!(matches!(ended, Err(CompactionError::Stopped)), "{ended:?}");
    assert!(!scratch.path("data").exists(), "the link leads nowhere");
    assert!(dumped(&scratch, "link", "after.jsonl") == before);
}

#[tokio::test]
async fn compaction_keeps_old_store_on_request() {
    let scratch = complete().await;
    let before = dumped(&scratch, "data", "before.jsonl");
    let compacted = on(&scratch, "data", &["compact", "--keep"]).ok();
    compacted.shows("data.old");
    assert_eq!(names(&scratch), ["data", "data.key", "data.old"]);
    assert!(dumped(&scratch, "data", "after.jsonl") == before);
    assert!(dumped_kept(&scratch) == before);
    let again = on(&scratch, "data", &["compact", "--keep"]).failed();
    again.assert_has("data.old");
    let hint = "an earlier `knowledge compact --keep` kept; rename or remove";
    again.assert_has(hint);
    assert_eq!(names(&scratch), ["data", "data.key", "data.old"]);
}

#[tokio::test]
async fn compaction_rejects_store_in_use_or_immovable() {
    let scratch = complete().await;
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.base_url();
    let refused = on(&scratch, "data", &["compact"]).failed();
    refused.assert_has("is in use by process");
    assert_eq!(server.terminate(), 0);
    assert_eq!(names(&scratch), ["data", "data.key"]);
}

/// Opens the store by a link, by the path of the directory, and by the old store's path.
#[cfg(unix)]
struct OtherNames {
    scratch: Scratch,
    refused: Vec<(Step, usize)>,
}

#[cfg(unix)]
impl Watcher for OtherNames {
    fn progress(&mut self, _: Phase, _: u64, _: u64) {}

    fn step(&mut self, step: Step) -> Result<(), CompactionError> {
        let names = ["data", "link", "data.before-compaction"];
        let there = names.map(|name| self.scratch.path(name));
        let there = there
            .iter()
            .filter(|path| path.exists() && step != Step::Removed);
        let mut refused = 0;
        for path in there {
            let opened = DataConfig::at(path).make_store();
            // The old directory has another name, and this process locks it until it is removed.
            if path.ends_with("data.before-compaction") {
                let own = Some(std::process::id());
                assert!(
                    matches!(opened, Err(DataError::Store(OpenError::InUse { holder, .. })) if holder == own),
                    "{step:?}: {opened:?}"
                );
            }
            assert!(opened.is_err(), "{step:?}: {}", path.display());
            refused += 1;
        }
        self.refused.push((step, refused));
        Ok(())
    }
}

#[cfg(unix)]
#[tokio::test]
async fn compaction_locks_the_directory_under_each_of_its_names() {
    let scratch = complete().await;
    let before = dumped(&scratch, "data", "before.jsonl");
    std::os::unix::fs::symlink("data", scratch.path("link")).unwrap();
    let by_link = DataConfig::at(scratch.path("link"));
    let mut others = OtherNames {
        scratch,
        refused: Vec::new(),
    };
    // The link is resolved: the directory is compacted, and the link still leads to it.
    compact(&by_link, false, &mut others).await.unwrap();
    assert!(
        others.refused.contains(&(Step::Copied, 2)),
        "{:?}",
        others.refused
    );
    assert!(
        others.refused.contains(&(Step::OldRenamed, 1)),
        "{:?}",
        others.refused
    );
    assert!(
        others.refused.contains(&(Step::NewRenamed, 3)),
        "{:?}",
        others.refused
    );
    let scratch = others.scratch;
    assert!(scratch.path("link").is_symlink());
    assert!(dumped(&scratch, "link", "after.jsonl") == before);
}

#[tokio::test]
async fn old_store_of_interrupted_compaction_is_not_opened() {
    let scratch = complete().await;
    let config = DataConfig::at(scratch.path("data"));
    let ended = compact(&config, false, &mut Ends(Some(Step::NewRenamed))).await;
    assert!(matches!(ended, Err(CompactionError::Stopped)), "{ended:?}");
    // Its lock is free, and nothing refers to its name.
    let opened = DataConfig::at(scratch.path("data.before-compaction")).make_store();
    assert!(
        matches!(opened, Err(DataError::Store(OpenError::Replaced { .. }))),
        "{opened:?}"
    );
    on(&scratch, "data", &["verify"]).ok();
    assert_eq!(names(&scratch), ["data", "data.key"]);
}

#[tokio::test]
async fn compaction_without_free_space_writes_nothing() {
    let scratch = complete().await;
    let config = DataConfig {
        free_bytes_min: u64::MAX / 2,
        ..DataConfig::at(scratch.path("data"))
    };
    let refused = compact(&config, false, &mut Ends(None)).await;
    assert!(
        matches!(refused, Err(CompactionError::InsufficientSpace { .. })),
        "{refused:?}"
    );
    assert_eq!(names(&scratch), ["data", "data.key"]);
}

/// Makes the first rename fail, once the new store is complete.
struct Obstructs(PathBuf);

impl Watcher for Obstructs {
    fn progress(&mut self, _: Phase, _: u64, _: u64) {}

    fn step(&mut self, step: Step) -> Result<(), CompactionError> {
        if step == Step::Copied {
            std::os::unix::fs::symlink("nowhere", &self.0).unwrap();
        }
        Ok(())
    }
}

/// A container may lose what is beside the directory of its volume: the store must open without it.
#[tokio::test]
async fn compaction_that_cannot_rename_leaves_no_mark() {
    let scratch = complete().await;
    let before = dumped(&scratch, "data", "before.jsonl");
    let config = DataConfig::at(scratch.path("data"));
    let link = scratch.path("data.before-compaction");
    let failed = compact(&config, false, &mut Obstructs(link.clone())).await;
    assert!(
        matches!(failed, Err(CompactionError::Switch(SwitchError::Io { .. }))),
        "{failed:?}"
    );
    fs::remove_file(link).unwrap();
    assert!(!scratch.path("data/knowledge-store.replaced").exists());
    assert_eq!(names(&scratch), ["data", "data.key"]);
    fs::remove_file(scratch.path("data.compaction.lock")).unwrap();
    assert!(dumped(&scratch, "data", "after.jsonl") == before);
}

/// Ends a compaction at a step, as a kill does.
struct Ends(Option<Step>);

impl Watcher for Ends {
    fn progress(&mut self, _: Phase, _: u64, _: u64) {}

    fn step(&mut self, step: Step) -> Result<(), CompactionError> {
        if self.0 == Some(step) {
            return Err(CompactionError::Stopped);
        }
        Ok(())
    }
}

#[tokio::test]
async fn compaction_interrupted_at_any_step_leaves_a_complete_store() {
    let scratch = complete().await;
    let before = dumped(&scratch, "data", "before.jsonl");
    let config = DataConfig::at(scratch.path("data"));
    for (step, left) in rows! {
        (Step::HalfCopied, &["data", "data.compacting", "data.key"][..]),
        (Step::Copied, &["data", "data.compacting", "data.key"]),
        (Step::OldRenamed, &["data.before-compaction", "data.compacting", "data.key"]),
        (Step::NewRenamed, &["data", "data.before-compaction", "data.key"]),
        (Step::Removed, &["data", "data.key"]),
    } {
        let ended = compact(&config, false, &mut Ends(Some(step))).await;
        assert!(
            matches!(ended, Err(CompactionError::Stopped)),
            "{step:?}: {ended:?}"
        );
        assert_eq!(names(&scratch), left, "{step:?}");
        // Any command that opens the directory completes the swap, without other changes.
        on(&scratch, "data", &["verify"]).ok();
        assert_eq!(names(&scratch), ["data", "data.key"], "{step:?}");
        let after = dumped(&scratch, "data", &format!("{step:?}.jsonl"));
        assert!(after == before, "{step:?}");
    }
}

#[tokio::test]
async fn server_completes_swap_before_creating_a_store() {
    let scratch = complete().await;
    let config = DataConfig::at(scratch.path("data"));
    let ended = compact(&config, false, &mut Ends(Some(Step::OldRenamed))).await;
    assert!(matches!(ended, Err(CompactionError::Stopped)), "{ended:?}");
    assert!(!scratch.path("data").exists());
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.base_url();
    assert_eq!(server.terminate(), 0);
    assert_eq!(names(&scratch), ["data", "data.key"]);
    let verified = on(&scratch, "data", &["verify", "--output=json"]).ok();
    let report: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(report["secrets_opened"], 6);
}

#[tokio::test]
async fn empty_directory_does_not_replace_the_store() {
    let scratch = complete().await;
    let config = DataConfig::at(scratch.path("data"));
    let ended = compact(&config, false, &mut Ends(Some(Step::OldRenamed))).await;
    assert!(matches!(ended, Err(CompactionError::Stopped)), "{ended:?}");
    fs::create_dir(scratch.path("data")).unwrap();
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.base_url();
    assert_eq!(server.terminate(), 0);
    assert_eq!(names(&scratch), ["data", "data.key"]);
    let verified = on(&scratch, "data", &["verify", "--output=json"]).ok();
    let report: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(report["secrets_opened"], 6);
}

#[tokio::test]
async fn compaction_keeps_directories_that_it_did_not_create() {
    let scratch = complete().await;
    let config = DataConfig::at(scratch.path("data"));
    compact(&config, false, &mut Ends(None)).await.unwrap();
    for (name, left) in rows! {
        ("data.before-compaction", ["data", "data.before-compaction", "data.key"]),
        ("data.compacting", ["data", "data.compacting", "data.key"]),
    } {
        fs::create_dir(scratch.path(name)).unwrap();
        scratch.write(&format!("{name}/letter.txt"), "dear");
        on(&scratch, "data", &["verify"]).ok();
        let refused = on(&scratch, "data", &["compact"]).failed();
        let told = format!(
            "{} exists and was not created by a compaction",
            scratch.arg(name)
        );
        refused.assert_has(&told);
        on(&scratch, "data", &["verify"]).ok();
        assert_eq!(names(&scratch), left);
        assert!(scratch.path(&format!("{name}/letter.txt")).exists());
        fs::remove_dir_all(scratch.path(name)).unwrap();
    }
}

#[tokio::test]
async fn compaction_rejects_unexpected_remains() {
    let scratch = complete().await;
    let before = dumped(&scratch, "data", "before.jsonl");
    let config = DataConfig::at(scratch.path("data"));
    let ended = compact(&config, false, &mut Ends(Some(Step::OldRenamed))).await;
    assert!(matches!(ended, Err(CompactionError::Stopped)), "{ended:?}");
    // Without the new store, then without the journal.
    for hidden in ["data.compacting", "data.compaction.lock"] {
        fs::rename(scratch.path(hidden), scratch.path("hidden")).unwrap();
        let opened = config.make_store();
        assert!(
            matches!(
                opened,
                Err(DataError::Switch(SwitchError::Inconsistent { .. }))
            ),
            "{hidden}: {opened:?}"
        );
        assert!(!scratch.path("data").exists(), "{hidden}");
        fs::rename(scratch.path("hidden"), scratch.path(hidden)).unwrap();
    }
    assert!(dumped(&scratch, "data", "after.jsonl") == before);
}

#[tokio::test]
async fn compaction_keeps_old_store_despite_interruption() {
    let scratch = complete().await;
    let before = dumped(&scratch, "data", "before.jsonl");
    let config = DataConfig::at(scratch.path("data"));
    let ended = compact(&config, true, &mut Ends(Some(Step::OldRenamed))).await;
    assert!(matches!(ended, Err(CompactionError::Stopped)), "{ended:?}");
    assert_eq!(names(&scratch), ["data.compacting", "data.key", "data.old"]);
    // A compaction also recovers an earlier one, here with the old store in the way of its own.
    let again = compact(&config, true, &mut Ends(None)).await;
    assert!(
        matches!(again, Err(CompactionError::NotReplaceable { .. })),
        "{again:?}"
    );
    assert_eq!(names(&scratch), ["data", "data.key", "data.old"]);
    assert!(dumped(&scratch, "data", "after.jsonl") == before);
    assert!(dumped_kept(&scratch) == before);
    let done: CompactionReport = compact(&config, false, &mut Ends(None)).await.unwrap();
    assert_eq!(done.kept, None);
}

/// A watcher that opens the directory at each step of a compaction.
struct Looks {
    config: DataConfig,
    refused: u32,
}

impl Watcher for Looks {
    fn progress(&mut self, _: Phase, _: u64, _: u64) {}

    fn step(&mut self, step: Step) -> Result<(), CompactionError> {
        if step != Step::Removed {
            let opened = self.config.make_store();
            assert!(
                matches!(opened, Err(DataError::Switch(_))),
                "{step:?}: {opened:?}"
            );
            self.refused += 1;
        }
        Ok(())
    }
}

#[tokio::test]
async fn compaction_locks_the_directory_throughout() {
    let scratch = complete().await;
    let config = DataConfig::at(scratch.path("data"));
    let mut looks = Looks {
        config: config.clone(),
        refused: 0,
    };
    compact(&config, false, &mut looks).await.unwrap();
    assert!(looks.refused >= 4);
    config.open_store().unwrap();
}
