//! Tests of `knowledge dump`: complete files, the same bytes, and resumption.

use std::fs;
use std::io::Write;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;

use knowledge_server::backup::{DumpFile, Origin};
use knowledge_server::data::DataConfig;
use serde_json::Value;

use super::{complete, dumped, on, plant, strays};
use crate::support::{AssertText, Scratch, knowledge};

#[tokio::test]
async fn restored_dump_is_dumped_to_the_same_bytes() {
    let scratch = complete().await;
    let first = dumped(&scratch, "data", "first.jsonl");
    let file = scratch.arg("first.jsonl");
    let restored = on(&scratch, "copy", &["restore", "--keep-credentials", &file]).ok();
    restored.shows(" entries, SHA-256 ");
    assert!(dumped(&scratch, "copy", "second.jsonl") == first);
    assert!(dumped(&scratch, "data", "third.jsonl") == first);
    // There are no other files, and other users cannot read it.
    assert!(!scratch.path("first.jsonl.partial").exists());
    assert!(!scratch.path("first.jsonl.partial.origin").exists());
    let mode = fs::metadata(scratch.path("first.jsonl"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[tokio::test]
async fn dump_summary_is_that_of_its_last_line() {
    let scratch = complete().await;
    let path = scratch.arg("dump.jsonl");
    let said = on(&scratch, "data", &["dump", &path, "--output=json"]).ok();
    let said: Value = serde_json::from_str(&said.stdout).unwrap();
    let dump = fs::read_to_string(&path).unwrap();
    let last: Value = serde_json::from_str(dump.lines().last().unwrap()).unwrap();
    assert_eq!(said["entries"], last["entries"]);
    assert_eq!(said["sha256"], last["sha256"]);
    assert_eq!(last["entries"], dump.lines().count() - 2);
}

#[tokio::test]
async fn dump_and_restore_use_standard_streams() {
    let scratch = complete().await;
    let file = dumped(&scratch, "data", "dump.jsonl");
    let streamed = on(&scratch, "data", &["dump", "-"]).ok();
    assert!(streamed.stdout == file);
    let mut restoring = std::process::Command::new(env!("CARGO_BIN_EXE_knowledge"))
        .args(["restore", "-", "--keep-credentials"])
        .args(["--data-dir", &scratch.arg("copy")])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut input = restoring.stdin.take().unwrap();
    input.write_all(file.as_bytes()).unwrap();
    drop(input);
    assert!(restoring.wait().unwrap().success());
    assert!(dumped(&scratch, "copy", "copy.jsonl") == file);
}

#[tokio::test]
async fn dump_overwrites_a_file_only_on_request() {
    let scratch = complete().await;
    let path = scratch.write("dump.jsonl", "mine");
    let refused = on(&scratch, "data", &["dump", &path]).failed();
    refused.assert_has("--force");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    on(&scratch, "data", &["dump", &path, "--force"]).ok();
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .starts_with("{\"format\":")
    );
}

#[test]
fn dump_without_a_store_fails() {
    let scratch = Scratch::new();
    let refused = on(&scratch, "data", &["dump", &scratch.arg("dump.jsonl")]).failed();
    refused.assert_has("there is no store in");
    assert!(!scratch.path("data").exists() && !scratch.path("dump.jsonl").exists());
}

/// Leaves the files of a dump that was killed after this many bytes.
fn interrupted(scratch: &Scratch, whole: &str, bytes: usize) {
    let config = DataConfig::at(scratch.path("data"));
    let origin = Origin {
        directory: scratch
            .path("data")
            .canonicalize()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned(),
        revision: config.open_store().unwrap().revision(),
    };
    let mut file = DumpFile::create(&scratch.path("dump.jsonl"), Some(&origin)).unwrap();
    file.write(&whole.as_bytes()[..bytes]).unwrap();
    drop(file);
}

#[tokio::test]
async fn interrupted_dump_resumes_after_its_last_complete_line() {
    let scratch = complete().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    let header = whole.lines().next().unwrap().len() + 1;
    for bytes in [
        0,
        header / 2,
        header,
        whole.len() / 2,
        whole.len() - 3,
        whole.len(),
    ] {
        interrupted(&scratch, &whole, bytes);
        let ended = on(
            &scratch,
            "data",
            &["dump", &scratch.arg("dump.jsonl"), "--force"],
        )
        .ok();
        let expected = match bytes >= header {
            true => "resuming after entry",
            false => "starting over",
        };
        assert!(ended.stderr.contains(expected), "{bytes}: {}", ended.stderr);
        assert!(fs::read_to_string(scratch.path("dump.jsonl")).unwrap() == whole);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn interrupted_dump_behind_a_link_starts_over() {
    let scratch = complete().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    let partial = scratch.path("dump.jsonl.partial");
    for is_symbolic in [true, false] {
        interrupted(&scratch, &whole, whole.len() / 2);
        let other = scratch.write("other.txt", "mine");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&other, private).unwrap();
        fs::remove_file(&partial).unwrap();
        match is_symbolic {
            true => std::os::unix::fs::symlink(&other, &partial).unwrap(),
            false => fs::hard_link(&other, &partial).unwrap(),
        }
        let file = scratch.arg("dump.jsonl");
        let ended = on(&scratch, "data", &["dump", &file, "--force"]).ok();
        ended.warns("starting over");
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
        let written = scratch.path("dump.jsonl");
        assert!(fs::symlink_metadata(&written).unwrap().is_file());
        assert!(fs::read_to_string(&written).unwrap() == whole);
    }
}

#[tokio::test]
async fn interrupted_dump_restarts_if_the_store_has_changed() {
    let scratch = complete().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    interrupted(&scratch, &whole, whole.len() / 2);
    plant(&scratch.path("data"), strays(1)).await;
    let ended = on(&scratch, "data", &["dump", &scratch.arg("dump.jsonl")]).ok();
    ended.warns("starting over");
    let other = dumped(&scratch, "data", "other.jsonl");
    assert!(other != whole);
    assert!(fs::read_to_string(scratch.path("dump.jsonl")).unwrap() == other);
}

#[test]
fn dump_reports_a_path_that_cannot_be_written() {
    let scratch = Scratch::with_org();
    let refused = knowledge(&["dump", &scratch.arg("none/dump.jsonl"), &scratch.data_dir()]);
    let refused = refused.failed();
    refused.assert_has("none/dump.jsonl");
}
