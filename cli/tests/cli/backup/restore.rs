//! Tests of `knowledge restore`: only into empty directories, and completely or not at all.

use std::fs;
use std::sync::Arc;

use knowledge_core::dump::{CredentialPolicy, Restore};
use knowledge_core::service::SCHEMA;
use knowledge_core::store::Store;
use knowledge_http_suite::rows;
use knowledge_server::backup::{DumpLines, check};
use knowledge_server::data::DataConfig;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{complete, dumped, on};
use crate::support::{AssertText, Scratch, get, knowledge, start};

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
    for (damaged, problem) in rows! {
        (cut, format!("line {count} of the dump is cut off")),
        (whole[..whole.len() / 2].to_owned(), "is cut off".to_owned()),
        (exchanged, "line 6 of the dump is not in key order".to_owned()),
        (altered, format!("line {count} of the dump has a checksum that does not match")),
        ("title,content\n".to_owned(), "line 1 of the dump is not the first line".to_owned()),
        (String::new(), "line 1 of the dump is cut off".to_owned()),
    } {
        let path = scratch.write("damaged.jsonl", &damaged);
        let refused = on(&scratch, "copy", &["restore", &path]).failed();
        assert!(refused.contains(&problem), "{refused}, not {problem}");
        refused.assert_has("damaged.jsonl");
        assert!(!scratch.path("copy").exists());
    }
}

#[tokio::test]
async fn restore_rejects_non_empty_directory() {
    let scratch = complete().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    let refused = on(&scratch, "data", &["restore", &scratch.arg("whole.jsonl")]).failed();
    refused.assert_has("not empty");
    assert!(dumped(&scratch, "data", "again.jsonl") == whole);
    fs::create_dir(scratch.path("files")).unwrap();
    scratch.write("files/a.txt", "mine");
    let refused = on(&scratch, "files", &["restore", &scratch.arg("whole.jsonl")]).failed();
    refused.assert_has("contains other files");
}

/// Restores only the first lines without credentials, as a process that is killed does.
async fn half(scratch: &Scratch, dump: &str, lines: usize) {
    let lines_of = || DumpLines::open(&scratch.path(dump)).unwrap();
    let expected = check(lines_of(), |_, _| {}).unwrap().summary;
    let store: Arc<dyn Store> = DataConfig::at(scratch.path("copy")).make_store().unwrap();
    let policy = CredentialPolicy::Revoke;
    let restore = Restore::begin(store, Some(expected), policy).await;
    let mut restore = restore.unwrap();
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
    verified.shows("meta: unfinished");

    let other = dumped(&Scratch::with_org(), "data", "other.jsonl");
    let other = scratch.write("other.jsonl", &other);
    let refused = on(&scratch, "copy", &["restore", &other]).failed();
    refused.assert_has("only the same dump");

    let dump = scratch.arg("whole.jsonl");
    let refused = on(&scratch, "copy", &["restore", "--keep-credentials", &dump]).failed();
    refused.assert_has("revokes credentials");
    on(&scratch, "copy", &["restore", &dump]).ok();
    on(&scratch, "once", &["restore", &dump]).ok();
    let once = dumped(&scratch, "once", "once.jsonl");
    assert!(dumped(&scratch, "copy", "copy.jsonl") == once && once != whole);
    on(&scratch, "copy", &["verify"]).ok();
}

/// A dump whose first line does not describe its store, with the checksum that it then has.
#[tokio::test]
async fn restore_that_differs_from_its_dump_is_not_served() {
    let scratch = complete().await;
    let whole = dumped(&scratch, "data", "whole.jsonl");
    let (schema, other) = (format!("\"schema\":{SCHEMA}"), "\"schema\":null");
    let forged = whole.replacen(&schema, other, 1);
    assert!(forged.lines().next().unwrap().contains(other));
    let (lines, _) = forged.split_at(forged.rfind("{\"entries\"").unwrap());
    let (entries, sha256) = (lines.lines().count() - 1, Sha256::digest(lines));
    let digits = sha256.iter().map(|byte| format!("{byte:02x}"));
    let sha256: String = digits.collect();
    let summary = format!("{{\"entries\":{entries},\"sha256\":\"{sha256}\"}}\n");
    let forged = scratch.write("forged.jsonl", &format!("{lines}{summary}"));

    let refused = on(
        &scratch,
        "copy",
        &["restore", "--keep-credentials", &forged],
    )
    .failed();
    refused.assert_has("the copy differs from its source");
    fs::copy(scratch.path("data.key"), scratch.path("copy.key")).unwrap();
    let refused = on(&scratch, "copy", &["serve", "--listen=127.0.0.1:0"]).failed();
    refused.assert_has("the store contains an unfinished restore");
    let verified = on(&scratch, "copy", &["verify"]);
    assert_eq!(verified.code, 1);
    verified.shows("meta: unfinished");
}

#[test]
fn restored_store_accepts_no_earlier_token() {
    let scratch = Scratch::with_org();
    let data_dir = scratch.data_dir();
    let issue = |data_dir: &str| {
        let made = knowledge(&["token", "create", "--member=maya", data_dir]).ok();
        made.stdout.trim().to_owned()
    };
    let (revoked, live) = (issue(&data_dir), issue(&data_dir));
    knowledge(&["session", "create", "--member=maya", &data_dir]).ok();
    dumped(&scratch, "data", "dump.jsonl");
    let list = knowledge(&["token", "list", "--output=json", &data_dir]).ok();
    let list: Vec<Value> = serde_json::from_str(&list.stdout).unwrap();
    let id = list[0]["id"].as_str().unwrap();
    knowledge(&["token", "revoke", id, &data_dir]).ok();

    let dump = scratch.arg("dump.jsonl");
    let restored = on(&scratch, "new", &["restore", "--output=json", &dump]).ok();
    let gone = "not restored: 2 tokens, 1 session; issue a new token with `knowledge token create";
    restored.warns(gone);
    let again = "or a login link with `knowledge login-link HANDLE`";
    restored.warns(again);
    let report: Value = serde_json::from_str(&restored.stdout).unwrap();
    let counts = json!({
        "tokens": 2, "sessions": 1, "mcp_keys": 0,
        "inbound_webhooks": 0, "webhooks": 0, "subscriptions": 0,
    });
    assert_eq!(report["revoked"], counts);
    let kept = on(&scratch, "kept", &["restore", "--keep-credentials", &dump]).ok();
    kept.stderr.assert_lacks("not restored");

    for key in ["new.key", "kept.key"] {
        fs::copy(scratch.path("data.key"), scratch.path(key)).unwrap();
    }
    let statuses = |directory: &str, tokens: &[&str]| {
        on(&scratch, directory, &["verify"]).ok();
        let data_dir = format!("--data-dir={}", scratch.arg(directory));
        let server = start(&["serve", &data_dir, "--listen=127.0.0.1:0"]);
        let url = format!("{}/v1/workspaces/none/dashboard-summary", server.base_url());
        let status = |token: &&str| {
            let header = format!("Authorization: Bearer {token}");
            get(url.clone(), header).status
        };
        let statuses: Vec<_> = tokens.iter().map(status).collect();
        assert_eq!(server.terminate(), 0);
        statuses
    };
    let fresh = issue(&format!("--data-dir={}", scratch.arg("new")));
    let tokens = [&*revoked, &*live, &*fresh];
    assert_eq!(statuses("new", &tokens), [401, 401, 404]);
    assert_eq!(statuses("kept", &tokens), [404, 404, 401]);
}

#[tokio::test]
async fn restore_reports_what_depends_on_credentials() {
    let scratch = complete().await;
    dumped(&scratch, "data", "dump.jsonl");
    let restored = on(&scratch, "new", &["restore", &scratch.arg("dump.jsonl")]).ok();
    for line in [
        "1 MCP key; issue a new token with",
        "rejecting messages until the secret is rotated: 2 inbound webhooks",
    ] {
        restored.warns(line);
    }
    on(&scratch, "new", &["verify"]).ok();
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
    told.assert_lacks("fingerprint");
}
