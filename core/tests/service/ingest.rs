//! Tests of ingestion.

use knowledge_core::access::Action;
use knowledge_core::internals::keys;
use knowledge_core::limits::CONTENT_BYTES_MAX;
use knowledge_core::model::{
    EventType, MemoryContent, MemoryId, ReviewStatus, SensitivityLabel, SourceId, WorkspaceId,
};
use knowledge_core::service::{IngestBatch, IngestOutcome, IngestedMemory, NewMemory, NewSource};
use uuid::Uuid;

use crate::make::{
    HOUR, MEMBER, VIEWER, actions, audience, code, new_memory, problem, review, sensitivity,
};
use crate::world::{World, data};
use knowledge_testing::requests::with;

async fn ingest(
    world: &World,
    memories: &[NewMemory],
) -> Result<Vec<IngestedMemory>, knowledge_core::Error> {
    world.ingest_memories(world.source, memories).await
}

async fn outcomes(world: &World, memories: &[NewMemory]) -> Vec<IngestOutcome> {
    let ingested = ingest(world, memories).await.unwrap();
    ingested.iter().map(|memory| memory.outcome).collect()
}

/// Creates an entry that declares an audience.
fn declared(name: &str, content: &str, label: &str) -> NewMemory {
    with(named(name, content), |new| {
        new.audience_tag = Some(label.parse().unwrap());
    })
}

fn named(name: &str, content: &str) -> NewMemory {
    with(new_memory("Page"), |new| {
        new.source_key = Some(name.to_owned());
        new.content = content.to_owned();
    })
}

async fn content(world: &World, memory: MemoryId) -> MemoryContent {
    world
        .read(&keys::content(world.org.id, memory))
        .await
        .unwrap()
}

async fn counts(world: &World) -> (i64, i64) {
    let (org, workspace) = (world.org.id, world.workspace.id);
    let memories = world.counter(keys::memory_count(org, workspace)).await;
    (
        memories,
        world.counter(keys::pending_count(org, workspace)).await,
    )
}

#[tokio::test]
async fn new_memory_is_pending_with_labels_of_its_workspace() {
    let world = World::new().await;
    let labelled = with(new_memory("Labelled"), |new| {
        new.audience_tag = Some("team:core".parse().unwrap());
        new.sensitivity_label = Some(SensitivityLabel::Restricted);
    });
    let ingested = ingest(&world, &[new_memory("Plain"), labelled])
        .await
        .unwrap();
    let plain = world.labels(ingested[0].id.unwrap()).await;
    assert_eq!(plain.workspace_id, world.workspace.id);
    assert_eq!(plain.source_id, world.source);
    assert_eq!(plain.audience, world.workspace.audience);
    assert_eq!(plain.sensitivity, SensitivityLabel::Internal);
    assert_eq!(plain.review, ReviewStatus::Pending);
    let labelled = world.labels(ingested[1].id.unwrap()).await;
    assert_eq!(labelled.audience.to_string(), "team:core");
    assert_eq!(labelled.sensitivity, SensitivityLabel::Restricted);
    let said = content(&world, ingested[0].id.unwrap()).await;
    assert_eq!(
        (&*said.title, &*said.content),
        ("Plain", "What Plain says.")
    );
    assert_eq!(said.created_by, world.owner_id);
    assert_eq!(
        (said.created_at, said.updated_at),
        (world.time.now(), world.time.now())
    );
    assert_eq!(counts(&world).await, (2, 2));
}

#[tokio::test]
async fn known_source_key_updates_its_memory() {
    let world = World::new().await;
    let first = ingest(&world, &[named("page/1", "old"), named("page/2", "same")])
        .await
        .unwrap();
    let made_at = world.time.now();
    let ids: Vec<_> = first.iter().filter_map(|memory| memory.id).collect();
    world
        .change(&ids, review(ReviewStatus::Approved))
        .await
        .unwrap();
    world
        .change(&ids, sensitivity(SensitivityLabel::Public))
        .await
        .unwrap();
    assert_eq!(counts(&world).await, (2, 0));

    world.time.pass(HOUR);
    let relabelled = with(named("page/1", "new"), |new| {
        new.sensitivity_label = Some(SensitivityLabel::Restricted);
    });
    let again = [
        relabelled,
        named("page/2", "same"),
        named("page/3", "third"),
    ];
    let second = ingest(&world, &again).await.unwrap();
    let outcomes: Vec<_> = second.iter().map(|memory| memory.outcome).collect();
    use IngestOutcome::{Created, Unchanged, Updated};
    assert_eq!(outcomes, [Updated, Unchanged, Created]);
    assert_eq!((second[0].id, second[1].id), (Some(ids[0]), Some(ids[1])));
    let said = content(&world, ids[0]).await;
    assert_eq!((&*said.content, said.created_at), ("new", made_at));
    assert_eq!(said.updated_at, world.time.now());
    let labels = world.labels(ids[0]).await;
    assert_eq!(
        labels.review,
        ReviewStatus::Pending,
        "its review starts anew"
    );
    assert_eq!(
        labels.sensitivity,
        SensitivityLabel::Public,
        "labels are changed by bulk updates"
    );
    assert_eq!(world.labels(ids[1]).await.review, ReviewStatus::Approved);
    assert_eq!(counts(&world).await, (3, 2));
}

#[tokio::test]
async fn repeated_batch_changes_nothing() {
    let world = World::new().await;
    let batch = [named("page/1", "one"), named("page/2", "two")];
    ingest(&world, &batch).await.unwrap();
    let contents = world.contents().await;
    world.time.pass(HOUR);
    let again = ingest(&world, &batch).await.unwrap();
    assert!(
        again
            .iter()
            .all(|memory| memory.outcome == IngestOutcome::Unchanged)
    );
    assert_eq!(world.contents().await, contents);
}

#[tokio::test]
async fn source_key_is_unique_per_source_and_workspace() {
    let world = World::new().await;
    let files = world.source("Files", "drive").await.unwrap();
    let sales = world.workspace("sales").await;
    let batch = [named("page/1", "one")];
    let mut ids = Vec::new();
    for (workspace, source) in [
        (world.workspace.id, world.source),
        (world.workspace.id, files),
        (sales, world.source),
    ] {
        let ingested = world
            .within(workspace)
            .ingest_memories(source, &batch)
            .await;
        let ingested = ingested.unwrap().remove(0);
        assert_eq!(ingested.outcome, IngestOutcome::Created);
        ids.push(ingested.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn batch_is_accepted_as_a_whole_or_not_at_all() {
    let world = World::new().await;
    let contents = world.contents().await;
    let bad = [
        new_memory("Good"),
        with(new_memory("x"), |new| new.title = String::new()),
        with(new_memory("Empty"), |new| new.content = String::new()),
        with(new_memory("Large"), |new| {
            new.content = "x".repeat(CONTENT_BYTES_MAX + 1);
        }),
        named("", "no name"),
        named(&"x".repeat(513), "long name"),
        named("twice", "a"),
        named("twice", "b"),
    ];
    assert_eq!(
        problem(ingest(&world, &bad).await),
        "memories[1].title too_small, memories[2].content too_small, memories[3].content too_large, \
         memories[4].source_key invalid_value, memories[5].source_key invalid_value, \
         memories[7].source_key duplicate"
    );
    assert_eq!(problem(ingest(&world, &[]).await), "memories too_small");
    let most: Vec<_> = (0..100)
        .map(|number| named(&format!("page/{}", number % 99), "x"))
        .collect();
    assert_eq!(
        problem(ingest(&world, &most).await),
        "memories[99].source_key duplicate"
    );
    let many = vec![new_memory("x"); 101];
    assert_eq!(problem(ingest(&world, &many).await), "memories too_large");
    assert_eq!(world.contents().await, contents);
}

/// A hundred memories of the largest size fit into one commit.
///
/// This includes characters that JSON writes as two.
#[tokio::test]
async fn largest_batch_fits_into_one_commit() {
    let world = World::new().await;
    let title = "\"".repeat(128);
    for content in ["x", "ü", "\n"] {
        let size = if content == "\n" {
            30 * 1024 - 1
        } else {
            CONTENT_BYTES_MAX
        };
        let batch: Vec<_> = (0..100)
            .map(|number| {
                NewMemory::builder()
                    .title(title.clone())
                    .content(content.repeat(size / content.len()))
                    .source_key(format!("{content}{number:\u{1}>500}"))
                    .audience_tag(format!("workspace:{}", "x".repeat(64)).parse().unwrap())
                    .sensitivity_label(SensitivityLabel::Confidential)
                    .build()
            })
            .collect();
        let created = ingest(&world, &batch).await.unwrap();
        assert!(
            created
                .iter()
                .all(|memory| memory.outcome == IngestOutcome::Created)
        );
    }
}

/// Content too large for a value once written as JSON is reported as invalid, not as a failure.
#[tokio::test]
async fn content_too_large_as_json_is_rejected() {
    let world = World::new().await;
    let control = with(new_memory("Binary"), |new| {
        new.content = "\u{1}".repeat(CONTENT_BYTES_MAX);
    });
    assert_eq!(
        problem(ingest(&world, &[control]).await),
        "memories[0].content too_large"
    );
}

#[tokio::test]
async fn ingest_requires_existing_source_and_workspace() {
    let world = World::new().await;
    let batch = [new_memory("x")];
    let nowhere = WorkspaceId(Uuid::nil());
    let ingested = world
        .within(nowhere)
        .ingest_memories(world.source, &batch)
        .await;
    assert_eq!(code(ingested), "not_found");
    let nothing = SourceId(Uuid::nil());
    let ingested = world.ingest_memories(nothing, &batch).await;
    assert_eq!(problem(ingested), "source_id not_found");
}

#[tokio::test]
async fn ingest_requires_separate_actions_to_add_and_update() {
    let world = World::new().await;
    let adder = actions(&[Action::MemoryCreate, Action::MemoryRead]);
    let adder = world.caller_who_may(adder).await;
    let by = async |caller, content: &str| {
        let batch = [named("page/1", content)];
        world.by(caller).ingest_memories(world.source, &batch).await
    };
    by(&adder, "old").await.unwrap();
    by(&adder, "old").await.unwrap();
    assert_eq!(code(by(&adder, "new").await), "forbidden");
    let (member, viewer) = (world.caller(MEMBER).await, world.caller(VIEWER).await);
    by(&member, "new").await.unwrap();
    assert_eq!(code(by(&viewer, "new").await), "forbidden");
    let files = NewSource::builder().name("Files").kind("drive").build();
    assert_eq!(
        code(world.by(&member).create_source(&files).await),
        "forbidden"
    );
    let bad = NewSource::builder()
        .name(String::new())
        .kind(String::new())
        .build();
    let made = world.create_source(&bad).await;
    assert_eq!(problem(made), "name too_small, kind too_small");
}

#[tokio::test]
async fn ingest_announces_its_result_by_kind() {
    let world = World::with_endpoint().await;
    ingest(&world, &[named("page/1", "old")]).await.unwrap();
    world.time.pass(HOUR);
    let batch = [named("page/1", "new"), named("page/2", "two")];
    let second = ingest(&world, &batch).await.unwrap();
    let last = async |event_type| data(&world.events_of(event_type).await.pop().unwrap());
    let listed = |position: usize| serde_json::json!([second[position].id]);
    assert_eq!(
        last(EventType::MemoryUpdated).await["memory_ids"],
        listed(0)
    );
    assert_eq!(last(EventType::ChunkCreated).await["memory_ids"], listed(1));
    let completed = last(EventType::IngestCompleted).await;
    assert_eq!(
        (&completed["created"], &completed["updated"]),
        (&1.into(), &1.into())
    );
    assert_eq!(completed["source_id"], serde_json::json!(world.source));
}

#[tokio::test]
async fn ingest_reads_are_independent_of_batch_size() {
    let world = World::new().await;
    let mut reads = Vec::new();
    for count in [2, 100] {
        for content in ["old", "new"] {
            let batch: Vec<_> = (0..count)
                .map(|number| named(&format!("page/{count}/{number}"), content))
                .collect();
            let before = world.faults.counts().reads;
            ingest(&world, &batch).await.unwrap();
            reads.push(world.faults.counts().reads - before);
        }
    }
    assert_eq!(reads[..2], reads[2..]);
}

#[tokio::test]
async fn entry_that_declares_another_audience_moves_its_memory() {
    let world = World::with_endpoint().await;
    let first = ingest(&world, &[declared("1", "about Ada", "user:ada")]).await;
    let id = first.unwrap()[0].id.unwrap();
    world.approve(&[id]).await;
    let bob = declared("1", "about Bob", "user:bob");
    assert_eq!(outcomes(&world, &[bob]).await, [IngestOutcome::Moved]);
    let labels = world.labels(id).await;
    assert_eq!(labels.audience.to_string(), "user:bob");
    assert_eq!(labels.review, ReviewStatus::Pending);
    assert_eq!(content(&world, id).await.content, "about Bob");
    let updated = world.events_of(EventType::MemoryUpdated).await.pop();
    assert_eq!(
        data(&updated.unwrap())["memory_ids"],
        serde_json::json!([id])
    );

    // The same text for somebody else moves too, and waits for review again.
    world.approve(&[id]).await;
    let ada = declared("1", "about Bob", "user:ada");
    assert_eq!(outcomes(&world, &[ada]).await, [IngestOutcome::Moved]);
    let labels = world.labels(id).await;
    assert_eq!(labels.audience.to_string(), "user:ada");
    assert_eq!(labels.review, ReviewStatus::Pending);
}

#[tokio::test]
async fn label_that_a_person_set_stays() {
    let world = World::new().await;
    let first = ingest(&world, &[declared("1", "old", "user:ada")]).await;
    let id = first.unwrap()[0].id.unwrap();
    world.change(&[id], audience("org:acme")).await.unwrap();
    let label = async || world.labels(id).await.audience.to_string();
    let same = declared("1", "new", "user:ada");
    assert_eq!(outcomes(&world, &[same]).await, [IngestOutcome::Updated]);
    assert_eq!(label().await, "org:acme");
    let other = declared("1", "newer", "user:bob");
    assert_eq!(
        outcomes(&world, std::slice::from_ref(&other)).await,
        [IngestOutcome::LabelKept]
    );
    assert_eq!(label().await, "org:acme");
    assert_eq!(content(&world, id).await.content, "newer");
    assert_eq!(outcomes(&world, &[other]).await, [IngestOutcome::Unchanged]);
    // A person who sets what the source declares lets it move again.
    world.change(&[id], audience("user:bob")).await.unwrap();
    let third = declared("1", "newer", "user:eve");
    assert_eq!(outcomes(&world, &[third]).await, [IngestOutcome::Moved]);
}

#[tokio::test]
async fn entry_without_audience_declares_that_of_its_workspace() {
    let world = World::new().await;
    let plain = named("1", "text");
    ingest(&world, std::slice::from_ref(&plain)).await.unwrap();
    let label = world.workspace.audience.to_string();
    let explicit = declared("1", "text", &label);
    assert_eq!(
        outcomes(&world, &[explicit]).await,
        [IngestOutcome::Unchanged]
    );
    let ada = declared("1", "text", "user:ada");
    assert_eq!(outcomes(&world, &[ada]).await, [IngestOutcome::Moved]);
    assert_eq!(outcomes(&world, &[plain]).await, [IngestOutcome::Moved]);
}

#[tokio::test]
async fn entry_that_its_caller_may_not_store_is_forbidden_by_itself() {
    let world = World::new().await;
    let batch = [
        declared("hidden", "of the owner", "user:ada"),
        named("shown", "old"),
    ];
    let ids = ingest(&world, &batch).await.unwrap();
    let shown = ids[1].id.unwrap();
    world.approve(&[ids[0].id.unwrap(), shown]).await;
    let member = world.caller(MEMBER).await;
    let batch = [
        named("hidden", "mine now"),
        // Without `memory:share`, a member gives nothing to another one.
        declared("shown", "new", "user:ada"),
        named("new", "new"),
    ];
    let by = world.by(&member);
    let ingested = by.ingest_memories(world.source, &batch).await.unwrap();
    let found: Vec<_> = ingested.iter().map(|memory| memory.outcome).collect();
    use IngestOutcome::{Created, Forbidden};
    assert_eq!(found, [Forbidden, Forbidden, Created]);
    assert_eq!((ingested[0].id, ingested[1].id), (None, None));
    assert_eq!(content(&world, shown).await.content, "old");
    assert_eq!(world.labels(shown).await.audience, world.workspace.audience);
}

#[tokio::test]
async fn dry_run_has_the_outcomes_and_stores_nothing() {
    let world = World::new().await;
    let batch = [named("1", "old"), named("2", "same")];
    ingest(&world, &batch).await.unwrap();
    let batch = vec![
        declared("1", "new", "user:ada"),
        named("2", "same"),
        named("3", "third"),
    ];
    let dry = IngestBatch::builder().source_id(world.source);
    let dry = dry.memories(batch.clone()).dry_run(true).build();
    let before = world.contents().await;
    let memories = world.service.memories();
    let shown = memories.ingest_batch(&world.owner, world.workspace.id, &dry);
    let shown = shown.await.unwrap();
    assert_eq!(world.contents().await, before);
    let stored = ingest(&world, &batch).await.unwrap();
    let of = |ingested: &[IngestedMemory]| -> Vec<_> {
        ingested.iter().map(|memory| memory.outcome).collect()
    };
    use IngestOutcome::{Created, Moved, Unchanged};
    assert_eq!(of(&shown), [Moved, Unchanged, Created]);
    assert_eq!(of(&stored), of(&shown));
    assert_eq!((shown[0].id, shown[2].id), (stored[0].id, None));
}
