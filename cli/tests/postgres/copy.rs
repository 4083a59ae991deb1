//! Copies between directories and databases.

use knowledge_core::service::KnowledgeService;
use knowledge_core::store::{Commit, Key};
use knowledge_server::data::DataConfig;
use knowledge_testing::fixture;
use serde_json::Value;

use crate::support::{AssertText, Site, knowledge, open};

fn copy(from: &str, to: &str) -> crate::support::Finished {
    let (from, to) = (format!("--from={from}"), format!("--to={to}"));
    knowledge(&["copy", &from, &to, "--output=json"])
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_into_a_database_and_back_keeps_every_entry() {
    let site = Site::new().await;
    let sled = format!("sled:{}", site.arg("embedded"));
    // Beside the directory, so that the key of the database is the same.
    let config = DataConfig {
        sealing_key_file: Some(site.key_file()),
        ..DataConfig::of(sled.parse().unwrap())
    };
    fixture::complete(&open(&config).await).await.unwrap();

    let done = copy(&sled, &site.url()).ok();
    done.warns("serve postgres://postgres@127.0.0.1");
    let there: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(
        !there["to"].as_str().unwrap().contains("password"),
        "{there}"
    );
    // A complete copy is only compared, until a server has changed it.
    copy(&sled, &site.url()).ok();
    let dump = site.dumped("there.jsonl");
    assert!(dump.contains(there["sha256"].as_str().unwrap()));
    let server = site.serve();
    server.base_url();
    assert_eq!(server.terminate(), 0);

    // The server may have started work that is due.
    let served = site.dumped("served.jsonl");
    let fjall = format!("fjall:{}", site.arg("back"));
    let back: Value = serde_json::from_str(&copy(&site.url(), &fjall).ok().stdout).unwrap();
    assert!(served.contains(back["sha256"].as_str().unwrap()));
    let verified = knowledge(&[
        "verify",
        &format!("--store={fjall}"),
        &format!("--sealing-key-file={}", site.key_file().display()),
    ]);
    assert!(verified.ok().stdout.contains("0 differences"));

    // Other contents are rejected.
    let other = Site::new().await;
    fixture::seed_orgs(&other.open().await, 1).await.unwrap();
    let rejected = copy(&sled, &other.url()).failed();
    rejected.assert_has("the target is not empty");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_copy_into_a_database_is_resumed() {
    let site = Site::new().await;
    let sled = format!("sled:{}", site.arg("embedded"));
    let config = DataConfig {
        sealing_key_file: Some(site.key_file()),
        ..DataConfig::of(sled.parse().unwrap())
    };
    fixture::seed_orgs(&open(&config).await, 12).await.unwrap();
    let (from, to) = (format!("--from={sled}"), format!("--to={}", site.url()));
    let running = crate::support::start(&["copy", &from, &to]);
    // Until the first part is written.
    let store = site.config.make_backend().await.unwrap().store();
    crate::support::guarded("a part of the copy", async {
        while KnowledgeService::is_new(&*store).await.unwrap() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.kill();
    copy(&sled, &site.url()).ok();
    assert!(site.run(&["verify"]).ok().stdout.contains("0 differences"));
}

/// Starts a copy between databases, and returns once its first part is written.
async fn begun(source: &Site, target: &Site) -> crate::support::Server {
    let (from, to) = (
        format!("--from={}", source.url()),
        format!("--to={}", target.url()),
    );
    let store = target.config.make_backend().await.unwrap().store();
    let running = crate::support::start(&["copy", &from, &to]);
    crate::support::guarded("a part of the copy", async {
        while KnowledgeService::is_new(&*store).await.unwrap() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running
}

async fn change(service: &KnowledgeService) {
    let counter = Key::new("test/changes").unwrap();
    let commit = Commit::builder().add(counter, 1).build().unwrap();
    service.store().commit(commit).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_of_a_source_that_changes_is_rejected() {
    let (source, target) = (Site::new().await, Site::new().await);
    let service = source.open().await;
    fixture::seed_orgs(&service, 12).await.unwrap();
    let running = begun(&source, &target).await;
    change(&service).await;
    running.error_with("a server has changed the source during the copy, which lacks the change");
    assert_eq!(running.ended(), 1);

    // An interrupted copy is not resumed with another state.
    let target = Site::new().await;
    begun(&source, &target).await.kill();
    change(&service).await;
    let rejected = copy(&source.url(), &target.url()).failed();
    let expected =
        "the target contains an interrupted copy of other contents: the source has changed";
    rejected.assert_has(expected);
    rejected.assert_lacks("restore");
}
