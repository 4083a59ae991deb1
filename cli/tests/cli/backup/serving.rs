//! Tests of backups of a store under load.
//!
//! Each is the state at one moment, and delays no client for long.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, StatusCode};
use knowledge_core::api::AdminApi;
use knowledge_core::dump::{CredentialPolicy, Restore};
use knowledge_core::env::Env;
use knowledge_core::internals::keys;
use knowledge_core::limits::Limits;
use knowledge_core::model::{BulkUpdate, MemoryChange, MemoryId, ReviewStatus, SensitivityLabel};
use knowledge_core::service::{KnowledgeService, Verify};
use knowledge_core::store::{Commit, Key, MemoryStore, Store, StoreExt};
use knowledge_server::admin::{AdminClient, AdminSocket, BodyStream, ClientError};
use knowledge_server::backup::{BACKUP_PATH, Backup};
use knowledge_server::data::{Data, DataConfig};
use knowledge_testing::fixture::{OrgFixture, complete};
use knowledge_testing::requests::{new_memory, with};
use tokio::task::JoinHandle;

use super::{dumped, on, strays};
use crate::support::{Scratch, start};

/// A service with its admin socket, in this process.
struct Serving {
    data: Data,
    service: KnowledgeService,
    org: OrgFixture,
    client: AdminClient,
    socket: JoinHandle<()>,
    _scratch: Scratch,
}

impl Serving {
    async fn begin(changed_bytes_max: usize) -> Self {
        let scratch = Scratch::new();
        let data = DataConfig::at(scratch.path("data")).open().await.unwrap();
        let service = data.service(Env::system(), data.options(Limits::default()));
        let service = service.await.unwrap();
        let org = complete(&service).await.unwrap();
        let path: PathBuf = scratch.path("data.sock");
        let backup = Backup::of(data.backend().clone()).changed_bytes_max(changed_bytes_max);
        let api = AdminApi::new(service.clone());
        let socket = AdminSocket::bind(&path, api)
            .await
            .unwrap()
            .with(Arc::new(backup));
        let socket = tokio::spawn(socket.run(std::future::pending()));
        Self {
            client: AdminClient::connect(&path).await.unwrap(),
            data,
            service,
            org,
            socket,
            _scratch: scratch,
        }
    }

    async fn stream(&self) -> (StatusCode, BodyStream) {
        let request = Request::get(BACKUP_PATH).body(Bytes::new()).unwrap();
        let (head, pieces) = self.client.stream(request).await.unwrap().into_parts();
        (head.status, pieces)
    }

    async fn commit(&self, change: knowledge_core::store::CommitBuilder) {
        self.data
            .store
            .commit(change.build().unwrap())
            .await
            .unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.socket.abort();
    }
}

async fn whole(mut pieces: BodyStream) -> Result<Vec<u8>, ClientError> {
    let mut dump = Vec::new();
    while let Some(piece) = pieces.next().await? {
        dump.extend_from_slice(&piece);
    }
    Ok(dump)
}

/// The acknowledged changes, and a flag to continue.
#[derive(Default)]
struct Load {
    acknowledged: Mutex<Vec<MemoryId>>,
    done: AtomicU64,
    is_over: AtomicBool,
}

/// Ingests and relabels memories, so that each counter and each index changes.
async fn write(service: KnowledgeService, org: OrgFixture, load: Arc<Load>, lane: u64) {
    let owner = org.trusted_owner();
    for round in 0.. {
        if load.is_over.load(Ordering::Relaxed) {
            return;
        }
        let new: Vec<_> = (0..10)
            .map(|index| {
                with(
                    new_memory(&format!("Memory {lane}-{round}-{index}")),
                    |new| new.source_key = Some(format!("{lane}-{}-{index}", round % 7)),
                )
            })
            .collect();
        let made = service
            .memories()
            .ingest(&owner, org.side.id, org.sources[0], &new)
            .await;
        let made = made.unwrap().into_iter();
        let memory_ids: Vec<_> = made.filter_map(|memory| memory.id).collect();
        load.acknowledged.lock().unwrap().extend(&memory_ids);
        let review = [ReviewStatus::Approved, ReviewStatus::Pending][round % 2];
        let update = BulkUpdate::builder()
            .memory_ids(memory_ids)
            .change(
                MemoryChange::builder()
                    .review_status(review)
                    .sensitivity_label(SensitivityLabel::Restricted)
                    .build(),
            )
            .build();
        let key = format!("{lane}-{round}").parse().unwrap();
        service
            .memories()
            .bulk_update(&owner, &key, &update)
            .await
            .unwrap();
        load.done.fetch_add(1, Ordering::Relaxed);
    }
}

async fn restored(dump: &[u8]) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let policy = CredentialPolicy::Keep;
    let restore = Restore::begin(Arc::clone(&store), None, policy).await;
    let mut restore = restore.unwrap();
    for line in dump.split_inclusive(|byte| *byte == b'\n') {
        restore.take(line).await.unwrap();
    }
    restore.finish().await.unwrap();
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn backup_is_a_snapshot_with_all_acknowledged_changes() {
    let serving = Serving::begin(64 * 1024 * 1024).await;
    let load = Arc::new(Load::default());
    let lanes: Vec<_> = (0..3)
        .map(|lane| {
            let (service, org) = (serving.service.clone(), serving.org.clone());
            tokio::spawn(write(service, org, Arc::clone(&load), lane))
        })
        .collect();
    let mut moved = 0;
    // Continues until enough was written during backups, whatever the load of the machine.
    for round in 0.. {
        let acknowledged = load.acknowledged.lock().unwrap().clone();
        let done = load.done.load(Ordering::Relaxed);
        let (status, pieces) = serving.stream().await;
        assert_eq!(status, StatusCode::OK);
        let dump = whole(pieces).await.unwrap();
        moved += u32::from(load.done.load(Ordering::Relaxed) > done);

        let store = restored(&dump).await;
        let key = Some(&serving.data.sealing_key);
        let mut verify = Verify::begin(Arc::clone(&store), key).await.unwrap();
        while verify.read().await.unwrap() {}
        assert_eq!(verify.finish().differences, [], "round {round}");
        let wanted: Vec<_> = acknowledged
            .iter()
            .map(|memory| keys::memory(serving.org.id, *memory))
            .collect();
        let found = store.get(&wanted).await.unwrap();
        assert!(found.iter().all(Option::is_some), "round {round}");
        if round >= 5 && moved >= 3 {
            break;
        }
    }
    load.is_over.store(true, Ordering::Relaxed);
    for lane in lanes {
        lane.await.unwrap();
    }
}

/// Fills the store beyond any buffer on the way.
async fn fill(serving: &Serving) {
    for part in 0..8 {
        let large = (0..500).fold(Commit::builder(), |commit, number| {
            let key = Key::new(format!("stray/{part}/{number:05}")).unwrap();
            commit.put(key, format!("\"{}\"", "x".repeat(2_000)))
        });
        serving.commit(large).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_client_loses_only_its_own_backup() {
    let serving = Serving::begin(100 * 1024).await;
    fill(&serving).await;
    let (status, hangs) = serving.stream().await;
    assert_eq!(status, StatusCode::OK);
    // More than a backup may retain, while the client does not read.
    serving.commit(strays(2_000)).await;
    let broken = whole(hangs).await;
    assert!(matches!(broken, Err(ClientError::Broken(_))), "{broken:?}");
    let (_, pieces) = serving.stream().await;
    restored(&whole(pieces).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_backups_are_limited_and_released() {
    let serving = Serving::begin(64 * 1024 * 1024).await;
    fill(&serving).await;
    let first = serving.stream().await;
    let second = serving.stream().await;
    assert_eq!((first.0, second.0), (StatusCode::OK, StatusCode::OK));
    let (status, refusal) = serving.stream().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let refusal: serde_json::Value =
        serde_json::from_slice(&refusal.rest().await.unwrap()).unwrap();
    assert_eq!(refusal["error"], "unavailable");
    drop(first);
    while serving.stream().await.0 != StatusCode::OK {
        tokio::task::yield_now().await;
    }
    restored(&whole(second.1).await.unwrap()).await;
    let other = Request::post(BACKUP_PATH).body(Bytes::new()).unwrap();
    let refused = serving.client.send(other).await.unwrap();
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused.headers()["allow"], "GET");
}

#[tokio::test]
async fn dump_uses_the_server_that_has_the_directory() {
    let scratch = super::complete().await;
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.base_url();
    let backup = scratch.arg("backup.jsonl");
    let said = on(&scratch, "data", &["backup", &backup]).ok();
    said.warns("backing up: ");
    let streamed = on(&scratch, "data", &["backup", "-"]).ok().stdout;
    let backup_bytes = std::fs::read_to_string(&backup).unwrap();
    assert!(streamed.lines().last().unwrap().contains("\"sha256\""));
    on(&scratch, "data", &["verify", "--dump", &backup]).ok();
    assert_eq!(server.terminate(), 0);
    on(
        &scratch,
        "copy",
        &["restore", "--keep-credentials", &backup],
    )
    .ok();
    assert!(dumped(&scratch, "copy", "copy.jsonl") == backup_bytes);
}
