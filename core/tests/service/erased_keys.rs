//! Tests of source keys that were erased: nothing brings their memories back unasked.

use std::sync::Arc;

use knowledge_core::dump::{CredentialPolicy, Export, Restore};
use knowledge_core::env::Env;
use knowledge_core::model::{ErasureStatus, MemoryId, NewErasure};
use knowledge_core::service::{
    IngestBatch, IngestOutcome, IngestedMemory, KnowledgeService, NewMemory, Options, Rekey,
    SealingKey,
};
use knowledge_core::store::{Key, MemoryStore, Store};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::inbound_sender::{Sender, titles};
use crate::make::{MEMBER, SEALING_KEY, create_memory, new_memory, problem};
use crate::world::World;
use knowledge_testing::requests::with;

fn named(key: &str) -> NewMemory {
    with(new_memory("Page"), |new| {
        new.source_key = Some(key.to_owned());
    })
}

/// Erases the memories with a prefix of their keys, and asserts how many there were.
async fn erase(world: &World, prefix: &str, suppress: bool, memories: u64) {
    let request = NewErasure::builder()
        .source_id(world.source)
        .source_key_prefix(prefix)
        .suppress(suppress)
        .build();
    let key = world.name("key").parse().unwrap();
    let erased = world.create_erasure(&key, &request).await.unwrap().erasure;
    assert_eq!(erased.status, ErasureStatus::Completed);
    assert_eq!(erased.counts.memories, memories);
    assert_eq!(erased.suppress, suppress);
    let hashes = if suppress { memories } else { 0 };
    assert_eq!(erased.remains.source_key_hashes, Some(hashes));
}

async fn ingest(world: &World, keys: &[&str]) -> Vec<IngestedMemory> {
    let batch: Vec<_> = keys.iter().map(|key| named(key)).collect();
    world.ingest_memories(world.source, &batch).await.unwrap()
}

async fn revive(world: &World, keys: &[&str]) -> Vec<IngestedMemory> {
    let batch = IngestBatch::builder()
        .source_id(world.source)
        .memories(keys.iter().map(|key| named(key)).collect())
        .revive(true)
        .build();
    world.ingest_batch(&batch).await.unwrap()
}

fn outcomes(ingested: &[IngestedMemory]) -> Vec<IngestOutcome> {
    ingested.iter().map(|memory| memory.outcome).collect()
}

/// Returns the marks of erased keys.
async fn marks(world: &World) -> Vec<Key> {
    let mut keys: Vec<Key> = world.contents().await.into_keys().collect();
    keys.retain(|key| key.to_string().starts_with("erased_key/"));
    keys
}

#[tokio::test]
async fn ingest_leaves_out_erased_keys() {
    use IngestOutcome::{Created, Erased, Updated};
    let world = World::with_endpoint().await;
    ingest(&world, &["page/1", "page/2", "note/1"]).await;
    erase(&world, "page", true, 2).await;
    let events = world.events().await.len();

    let again = ingest(&world, &["page/1", "page/2"]).await;
    assert_eq!(outcomes(&again), [Erased, Erased]);
    assert_eq!(again[0].id, None);
    assert_eq!(world.events().await.len(), events, "nothing was ingested");
    let mixed = ingest(&world, &["page/3", "page/1", "page/4"]).await;
    assert_eq!(outcomes(&mixed), [Created, Erased, Created]);
    let rewritten = with(named("note/1"), |new| new.content = "New.".to_owned());
    let rewritten = world.ingest_memories(world.source, &[rewritten]).await;
    assert_eq!(outcomes(&rewritten.unwrap()), [Updated]);
    world.assert_whole().await;
}

#[tokio::test]
async fn revived_key_is_added_and_its_hash_forgotten() {
    use IngestOutcome::{Created, Erased, Unchanged};
    let world = World::new().await;
    ingest(&world, &["page/1", "page/2"]).await;
    erase(&world, "page", true, 2).await;
    assert_eq!(marks(&world).await.len(), 2);

    let revived = revive(&world, &["page/1", "page/3"]).await;
    assert_eq!(outcomes(&revived), [Created, Created]);
    assert_eq!(marks(&world).await.len(), 1);
    let again = ingest(&world, &["page/1", "page/2"]).await;
    assert_eq!(outcomes(&again), [Unchanged, Erased]);
    world.delete_memory(revived[0].id.unwrap()).await.unwrap();
    let again = ingest(&world, &["page/1"]).await;
    assert_eq!(outcomes(&again), [Created], "a deletion leaves no hash");
    world.assert_whole().await;
}

#[tokio::test]
async fn erasure_without_suppression_leaves_no_hash() {
    let world = World::new().await;
    ingest(&world, &["page/1"]).await;
    erase(&world, "page", false, 1).await;
    assert_eq!(marks(&world).await, [] as [Key; 0]);
    let again = ingest(&world, &["page/1"]).await;
    assert_eq!(outcomes(&again), [IngestOutcome::Created]);
}

#[tokio::test]
async fn creation_rejects_an_erased_key_unless_it_revives_it() {
    let world = World::new().await;
    ingest(&world, &["page/1"]).await;
    erase(&world, "page", true, 1).await;
    let mut new = with(create_memory("Page", world.source), |new| {
        new.source_key = Some("page/1".to_owned());
    });
    let refused = world.create_memory(&new).await;
    assert_eq!(problem(refused), "sourceKey erased");
    new.revive = true;
    world.create_memory(&new).await.unwrap();
    assert_eq!(marks(&world).await, [] as [Key; 0]);
    world.assert_whole().await;
}

#[tokio::test]
async fn inbound_message_leaves_out_erased_keys() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    let batch = [named("ticket/1"), named("ticket/2")];
    sender.post(&world, "first", &batch).await.unwrap();
    let request = NewErasure::builder()
        .source_id(sender.source)
        .source_key_prefix("ticket/1")
        .build();
    let key = "erasure".parse().unwrap();
    world.create_erasure(&key, &request).await.unwrap();
    sender.post(&world, "second", &batch).await.unwrap();
    assert_eq!(titles(&world, &sender).await, ["Page"]);
    world.assert_whole().await;
}

#[tokio::test]
async fn hashes_stay_with_workspace_and_source_of_the_memory() {
    let world = World::new().await;
    let other = world.workspace("other").await;
    let drive = world.source("Drive", "drive").await.unwrap();
    ingest(&world, &["page/1"]).await;
    erase(&world, "page", true, 1).await;
    let batch = [named("page/1")];
    let elsewhere = world.within(other).ingest_memories(world.source, &batch);
    let elsewhere = elsewhere.await.unwrap();
    let from_drive = world.ingest_memories(drive, &batch).await.unwrap();
    assert_eq!(outcomes(&elsewhere), [IngestOutcome::Created]);
    assert_eq!(outcomes(&from_drive), [IngestOutcome::Created]);

    let provisioning = world.service.provisioning();
    let removed = provisioning.delete_workspace(world.org.id, world.workspace.id);
    removed.await.unwrap();
    world.maintain().await;
    assert_eq!(marks(&world).await, [] as [Key; 0]);
    world.assert_whole().await;
}

#[tokio::test]
async fn memories_erased_by_name_or_with_their_member_stay_erased() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let caller = world.trusted(member);
    let ids: Vec<MemoryId> = ingest(&world, &["page/1"])
        .await
        .iter()
        .filter_map(|memory| memory.id)
        .collect();
    let batch = [named("page/2")];
    let of_member = world.by(&caller);
    let of_member = of_member.ingest_memories(world.source, &batch);
    of_member.await.unwrap();
    for request in [
        NewErasure::builder().memory_ids(ids).build(),
        NewErasure::builder().member_id(member).build(),
    ] {
        let key = world.name("key").parse().unwrap();
        world.create_erasure(&key, &request).await.unwrap();
    }
    let again = ingest(&world, &["page/1", "page/2"]).await;
    assert_eq!(outcomes(&again), [IngestOutcome::Erased; 2]);
}

/// Whichever commit fails, each removed key has its hash.
#[tokio::test]
async fn interrupted_erasure_leaves_all_hashes() {
    for number in 2..=4 {
        let world = World::new().await;
        let keys: Vec<String> = (0..201).map(|number| format!("page/{number}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        for batch in keys.chunks(100) {
            ingest(&world, batch).await;
        }
        let plan = FaultPlan::none().at_commit(number, CommitFault::Unavailable);
        let failing = world.served_with(plan).await;
        let request = NewErasure::builder().source_id(world.source).build();
        let key = "erasure".parse().unwrap();
        failing.create_erasure(&key, &request).await.unwrap();
        world.maintain().await;
        assert_eq!(marks(&world).await.len(), 201, "commit {number}");
        world.assert_whole().await;
    }
}

#[tokio::test]
async fn hashes_hide_the_key_and_outlive_the_sealing_key() {
    let world = World::new().await;
    ingest(&world, &["page/quokka"]).await;
    erase(&world, "page", true, 1).await;
    let plain = knowledge_core::internals::keys::Sha256::of("page/quokka").0;
    for mark in marks(&world).await {
        assert!(!mark.to_string().contains(&plain), "{mark}");
    }

    let store = Arc::clone(world.faults.inner());
    let (old, new) = (SealingKey::new(SEALING_KEY), SealingKey::new([2; 32]));
    let rekey = Rekey::begin(Arc::clone(&store), Env::system(), &old, &new);
    let report = rekey.await.unwrap().finish().await.unwrap();
    assert_eq!((report.resealed, report.damaged), (1, 0));
    let service = KnowledgeService::open(store, Env::system(), Options::new(new));
    let service = service.await.unwrap();
    let (workspace, batch) = (world.workspace.id, [named("page/quokka")]);
    let memories = service.memories();
    let ingested = memories.ingest(&world.owner, workspace, world.source, &batch);
    assert_eq!(outcomes(&ingested.await.unwrap()), [IngestOutcome::Erased]);
}

#[tokio::test]
async fn restored_store_keeps_the_hashes() {
    let world = World::new().await;
    ingest(&world, &["page/1"]).await;
    erase(&world, "page", true, 1).await;
    let mut dump = Vec::new();
    let export = Export::begin(Arc::clone(world.faults.inner()));
    let mut export = export.await.unwrap();
    while export.read(&mut dump).await.unwrap() {}
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let restore = Restore::begin(Arc::clone(&store), None, CredentialPolicy::Revoke);
    let mut restore = restore.await.unwrap();
    for line in dump.split_inclusive(|byte| *byte == b'\n') {
        restore.take(line).await.unwrap();
    }
    restore.finish().await.unwrap();

    let options = Options::new(SealingKey::new(SEALING_KEY));
    let service = KnowledgeService::open(store, Env::system(), options);
    let service = service.await.unwrap();
    let (workspace, batch) = (world.workspace.id, [named("page/1")]);
    let memories = service.memories();
    let ingested = memories.ingest(&world.owner, workspace, world.source, &batch);
    assert_eq!(outcomes(&ingested.await.unwrap()), [IngestOutcome::Erased]);
}

/// The hash is written by the commit that removes the key, which an ingest cannot cross.
#[tokio::test]
async fn ingest_does_not_cross_an_erasure() {
    let world = World::new().await;
    let ids: Vec<MemoryId> = ingest(&world, &["page/1"])
        .await
        .iter()
        .filter_map(|memory| memory.id)
        .collect();
    let (service, owner) = (world.service.clone(), world.owner.clone());
    world.probe.before_commit(async move {
        let request = NewErasure::builder().memory_ids(ids).build();
        let key = "erasure".parse().unwrap();
        service
            .erasures()
            .create(&owner, &key, &request)
            .await
            .unwrap();
    });
    let rewritten = with(named("page/1"), |new| new.content = "New.".to_owned());
    let ingested = world.ingest_memories(world.source, &[rewritten]).await;
    assert!(world.probe.has_happened());
    assert_eq!(outcomes(&ingested.unwrap()), [IngestOutcome::Erased]);
    world.assert_whole().await;
}
