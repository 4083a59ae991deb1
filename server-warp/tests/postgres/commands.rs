//! Commands on a database, with and without servers that use it.

use std::fs;

use http::Method;
use knowledge_server::private_file;
use knowledge_testing::fixture;
use serde_json::Value;

use crate::support::{Call, Site};

/// Creates the organisation `acme` with its owner `maya`.
fn init(site: &Site) {
    let args = [
        "init",
        "--org-slug=acme",
        "--owner-handle=maya",
        "--workspace=support",
    ];
    site.run(&args).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_change_the_database_of_a_running_server() {
    let site = Site::new().await;
    init(&site);
    let server = site.serve();
    let url = server.base_url();
    let made = site.run(&["token", "create", "--member=maya"]).ok();
    let token = made.stdout.trim();
    let list = || async {
        let call = Call::new(Method::GET, "/v1/workspaces").bearer(token);
        call.send_to(&url).await
    };
    let before = list().await;
    assert_eq!(before.status, 200, "{before:?}");
    assert_eq!(before.json()["data"].as_array().map(Vec::len), Some(1));
    site.run(&["workspace", "create", "sales"]).ok();
    // Nothing is cached of a store that other processes change.
    assert_eq!(
        list().await.json()["data"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(server.terminate(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn dump_of_a_served_database_restores_into_another_one() {
    let site = Site::new().await;
    fixture::complete(&site.open().await).await.unwrap();
    let server = site.serve();
    server.base_url();
    let file = site.arg("dump.jsonl");
    let before = site.dumped("dump.jsonl");
    assert!(before.lines().count() > 100, "{}", before.len());

    let other = Site::new().await;
    let args = ["restore", &file, "--keep-credentials", "--output=json"];
    let restored = other.run(&args).ok().stdout;
    let restored: Value = serde_json::from_str(&restored).unwrap();
    assert!(
        before.contains(restored["sha256"].as_str().unwrap()),
        "{restored}"
    );
    assert!(other.dumped("again.jsonl") == before);
    for site in [&site, &other] {
        let verified = site.run(&["verify", "--output=json"]).ok().stdout;
        let verified: Value = serde_json::from_str(&verified).unwrap();
        assert_eq!(verified["differences_total"], 0, "{verified}");
        assert!(verified["secrets_opened"].as_u64() > Some(0), "{verified}");
    }
    let rejected = other.run(&["restore", &file]).failed();
    assert!(rejected.contains("the store is not empty"), "{rejected}");
    assert_eq!(server.terminate(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rekey_of_a_database_requires_confirmation() {
    let site = Site::new().await;
    fixture::complete(&site.open().await).await.unwrap();
    let unconfirmed = site.run(&["rekey"]).refused();
    assert!(unconfirmed.contains("stop all servers"), "{unconfirmed}");
    let before = fs::read_to_string(site.key_file()).unwrap();
    let report = site.run(&["rekey", "--yes", "--output=json"]).ok().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(report["secrets_resealed"].as_u64() > Some(0), "{report}");
    assert_ne!(fs::read_to_string(site.key_file()).unwrap(), before);
    let verified = site.run(&["verify", "--output=json"]).ok().stdout;
    let verified: Value = serde_json::from_str(&verified).unwrap();
    assert_eq!(verified["secrets_opened"], report["secrets_resealed"]);

    // A server that did not get the new key does not start.
    let old = site.arg("old.key");
    private_file::create(old.as_ref(), &before).unwrap();
    let [store, _] = site.flags();
    let key = format!("--sealing-key-file={old}");
    let refused = crate::support::knowledge(&["serve", &store, &key]).failed();
    assert!(
        refused.contains("is not the one that sealed this store's secrets"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn command_for_directories_says_what_to_use_instead() {
    let site = Site::new().await;
    init(&site);
    let compact = site.run(&["compact"]).refused();
    assert!(compact.contains("VACUUM"), "{compact}");
    let [store, _] = site.flags();
    let demo = crate::support::knowledge(&["demo", &store]).refused();
    assert!(demo.contains("a demo needs a store of its own"), "{demo}");
}
