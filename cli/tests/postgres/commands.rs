//! Commands on a database, with and without servers that use it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use http::Method;
use knowledge_core::dump::Export;
use knowledge_core::store::{Commit, CommitOutcome, Found, Read, Store, StoreError};
use knowledge_server::data::StableView;
use knowledge_server::private_file;
use knowledge_testing::fixture;
use serde_json::Value;

use crate::servers::{bulk_update, seeded_org};
use crate::support::{AssertText, Call, Site};

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
    rejected.assert_has("the store is not empty");
    assert_eq!(server.terminate(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rekey_of_a_database_requires_confirmation() {
    let site = Site::new().await;
    fixture::complete(&site.open().await).await.unwrap();
    let unconfirmed = site.run(&["rekey"]).refused();
    unconfirmed.assert_has("stop all servers");
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
    refused.assert_has("is not the one that sealed this store's secrets");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_for_directories_says_what_to_use_instead() {
    let site = Site::new().await;
    init(&site);
    let compact = site.run(&["compact"]).refused();
    compact.assert_has("VACUUM");
    let [store, _] = site.flags();
    let demo = crate::support::knowledge(&["demo", &store]).refused();
    demo.assert_has("a demo needs a store of its own");
}

/// A store that notes how many entries its reads return.
struct Counting {
    inner: Arc<dyn Store>,
    largest: AtomicUsize,
    all: AtomicUsize,
}

#[async_trait]
impl Store for Counting {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let found = self.inner.read(reads).await?;
        let entries = found.iter().map(|found| match found {
            Found::Keys(entries) => entries.iter().flatten().count(),
            Found::Range(entries) => entries.len(),
        });
        let entries = entries.sum();
        self.largest.fetch_max(entries, Ordering::SeqCst);
        self.all.fetch_add(entries, Ordering::SeqCst);
        Ok(found)
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.inner.commit(commit).await
    }
}

/// Number of entries that a dump holds in memory at once.
const PAGE_ENTRIES: usize = 512;

#[tokio::test(flavor = "multi_thread")]
async fn dump_holds_a_page_of_the_database_at_a_time() {
    let site = Site::new().await;
    let service = site.open().await;
    fixture::seed_orgs(&service, 6).await.unwrap();
    let backend = site.config.make_backend().await.unwrap();
    let view = StableView::of(&backend).await.unwrap();
    let read = Arc::new(Counting {
        inner: Arc::clone(&view.store),
        largest: AtomicUsize::new(0),
        all: AtomicUsize::new(0),
    });
    let mut export = Export::begin(Arc::clone(&read) as Arc<dyn Store>)
        .await
        .unwrap();
    let mut lines = Vec::new();
    while export.read(&mut lines).await.unwrap() {
        lines.clear();
    }
    assert!(
        export.entries() > 4 * PAGE_ENTRIES as u64,
        "{}",
        export.entries()
    );
    assert!(read.all.load(Ordering::SeqCst) as u64 >= export.entries());
    assert_eq!(read.largest.load(Ordering::SeqCst), PAGE_ENTRIES);
}

#[tokio::test(flavor = "multi_thread")]
async fn dump_beside_writers_is_one_point_in_time() {
    let site = Site::new().await;
    let org = seeded_org(&site).await;
    let (server, is_over) = (site.serve(), Arc::new(AtomicBool::new(false)));
    let url = server.base_url();
    let writers = (0..4).map(|writer| {
        let (url, is_over) = (url.clone(), Arc::clone(&is_over));
        let (token, memories) = (
            org.members.owner.token.clone(),
            org.main.memories.internal.clone(),
        );
        tokio::spawn(async move {
            let (mut rng, mut written) = (fastrand::Rng::new(), 0);
            while !is_over.load(Ordering::SeqCst) {
                let key = format!("client-{writer}-{written}");
                let call = bulk_update(&key, &token, &memories, &mut rng);
                let status = call.send_to(&url).await.status;
                assert!([200, 409].contains(&status.as_u16()), "{status}");
                written += 1;
            }
            written
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut dumps = Vec::new();
    for number in 0..3 {
        let file = site.arg(&format!("dump-{number}.jsonl"));
        // Verification counts everything again, and finds what belongs to another point in time.
        let (dump, verify) = (["dump", &file], ["verify", "--dump", &file]);
        site.run(&dump).ok();
        assert!(site.run(&verify).ok().stdout.contains(", 0 differences"));
        assert!(
            site.run(&["verify"])
                .ok()
                .stdout
                .contains(", 0 differences")
        );
        dumps.push(fs::read_to_string(file).unwrap());
    }
    assert!(
        dumps[0] != dumps[1] && dumps[1] != dumps[2],
        "nothing was written meanwhile"
    );
    is_over.store(true, Ordering::SeqCst);
    for writer in writers {
        assert!(writer.await.unwrap() > 0);
    }
    assert_eq!(server.terminate(), 0);
}
