//! Tests of `knowledge restore`: only into empty directories, and completely or not at all.

use std::fs;
use std::sync::Arc;

use knowledge_core::dump::Restore;
use knowledge_core::store::Store;
use knowledge_server::backup::{DumpLines, check};
use knowledge_server::data::DataConfig;

use super::{complete, dumped, on};
use crate::support::{Scratch, knowledge};

#[tokio::test]
async fn restore_rejects_damaged_dump_with_its_line_before_writing() {
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
            "line 6 of the dump is not in key order".to_owned(),
        ),
        (
            altered,
            format!("line {count} of the dump has a checksum that does not match"),
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
async fn restore_rejects_non_empty_directory() {
    let scratch = complete().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    let refused = on(&scratch, "data", &["restore", &scratch.arg("whole.jsonl")]).failed();
    assert!(refused.contains("not empty"), "{refused}");
    assert!(dumped(&scratch, "data", "again.jsonl") == whole);
    fs::create_dir(scratch.path("files")).unwrap();
    scratch.write("files/a.txt", "mine");
    let refused = on(&scratch, "files", &["restore", &scratch.arg("whole.jsonl")]).failed();
    assert!(refused.contains("contains other files"), "{refused}");
}

/// Restores only the first lines, as a process that is killed does.
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
async fn interrupted_restore_is_not_served_until_completed() {
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
            refused.contains("the store contains an unfinished restore"),
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
async fn restore_names_the_required_key() {
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
