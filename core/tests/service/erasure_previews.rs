//! Tests of dry runs of erasures, and of where a prefix of source keys ends.

use knowledge_core::access::Action;
use knowledge_core::model::{
    Erasure, ErasureCounts, ErasurePreview, MemoryChange, MemoryId, NewErasure,
};

use crate::make::{
    MEMBER, VIEWER, actions, audience, code, new_chat, new_memory, new_recall, problem,
};
use crate::world::World;
use knowledge_testing::requests::with;
use knowledge_testing::seed::Seed;

async fn add(world: &World, keys: &[&str]) -> Vec<MemoryId> {
    let batch: Vec<_> = keys
        .iter()
        .map(|key| {
            with(new_memory("Page"), |new| {
                new.source_key = Some((*key).to_owned());
            })
        })
        .collect();
    let ids = world.ingest(world.workspace.id, world.source, &batch).await;
    let ids = ids.unwrap();
    world.approve(&ids).await;
    ids
}

/// Asserts that a dry run changes nothing, and returns its result.
async fn preview(world: &World, request: &NewErasure) -> ErasurePreview {
    let request = with(request.clone(), |request| request.dry_run = true);
    let contents = world.contents().await;
    let preview = world.preview_erasure(&request).await.unwrap();
    assert_eq!(world.contents().await, contents);
    assert!(preview.dry_run);
    preview
}

async fn erase(world: &World, request: &NewErasure) -> Erasure {
    let key = world.name("key").parse().unwrap();
    world.create_erasure(&key, request).await.unwrap().erasure
}

/// Asserts that an erasure counts what its dry run did.
async fn assert_foreseen(world: &World, request: &NewErasure) {
    let preview = preview(world, request).await;
    let receipt = erase(world, request).await;
    assert_eq!(preview.counts, receipt.counts, "{request:?}");
    assert_eq!(preview.scope, receipt.scope);
    assert_eq!(preview.suppress, receipt.suppress);
    let kept = (preview.not_found, preview.forbidden);
    assert_eq!(kept, (receipt.not_found, receipt.forbidden));
}

#[tokio::test]
async fn dry_run_counts_what_the_erasure_then_does() {
    for scope in 0..4 {
        let world = World::with_endpoint().await;
        let member = world.member(MEMBER).await;
        let caller = world.trusted(member);
        let ids = add(&world, &["page/1", "page/2", "note/1"]).await;
        let own = [new_memory("Own")];
        let own = world.by(&caller).ingest_memories(world.source, &own);
        own.await.unwrap();
        let recall = world.recall_of(&ids[..2]).await;
        world.subscribe(&world.owner, recall).await;
        world.recall_of(&ids[1..]).await;
        let recall = new_recall(&ids[2..]);
        world.by(&caller).create_recall(&recall).await.unwrap();
        let chat = world.by(&caller).create_chat(&new_chat("Plans")).await;
        let chat = chat.unwrap().id;
        world
            .by(&caller)
            .post_message(chat, "Hello.")
            .await
            .unwrap();
        let new = NewErasure::builder();
        let unknown = MemoryId(uuid::Uuid::from_u128(7));
        let request = match scope {
            0 => new.memory_ids(vec![ids[0], unknown, ids[1]]).build(),
            1 => new.source_id(world.source).build(),
            2 => new
                .source_id(world.source)
                .source_key_prefix("page")
                .build(),
            _ => new.member_id(member).build(),
        };
        assert_foreseen(&world, &request).await;
        let left = preview(&world, &request).await;
        assert_eq!(left.counts, ErasureCounts::default(), "nothing is left");
    }
}

/// Its cost does not grow with the memories of other sources.
#[tokio::test]
async fn dry_run_for_a_source_reads_its_memories_alone() {
    const OTHERS: usize = 100;
    let world = World::new().await;
    let source = Seed::source(&world, "Other", "wiki").await.unwrap();
    let sales = world.workspace("sales").await;
    for place in [world.workspace.id, sales] {
        let new = [new_memory("Page")];
        world.ingest(place, source, &new).await.unwrap();
    }
    let refiled = [new_memory("Filed elsewhere")];
    let refiled = world.ingest(sales, source, &refiled).await.unwrap();
    let elsewhere = MemoryChange::builder().source_id(world.source).build();
    world.change(&refiled, elsewhere).await.unwrap();
    world.memories(OTHERS).await;
    let request = NewErasure::builder().source_id(source).dry_run(true);
    let request = request.build();
    let before = world.faults.counts().entries_scanned;
    let counted = world.preview_erasure(&request).await.unwrap();
    let scanned = world.faults.counts().entries_scanned - before;
    assert_eq!(counted.counts.memories, 2);
    assert!(scanned < OTHERS as u64, "{scanned} entries");
    let of_source = with(request, |request| request.dry_run = false);
    assert_foreseen(&world, &of_source).await;
}

#[tokio::test]
async fn dry_run_requires_what_the_erasure_does() {
    let world = World::new().await;
    let ids = add(&world, &["page/1"]).await;
    world.change(&ids, audience("user:nobody")).await.unwrap();
    let named = NewErasure::builder().memory_ids(ids).dry_run(true).build();
    let viewer = world.caller(VIEWER).await;
    let refused = world.by(&viewer).preview_erasure(&named).await;
    assert_eq!(code(refused), "forbidden");
    let eraser = world
        .caller_who_may(actions(&[Action::ErasureManage]))
        .await;
    let hidden = world.by(&eraser).preview_erasure(&named).await.unwrap();
    assert_eq!((hidden.counts.memories, hidden.not_found), (0, 1));
    let nothing = NewErasure::builder().build();
    let refused = world.preview_erasure(&nothing).await;
    assert_eq!(problem(refused), "body required");
    // Nothing is erased by a request that asks for a dry run.
    let refused = world.create_erasure(&"key".parse().unwrap(), &named).await;
    assert_eq!(problem(refused), "dryRun invalid_value");
}

#[tokio::test]
async fn prefix_ends_where_a_part_of_the_key_ends() {
    let world = World::new().await;
    add(&world, &["u-1", "u-1/a", "u-1:b", "u-1#c", "u-10", "u-1-d"]).await;
    let of = |prefix: &str| {
        NewErasure::builder()
            .source_id(world.source)
            .source_key_prefix(prefix)
    };
    let parts = preview(&world, &of("u-1").build()).await;
    assert_eq!(parts.counts.memories, 4);
    let any = preview(&world, &of("u-1").any_prefix(true).build()).await;
    assert_eq!(any.counts.memories, 6);
    let below = preview(&world, &of("u-1/").build()).await;
    assert_eq!(below.counts.memories, 1);
    let inside = preview(&world, &of("u-").build()).await;
    assert_eq!(inside.counts.memories, 0);
    let receipt = erase(&world, &of("u-1").build()).await;
    assert_eq!(
        (receipt.counts.memories, receipt.scope.any_prefix),
        (4, false)
    );

    let alone = NewErasure::builder().source_id(world.source);
    let refused = world.preview_erasure(&alone.any_prefix(true).build()).await;
    assert_eq!(problem(refused), "anyPrefix invalid_value");
}
