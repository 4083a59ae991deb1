//! Tests of deleting single memories.

use knowledge_core::access::Action;
use knowledge_core::internals::keys;
use knowledge_core::model::{EventType, MemoryChange, ReviewStatus, SensitivityLabel};
use knowledge_core::service::{AuditAction, IngestOutcome, PageRequest};

use crate::audit::entries;
use crate::make::{MEMBER, actions, code, new_memory, review};
use crate::memory_changes::{counts, create, keyed};
use crate::world::{World, data};
use knowledge_testing::requests::with;

/// The content of a deleted memory is erased; required identifiers and labels are kept.
#[tokio::test]
async fn memory_deletion_erases_its_content() {
    let world = World::with_endpoint().await;
    let new = with(keyed("page/quokka", &world), |new| {
        new.title = "Quokka".to_owned();
        new.content = "What the quokka says.".to_owned();
    });
    let id = create(&world, &new).await.value.summary.id;
    let others = world.memories(2).await;
    let recall = world.recall_of(&[id, others[0]]).await;
    assert_eq!(counts(&world).await, (3, 1));
    world.delete_memory(id).await.unwrap();
    assert_eq!(counts(&world).await, (2, 1));
    for (key, value) in world.contents().await {
        let text = String::from_utf8_lossy(&value).to_lowercase();
        assert!(!text.contains("quokka"), "{key}: {text}");
        let family = key.to_string();
        let family = family.split('/').next().unwrap();
        let simple = id.0.simple().to_string();
        if key.to_string().contains(&simple) {
            // The index entry through which subscribers of the recall are notified.
            assert_eq!(family, "cited_by", "{key}");
        }
        if text.contains(&id.to_string()) || text.contains(&simple) {
            assert!(
                ["audit", "memory_change", "outbox", "recall"].contains(&family),
                "{key}"
            );
        }
    }
    let events = world.events_of(EventType::ChunkDeleted).await;
    assert_eq!(events.len(), 1);
    assert_eq!(data(&events[0])["memory_ids"][0], id.to_string());
    let audit = entries(&world).await;
    let deletion = audit
        .iter()
        .find(|entry| entry.action == AuditAction::MemoryDelete)
        .unwrap();
    assert_eq!(deletion.resource.id, id.0);
    assert_eq!(deletion.before.as_ref().unwrap()["sensitivity"], "internal");
    assert_eq!(deletion.after, None);
    let stored: Option<knowledge_core::model::Recall> =
        world.read(&keys::recall(world.org.id, recall)).await;
    assert_eq!(stored.unwrap().memory_ids, [id, others[0]]);

    assert_eq!(code(world.delete_memory(id).await), "not_found");
    assert_eq!(code(world.get_memory(id).await), "not_found");
    let bulk = world.change(&[id], review(ReviewStatus::Approved)).await;
    assert_eq!(bulk.unwrap().summary.failed, 1);
    // The key is free, so that the next memory with it is another one.
    let anew = create(&world, &keyed("page/quokka", &world)).await;
    assert_ne!(anew.value.summary.id, id);
    let approved = review(ReviewStatus::Approved);
    let other = others[1];
    world.change(&[other], approved).await.unwrap();
    world.delete_memory(other).await.unwrap();
    assert_eq!(
        counts(&world).await,
        (2, 1),
        "what was approved did not wait"
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn memory_deletion_requires_its_action_and_an_existing_memory() {
    let world = World::new().await;
    let ids = world.approved_memories(2).await;
    let for_others = MemoryChange::builder()
        .audience_tag("user:nobody".parse().unwrap())
        .sensitivity_label(SensitivityLabel::Restricted)
        .build();
    world.change(&ids[..1], for_others).await.unwrap();
    let member = world.caller(MEMBER).await;
    for (id, expected) in ids.iter().zip(["not_found", "forbidden"]) {
        assert_eq!(code(world.by(&member).delete_memory(*id).await), expected);
    }
    let cleaner = world.caller_who_may(actions(&[Action::MemoryDelete])).await;
    let hidden = world.by(&cleaner).delete_memory(ids[0]).await;
    assert_eq!(code(hidden), "not_found");
    world.by(&cleaner).delete_memory(ids[1]).await.unwrap();
    world.delete_memory(ids[0]).await.unwrap();
    assert_eq!(counts(&world).await, (0, 0));
}

/// A batch finds a key whose memory is then deleted before it is read, and creates a new one.
#[tokio::test]
async fn batch_creates_memory_that_is_deleted_concurrently() {
    let world = World::new().await;
    let id = create(&world, &keyed("page/1", &world))
        .await
        .value
        .summary
        .id;
    let (service, owner) = (world.service.clone(), world.owner.clone());
    let key = keys::memory(world.org.id, id);
    world.probe.before_read(key, async move {
        service.memories().delete(&owner, id).await.unwrap();
    });
    let batch = [with(new_memory("Page"), |new| {
        new.source_key = Some("page/1".to_owned());
    })];
    let ingested = world.ingest_memories(world.source, &batch).await.unwrap();
    assert!(world.probe.has_happened());
    assert_eq!(ingested[0].outcome, IngestOutcome::Created);
    assert_ne!(ingested[0].id, Some(id));
    assert_eq!(counts(&world).await, (1, 1));
    world.assert_whole().await;
}

/// The memory at the cursor has been deleted.
#[tokio::test]
async fn memory_list_continues_after_a_deleted_memory() {
    let world = World::new().await;
    let mut ids = world.memories(3).await;
    ids.sort();
    let page = async |cursor| {
        let request = PageRequest::builder().limit(1).maybe_cursor(cursor).build();
        let filter = Default::default();
        world.list_memories(&filter, &request).await.unwrap()
    };
    let first = page(None).await;
    assert_eq!(first.data[0].id, ids[0]);
    for id in &ids[..2] {
        world.delete_memory(*id).await.unwrap();
    }
    let rest = page(first.next_cursor).await;
    assert_eq!(rest.data[0].id, ids[2]);
    assert_eq!(rest.next_cursor, None);
}
