//! Tests of adding and updating single memories.

use knowledge_core::access::Action;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    EventType, MemoryChange, MemoryDetails, MemoryId, MemoryUpdate, ReviewStatus, SensitivityLabel,
};
use knowledge_core::service::{Caller, CreateMemory, IfMatch, IngestOutcome, WithEtag};

use crate::make::{
    HOUR, VIEWER, actions, audience, code, create_memory, new_memory, problem, review, sensitivity,
};
use crate::world::{World, data};
use knowledge_testing::requests::with;

pub(crate) async fn create(world: &World, new: &CreateMemory) -> WithEtag<MemoryDetails> {
    world.create_memory(new).await.unwrap()
}

async fn update(
    world: &World,
    caller: &Caller,
    id: MemoryId,
    update: &MemoryUpdate,
) -> Result<WithEtag<MemoryDetails>, knowledge_core::Error> {
    world.by(caller).update_memory(id, update, None).await
}

fn title(title: &str) -> MemoryUpdate {
    MemoryUpdate::builder().title(title.to_owned()).build()
}

fn relabel(change: MemoryChange) -> MemoryUpdate {
    MemoryUpdate::builder().change(change).build()
}

/// Returns the number of memories of the workspace, and of those pending review.
pub(crate) async fn counts(world: &World) -> (i64, i64) {
    let (org, workspace) = (world.org.id, world.workspace.id);
    (
        world.counter(keys::memory_count(org, workspace)).await,
        world.counter(keys::pending_count(org, workspace)).await,
    )
}

pub(crate) fn keyed(key: &str, world: &World) -> CreateMemory {
    with(create_memory("Page", world.source), |new| {
        new.source_key = Some(key.to_owned());
    })
}

#[tokio::test]
async fn created_memory_equals_an_ingested_one() {
    let world = World::with_endpoint().await;
    world.time.pass(HOUR);
    let made = create(&world, &keyed("page/1", &world)).await;
    let memory = &made.value.summary;
    assert_eq!(memory.audience_tag, world.workspace.audience);
    assert_eq!(memory.sensitivity_label, SensitivityLabel::Internal);
    assert_eq!(memory.review_status, ReviewStatus::Pending);
    assert_eq!(made.value.content.as_deref(), Some("What Page says."));
    assert_eq!(counts(&world).await, (1, 1));
    assert_eq!(world.get_memory(memory.id).await.unwrap(), made);
    let events = world.events_of(EventType::ChunkCreated).await;
    assert_eq!(events.len(), 1);
    assert_eq!(data(&events[0])["memory_ids"][0], memory.id.to_string());
    assert_eq!(world.events_of(EventType::IngestCompleted).await, []);
    let dashboard = world.dashboard().await.workspace;
    assert_eq!(dashboard.last_ingest_at, Some(world.time.now()));

    // Its key is taken: another memory is rejected, and a batch updates this one.
    let new = keyed("page/1", &world);
    let again = world.create_memory(&new);
    assert_eq!(problem(again.await), "sourceKey duplicate");
    let batch = [with(new_memory("Page"), |memory| {
        memory.source_key = new.source_key;
    })];
    let ingested = world.ingest_memories(world.source, &batch).await.unwrap();
    assert_eq!(
        (ingested[0].id, ingested[0].outcome),
        (Some(memory.id), IngestOutcome::Unchanged)
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn memory_rejects_invalid_values() {
    let world = World::new().await;
    let bad = with(create_memory("Note", world.source), |new| {
        new.title = String::new();
        new.content = String::new();
        new.source_key = Some(String::new());
    });
    let made = world.create_memory(&bad);
    assert_eq!(
        problem(made.await),
        "title too_small, content too_small, sourceKey invalid_value"
    );
    let nothing = knowledge_core::model::SourceId(uuid::Uuid::nil());
    let bad = create_memory("Note", nothing);
    let made = world.create_memory(&bad);
    assert_eq!(problem(made.await), "sourceId not_found");
    let id = world.memories(1).await[0];
    let bad = MemoryUpdate::builder()
        .title(String::new())
        .content("x".repeat(40_000))
        .build();
    let updated = update(&world, &world.owner, id, &bad).await;
    assert_eq!(problem(updated), "title too_small, content too_large");
    let moved = relabel(MemoryChange::builder().source_id(nothing).build());
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
    let both = MemoryUpdate::builder()
        .content("Something else.")
        .change(approved)
        .build();
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
    let first = world.get_memory(id).await.unwrap().etag;
    let bound = async |tag: &str, to: &str| {
        let condition = IfMatch::Tags(vec![tag.to_owned()]);
        let update = title(to);
        world.update_memory(id, &update, Some(&condition)).await
    };
    let second = bound(&first, "Second").await.unwrap();
    assert_ne!(second.etag, first);
    assert_eq!(code(bound(&first, "Late").await), "precondition_failed");
    let found = world.get_memory(id).await.unwrap();
    assert_eq!(found, second);
    let any = Some(&IfMatch::Any);
    let update = title("Third");
    let third = world.update_memory(id, &update, any).await;
    assert_eq!(third.unwrap().value.summary.title.as_deref(), Some("Third"));
}

#[tokio::test]
async fn relabelling_does_not_require_reading_but_rewriting_does() {
    let world = World::new().await;
    let ids = world.approved_memories(2).await;
    let [secret, theirs] = ids[..] else {
        panic!("two");
    };
    let confidential = sensitivity(SensitivityLabel::Confidential);
    world.change(&[secret], confidential).await.unwrap();
    let for_others = audience("user:nobody");
    world.change(&[theirs], for_others.clone()).await.unwrap();
    let outsider = [Action::MemoryRead, Action::MemoryUpdate];
    let outsider = world.caller_who_may(actions(&outsider)).await;
    let raised = relabel(sensitivity(SensitivityLabel::Restricted));
    let hidden = update(&world, &outsider, theirs, &raised).await;
    assert_eq!(code(hidden), "not_found");
    let governor = [
        Action::MemoryRead,
        Action::MemoryUpdate,
        Action::MemoryShare,
    ];
    let governor = world.caller_who_may(actions(&governor)).await;
    for id in ids {
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
    let plain = world.approved_memories(1).await[0];
    world.change(&[plain], for_others).await.unwrap();
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
        assert_eq!(code(world.by(&reader).delete_memory(id).await), expected);
    }
}

#[tokio::test]
async fn memory_relabelled_for_a_workspace_is_shown_to_those_who_work_there() {
    let world = World::new().await;
    let id = world.approved_memories(1).await[0];
    world.workspace("sales").await;
    let change = audience("workspace:sales");
    let shown = update(&world, &world.owner, id, &relabel(change)).await;
    let shown = shown.unwrap().value;
    assert_eq!(shown.summary.audience_tag.to_string(), "workspace:sales");
    assert!(shown.content.is_some());
}

/// A key names a memory at its original source, even after the memory has moved to another one.
#[tokio::test]
async fn source_key_stays_with_its_memory() {
    let world = World::new().await;
    let drive = world.source("Drive", "drive").await.unwrap();
    let come_in = async |source, content: &str| {
        let batch = [with(new_memory("Page"), |new| {
            new.source_key = Some("page/1".to_owned());
            new.content = content.to_owned();
        })];
        let ingested = world.ingest_memories(source, &batch).await.unwrap();
        (ingested[0].id.unwrap(), ingested[0].outcome)
    };
    let (moved, _) = come_in(world.source, "one").await;
    let filed_elsewhere = MemoryChange::builder().source_id(drive).build();
    world.change(&[moved], filed_elsewhere).await.unwrap();
    let memory = world.get_memory(moved).await.unwrap();
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
        let found = world.get_memory(id).await.unwrap();
        found.value.content.unwrap()
    };
    assert_eq!(
        (content(moved).await, content(other).await),
        ("two".to_owned(), "four".to_owned())
    );
    assert_eq!(counts(&world).await, (2, 2));

    // Deleting one releases its own key and keeps the other's.
    world.delete_memory(moved).await.unwrap();
    assert_eq!(
        come_in(drive, "five").await,
        (other, IngestOutcome::Updated)
    );
    let (anew, outcome) = come_in(world.source, "six").await;
    assert_eq!(outcome, IngestOutcome::Created);
    assert!(anew != moved && anew != other);
    world.assert_whole().await;
}
