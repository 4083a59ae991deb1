//! Tests of adding, updating and deleting single memories.

use knowledge_core::access::{Action, Credential};
use knowledge_core::internals::keys;
use knowledge_core::model::{
    EventType, MemoryChange, MemoryDetails, MemoryId, MemoryUpdate, ReviewStatus, SensitivityLabel,
};
use knowledge_core::service::{
    AuditAction, CreateMemory, IfMatch, IngestOutcome, NewMemory, NewSource, PageRequest, WithEtag,
};

use crate::audit::entries;
use crate::make::{
    HOUR, MEMBER, VIEWER, actions, code, create_memory, new_memory, new_recall, problem, review,
    sensitivity,
};
use crate::world::World;

async fn create(world: &World, new: &CreateMemory) -> WithEtag<MemoryDetails> {
    let workspace = world.workspace.id;
    let made = world.service.create_memory(&world.owner, workspace, new);
    made.await.unwrap()
}

async fn update(
    world: &World,
    caller: &Credential,
    id: MemoryId,
    update: &MemoryUpdate,
) -> Result<WithEtag<MemoryDetails>, knowledge_core::Error> {
    world.service.update_memory(caller, id, update, None).await
}

fn title(title: &str) -> MemoryUpdate {
    MemoryUpdate {
        title: Some(title.to_owned()),
        ..MemoryUpdate::default()
    }
}

fn relabel(change: MemoryChange) -> MemoryUpdate {
    MemoryUpdate {
        change,
        ..MemoryUpdate::default()
    }
}

/// Returns the number of memories of the workspace, and of those pending review.
async fn counts(world: &World) -> (i64, i64) {
    let (org, workspace) = (world.org.id, world.workspace.id);
    (
        world.counter(keys::memory_count(org, workspace)).await,
        world.counter(keys::pending_count(org, workspace)).await,
    )
}

fn keyed(key: &str, world: &World) -> CreateMemory {
    CreateMemory {
        source_key: Some(key.to_owned()),
        ..create_memory("Page", world.source)
    }
}

#[tokio::test]
async fn created_memory_equals_an_ingested_one() {
    let world = World::heard().await;
    world.time.pass(HOUR);
    let made = create(&world, &keyed("page/1", &world)).await;
    let memory = &made.value.summary;
    assert_eq!(memory.audience_tag, world.workspace.audience);
    assert_eq!(memory.sensitivity_label, SensitivityLabel::Internal);
    assert_eq!(memory.review_status, ReviewStatus::Pending);
    assert_eq!(made.value.content.as_deref(), Some("What Page says."));
    assert_eq!(counts(&world).await, (1, 1));
    let read = world.service.memory(&world.owner, memory.id).await;
    assert_eq!(read.unwrap(), made);
    let events = world.events_of(EventType::ChunkCreated).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data["memory_ids"][0], memory.id.to_string());
    assert_eq!(world.events_of(EventType::IngestCompleted).await, []);
    let dashboard = world.dashboard().await.workspace;
    assert_eq!(dashboard.last_ingest_at, Some(world.time.now()));

    // Its key is taken: another memory is rejected, and a batch updates this one.
    let workspace = world.workspace.id;
    let new = keyed("page/1", &world);
    let again = world.service.create_memory(&world.owner, workspace, &new);
    assert_eq!(problem(again.await), "sourceKey duplicate");
    let batch = [NewMemory {
        source_key: new.source_key,
        ..new_memory("Page")
    }];
    let ingested = world
        .service
        .ingest(&world.owner, workspace, world.source, &batch)
        .await
        .unwrap();
    assert_eq!(
        (ingested[0].id, ingested[0].outcome),
        (memory.id, IngestOutcome::Unchanged)
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn memory_rejects_invalid_values() {
    let world = World::new().await;
    let bad = CreateMemory {
        title: String::new(),
        content: String::new(),
        source_key: Some(String::new()),
        ..create_memory("Note", world.source)
    };
    let workspace = world.workspace.id;
    let made = world.service.create_memory(&world.owner, workspace, &bad);
    assert_eq!(
        problem(made.await),
        "title too_small, content too_small, sourceKey invalid_value"
    );
    let nothing = knowledge_core::model::SourceId(uuid::Uuid::nil());
    let bad = create_memory("Note", nothing);
    let made = world.service.create_memory(&world.owner, workspace, &bad);
    assert_eq!(problem(made.await), "sourceId not_found");
    let id = world.memories(1).await[0];
    let bad = MemoryUpdate {
        title: Some(String::new()),
        content: Some("x".repeat(40_000)),
        ..MemoryUpdate::default()
    };
    let updated = update(&world, &world.owner, id, &bad).await;
    assert_eq!(problem(updated), "title too_small, content too_large");
    let moved = relabel(MemoryChange {
        source_id: Some(nothing),
        ..MemoryChange::default()
    });
    let updated = update(&world, &world.owner, id, &moved).await;
    assert_eq!(problem(updated), "sourceId not_found");
}

#[tokio::test]
async fn rewritten_memory_is_pending_review() {
    let world = World::new().await;
    let id = world.memories(1).await[0];
    let approved = review(ReviewStatus::Approved);
    update(&world, &world.owner, id, &relabel(approved.clone()))
        .await
        .unwrap();
    assert_eq!(counts(&world).await, (1, 0));
    world.time.pass(HOUR);
    let renamed = update(&world, &world.owner, id, &title("Renamed"))
        .await
        .unwrap();
    let memory = &renamed.value.summary;
    assert_eq!(memory.title.as_deref(), Some("Renamed"));
    assert_eq!(memory.review_status, ReviewStatus::Pending);
    assert_eq!(memory.updated_at, world.time.now());
    assert_eq!(counts(&world).await, (1, 1));

    // The exception is an update that also reviews the memory.
    let both = MemoryUpdate {
        content: Some("Something else.".to_owned()),
        change: approved,
        ..MemoryUpdate::default()
    };
    let rewritten = update(&world, &world.owner, id, &both).await.unwrap();
    assert_eq!(
        rewritten.value.summary.review_status,
        ReviewStatus::Approved
    );
    assert_eq!(rewritten.value.content.as_deref(), Some("Something else."));
    assert_eq!(counts(&world).await, (1, 0));
    world.assert_whole().await;
}

#[tokio::test]
async fn unchanged_memory_writes_nothing() {
    let world = World::new().await;
    let id = world.memories(1).await[0];
    let before = world.contents().await;
    let same = title("Memory 0");
    for nothing in [MemoryUpdate::default(), same] {
        let found = update(&world, &world.owner, id, &nothing).await.unwrap();
        assert_eq!(found.value.summary.title.as_deref(), Some("Memory 0"));
    }
    assert_eq!(world.contents().await, before);
}

#[tokio::test]
async fn memory_update_can_require_a_version() {
    let world = World::new().await;
    let id = world.memories(1).await[0];
    let first = world.service.memory(&world.owner, id).await.unwrap().etag;
    let bound = async |tag: &str, to: &str| {
        let condition = IfMatch::Tags(vec![tag.to_owned()]);
        let update = title(to);
        let caller = &world.owner;
        let updated = world
            .service
            .update_memory(caller, id, &update, Some(&condition));
        updated.await
    };
    let second = bound(&first, "Second").await.unwrap();
    assert_ne!(second.etag, first);
    let late = bound(&first, "Late").await;
    assert_eq!(code(late), "precondition_failed");
    let found = world.service.memory(&world.owner, id).await.unwrap();
    assert_eq!(found, second);
    let any = Some(&IfMatch::Any);
    let update = title("Third");
    let third = world
        .service
        .update_memory(&world.owner, id, &update, any)
        .await;
    assert_eq!(third.unwrap().value.summary.title.as_deref(), Some("Third"));
}

#[tokio::test]
async fn relabelling_does_not_require_reading_but_rewriting_does() {
    let world = World::new().await;
    let ids = world.memories(2).await;
    let [secret, theirs] = ids[..] else {
        panic!("two");
    };
    let confidential = sensitivity(SensitivityLabel::Confidential);
    world
        .bulk(&world.owner, &[secret], confidential)
        .await
        .unwrap();
    let for_others = MemoryChange {
        audience_tag: Some("user:nobody".parse().unwrap()),
        ..MemoryChange::default()
    };
    world
        .bulk(&world.owner, &[theirs], for_others.clone())
        .await
        .unwrap();
    let governor = world
        .caller_who_may(actions(&[Action::MemoryRead, Action::MemoryUpdate]))
        .await;
    for id in ids {
        let raised = relabel(sensitivity(SensitivityLabel::Restricted));
        let shown = update(&world, &governor, id, &raised).await.unwrap().value;
        assert_eq!(
            shown.summary.sensitivity_label,
            SensitivityLabel::Restricted
        );
        assert_eq!((shown.summary.title, shown.content), (None, None));
        let lowered = relabel(sensitivity(SensitivityLabel::Public));
        let refused = update(&world, &governor, id, &lowered).await;
        assert_eq!(code(refused), "forbidden");
        let refused = update(&world, &governor, id, &title("Mine")).await;
        assert_eq!(code(refused), "forbidden");
        let reviewed = relabel(review(ReviewStatus::Rejected));
        let refused = update(&world, &governor, id, &reviewed).await;
        assert_eq!(code(refused), "forbidden");
    }
    // Its sensitivity would not prevent reading; only the audience does.
    let plain = world.memories(1).await[0];
    world
        .bulk(&world.owner, &[plain], for_others)
        .await
        .unwrap();
    let refused = update(&world, &governor, plain, &title("Mine")).await;
    assert_eq!(code(refused), "forbidden");

    let reader = world.caller(VIEWER).await;
    for (id, expected) in [(secret, "forbidden"), (theirs, "not_found")] {
        let refused = update(&world, &reader, id, &title("Mine")).await;
        assert_eq!(code(refused), expected);
        let refused = update(&world, &reader, id, &MemoryUpdate::default()).await;
        assert_eq!(
            refused.is_ok(),
            expected == "forbidden",
            "it changes nothing"
        );
        let refused = world.service.delete_memory(&reader, id).await;
        assert_eq!(code(refused), expected);
    }
}

/// The content of a deleted memory is erased; required identifiers and labels are kept.
#[tokio::test]
async fn memory_deletion_erases_its_content() {
    let world = World::heard().await;
    let new = CreateMemory {
        title: "Quokka".to_owned(),
        content: "What the quokka says.".to_owned(),
        ..keyed("page/quokka", &world)
    };
    let id = create(&world, &new).await.value.summary.id;
    let others = world.memories(2).await;
    let recall = world
        .service
        .create_recall(
            &world.owner,
            world.workspace.id,
            &new_recall(&[id, others[0]]),
        )
        .await
        .unwrap();
    assert_eq!(counts(&world).await, (3, 3));
    world.service.delete_memory(&world.owner, id).await.unwrap();
    assert_eq!(counts(&world).await, (2, 2));
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
            assert!(["audit", "outbox", "recall"].contains(&family), "{key}");
        }
    }
    let events = world.events_of(EventType::ChunkDeleted).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data["memory_ids"][0], id.to_string());
    let audit = entries(&world).await;
    let deletion = audit
        .iter()
        .find(|entry| entry.action == AuditAction::MemoryDelete)
        .unwrap();
    assert_eq!(deletion.resource.id, id.0);
    assert_eq!(deletion.before.as_ref().unwrap()["sensitivity"], "internal");
    assert_eq!(deletion.after, None);
    let stored: Option<knowledge_core::model::Recall> =
        world.read(&keys::recall(world.org.id, recall.id)).await;
    assert_eq!(stored.unwrap().memory_ids, [id, others[0]]);

    let again = world.service.delete_memory(&world.owner, id).await;
    assert_eq!(code(again), "not_found");
    let read = world.service.memory(&world.owner, id).await;
    assert_eq!(code(read), "not_found");
    let bulk = world
        .bulk(&world.owner, &[id], review(ReviewStatus::Approved))
        .await;
    assert_eq!(bulk.unwrap().summary.failed, 1);
    // The key is free, so that the next memory with it is another one.
    let anew = create(&world, &keyed("page/quokka", &world)).await;
    assert_ne!(anew.value.summary.id, id);
    let approved = review(ReviewStatus::Approved);
    let other = others[1];
    world.bulk(&world.owner, &[other], approved).await.unwrap();
    world
        .service
        .delete_memory(&world.owner, other)
        .await
        .unwrap();
    assert_eq!(
        counts(&world).await,
        (2, 2),
        "what was approved did not wait"
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn memory_deletion_requires_its_action_whatever_the_label() {
    let world = World::new().await;
    let ids = world.memories(2).await;
    let for_others = MemoryChange {
        audience_tag: Some("user:nobody".parse().unwrap()),
        sensitivity_label: Some(SensitivityLabel::Restricted),
        ..MemoryChange::default()
    };
    world
        .bulk(&world.owner, &ids[..1], for_others)
        .await
        .unwrap();
    let member = world.caller(MEMBER).await;
    for id in &ids {
        let refused = world.service.delete_memory(&member, *id).await;
        assert_eq!(code(refused), "forbidden", "a member sees its labels");
    }
    let cleaner = world.caller_who_may(actions(&[Action::MemoryDelete])).await;
    for id in ids {
        world.service.delete_memory(&cleaner, id).await.unwrap();
    }
    assert_eq!(counts(&world).await, (0, 0));
}

/// A key names a memory at its original source, even after the memory has moved to another one.
#[tokio::test]
async fn source_key_stays_with_its_memory() {
    let world = World::new().await;
    let drive = NewSource {
        name: "Drive".to_owned(),
        kind: "drive".to_owned(),
    };
    let drive = world.service.create_source(&world.owner, &drive).await;
    let drive = drive.unwrap().id;
    let workspace = world.workspace.id;
    let come_in = async |source, content: &str| {
        let batch = [NewMemory {
            source_key: Some("page/1".to_owned()),
            content: content.to_owned(),
            ..new_memory("Page")
        }];
        let caller = &world.owner;
        let ingested = world.service.ingest(caller, workspace, source, &batch);
        let ingested = ingested.await.unwrap();
        (ingested[0].id, ingested[0].outcome)
    };
    let (moved, _) = come_in(world.source, "one").await;
    let filed_elsewhere = MemoryChange {
        source_id: Some(drive),
        ..MemoryChange::default()
    };
    world
        .bulk(&world.owner, &[moved], filed_elsewhere)
        .await
        .unwrap();
    let memory = world.service.memory(&world.owner, moved).await.unwrap();
    assert_eq!(memory.value.summary.source_id, drive);
    assert_eq!(memory.value.summary.origin_source_id, world.source);
    world.assert_whole().await;

    // Its original source still updates it, and adds no second one.
    assert_eq!(
        come_in(world.source, "two").await,
        (moved, IngestOutcome::Updated)
    );
    // The same key at the other source names and updates another memory.
    let (other, outcome) = come_in(drive, "three").await;
    assert_eq!(outcome, IngestOutcome::Created);
    assert_ne!(other, moved);
    assert_eq!(
        come_in(drive, "four").await,
        (other, IngestOutcome::Updated)
    );
    let content = async |id| {
        let found = world.service.memory(&world.owner, id).await.unwrap();
        found.value.content.unwrap()
    };
    assert_eq!(
        (content(moved).await, content(other).await),
        ("two".to_owned(), "four".to_owned())
    );
    assert_eq!(counts(&world).await, (2, 2));

    // Deleting one releases its own key and keeps the other's.
    world
        .service
        .delete_memory(&world.owner, moved)
        .await
        .unwrap();
    assert_eq!(
        come_in(drive, "five").await,
        (other, IngestOutcome::Updated)
    );
    let (anew, outcome) = come_in(world.source, "six").await;
    assert_eq!(outcome, IngestOutcome::Created);
    assert!(anew != moved && anew != other);
    world.assert_whole().await;
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
        service.delete_memory(&owner, id).await.unwrap();
    });
    let batch = [NewMemory {
        source_key: Some("page/1".to_owned()),
        ..new_memory("Page")
    }];
    let ingested = world
        .service
        .ingest(&world.owner, world.workspace.id, world.source, &batch)
        .await
        .unwrap();
    assert!(world.probe.has_happened());
    assert_eq!(ingested[0].outcome, IngestOutcome::Created);
    assert_ne!(ingested[0].id, id);
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
        let request = PageRequest {
            limit: Some(1),
            cursor,
        };
        let filter = Default::default();
        let workspace = world.workspace.id;
        let caller = &world.owner;
        let page = world
            .service
            .list_memories(caller, workspace, &filter, &request);
        page.await.unwrap()
    };
    let first = page(None).await;
    assert_eq!(first.data[0].id, ids[0]);
    for id in &ids[..2] {
        world
            .service
            .delete_memory(&world.owner, *id)
            .await
            .unwrap();
    }
    let rest = page(first.next_cursor).await;
    assert_eq!(rest.data[0].id, ids[2]);
    assert_eq!(rest.next_cursor, None);
}
