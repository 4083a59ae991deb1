//! `knowledge restore`: into empty directories alone, whole or not at all.

use std::fs;
use std::sync::Arc;

use knowledge_core::dump::Restore;
use knowledge_core::store::Store;
use knowledge_server::backup::{DumpLines, check};
use knowledge_server::data::DataConfig;

use super::{complete, dumped, on};
use crate::support::{Scratch, knowledge};

#[tokio::test]
async fn a_damaged_dump_is_refused_with_its_line_before_anything_is_made() {
    let scratch = complete().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    let lines: Vec<_> = whole.lines().collect();
    let count = lines.len();
    let cut = lines[..count - 1].join("\n") + "\n";
    let mut exchanged = lines.clone();
    exchanged.swap(4, 5);
    let exchanged = exchanged.join("\n") + "\n";
    let altered = whole.replacen("\"And then?\"", "\"And now?!\"", 1);
    for (damaged, problem) in [
        (cut, format!("line {count} of the dump is cut off")),
        (whole[..whole.len() / 2].to_owned(), "is cut off".to_owned()),
        (
            exchanged,
            "line 6 of the dump does not stand in the order".to_owned(),
        ),
        (
            altered,
            format!("line {count} of the dump has another checksum"),
        ),
        (
            "title,content\n".to_owned(),
            "line 1 of the dump is not the first line".to_owned(),
        ),
        (String::new(), "line 1 of the dump is cut off".to_owned()),
    ] {
        let path = scratch.write("damaged.jsonl", &damaged);
        let refused = on(&scratch, "copy", &["restore", &path]).failed();
        assert!(refused.contains(&problem), "{refused}, not {problem}");
        assert!(refused.contains("damaged.jsonl"), "{refused}");
        assert!(!scratch.path("copy").exists());
    }
}

#[tokio::test]
async fn a_directory_that_has_something_is_refused() {
    let scratch = complete().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    let refused = on(&scratch, "data", &["restore", &scratch.arg("whole.jsonl")]).failed();
    assert!(refused.contains("not empty"), "{refused}");
    assert!(dumped(&scratch, "data", "again.jsonl") == whole);
    fs::create_dir(scratch.path("files")).unwrap();
    scratch.write("files/a.txt", "mine");
    let refused = on(&scratch, "files", &["restore", &scratch.arg("whole.jsonl")]).failed();
    assert!(refused.contains("holds files of another kind"), "{refused}");
}

/// Restores the first lines and no more, as a process that is killed.
async fn half(scratch: &Scratch, dump: &str, lines: usize) {
    let lines_of = || DumpLines::open(&scratch.path(dump)).unwrap();
    let expected = check(lines_of(), |_, _| {}).unwrap().summary;
    let store: Arc<dyn Store> = DataConfig::at(scratch.path("copy")).make_store().unwrap();
    let mut restore = Restore::begin(store, Some(expected)).await.unwrap();
    let mut all = lines_of();
    for _ in 0..lines {
        restore.take(all.read().unwrap().unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn an_interrupted_restore_is_finished_by_the_same_dump_and_served_by_nobody() {
    let scratch = complete().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    half(&scratch, "whole.jsonl", 1_000).await;
    let copy = format!("--data-dir={}", scratch.arg("copy"));
    fs::copy(scratch.path("data.key"), scratch.path("copy.key")).unwrap();
    for args in [
        &["serve", "--listen=127.0.0.1:0"][..],
        &["init", "--org-slug=other"],
        &["token", "list"],
        &["dump", &scratch.arg("none.jsonl")],
    ] {
        let refused = knowledge(&[args, &[&*copy]].concat()).failed();
        assert!(
            refused.contains("restore into this store was not finished"),
            "{args:?}: {refused}"
        );
    }
    let verified = on(&scratch, "copy", &["verify"]);
    assert_eq!(verified.code, 1);
    assert!(
        verified.stdout.contains("meta: unfinished"),
        "{}",
        verified.stdout
    );

    let other = dumped(&Scratch::with_org(), "data", "other.jsonl");
    let other = scratch.write("other.jsonl", &other);
    let refused = on(&scratch, "copy", &["restore", &other]).failed();
    assert!(refused.contains("only the same dump"), "{refused}");

    on(&scratch, "copy", &["restore", &scratch.arg("whole.jsonl")]).ok();
    assert!(dumped(&scratch, "copy", "copy.jsonl") == whole);
    on(&scratch, "copy", &["verify"]).ok();
}

#[tokio::test]
async fn the_key_that_is_needed_is_told() {
    let scratch = complete().await;
    dumped(&scratch, "data", "whole.jsonl");
    let dump = scratch.arg("whole.jsonl");
    let told = on(&scratch, "one", &["restore", &dump]).ok().stderr;
    assert!(
        told.contains("one.key") && told.contains("fingerprint"),
        "{told}"
    );
    fs::copy(scratch.path("data.key"), scratch.path("two.key")).unwrap();
    let told = on(&scratch, "two", &["restore", &dump]).ok().stderr;
    assert!(!told.contains("fingerprint"), "{told}");
}
