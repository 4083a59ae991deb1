//! Tests of recalls and the memories that they may cite.

use knowledge_core::internals::keys;
use knowledge_core::limits::RECALL_MEMORIES_MAX;
use knowledge_core::model::{MemoryId, Recall};
use uuid::Uuid;

use crate::make::{MEMBER, MINUTE, VIEWER, audience, code, new_recall, page_at, problem};
use crate::world::World;
use knowledge_testing::requests::with;

async fn create(world: &World, ids: &[MemoryId]) -> Result<Recall, knowledge_core::Error> {
    world.create_recall(&new_recall(ids)).await
}

#[tokio::test]
async fn recall_is_found_by_each_cited_memory() {
    let world = World::new().await;
    let ids = world.approved_memories(RECALL_MEMORIES_MAX).await;
    let recall = create(&world, &ids).await.unwrap();
    assert_eq!(
        (recall.workspace_id, recall.created_by),
        (world.workspace.id, world.owner_id)
    );
    assert_eq!(recall.memory_ids, ids);
    let stored = world
        .read::<Recall>(&keys::recall(world.org.id, recall.id))
        .await;
    assert_eq!(stored, Some(recall.clone()));
    let contents = world.contents().await;
    for id in ids {
        assert!(contents.contains_key(&keys::cited_by(world.org.id, id, recall.id)));
    }
}

#[tokio::test]
async fn query_text_is_stored_only_in_its_recall() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let asked = with(new_recall(&ids), |new| {
        new.query = "a question that is nobody else's".to_owned();
    });
    let recall = world.create_recall(&asked).await.unwrap();
    let contents = world.contents().await;
    let holds = |value: &[u8]| {
        value
            .windows(asked.query.len())
            .any(|at| at == asked.query.as_bytes())
    };
    let holders: Vec<_> = contents
        .iter()
        .filter(|(_, value)| holds(value))
        .map(|(key, _)| key.clone())
        .collect();
    assert_eq!(holders, [keys::recall(world.org.id, recall.id)]);
}

#[tokio::test]
async fn recall_rejects_invalid_values() {
    let world = World::new().await;
    let ids = world.memories(501).await;
    assert_eq!(problem(create(&world, &[]).await), "memory_ids too_small");
    assert_eq!(problem(create(&world, &ids).await), "memory_ids too_large");
    let twice = [ids[0], ids[1], ids[0]];
    assert_eq!(
        problem(create(&world, &twice).await),
        "memory_ids[2] duplicate"
    );
    let long = with(new_recall(&ids[..1]), |new| new.query = "x".repeat(1_025));
    assert_eq!(problem(world.create_recall(&long).await), "query too_large");
}

/// A memory that its creator may not know of is treated as non-existent.
#[tokio::test]
async fn recall_cites_only_memories_visible_to_its_creator() {
    let world = World::new().await;
    let sales = world.workspace("sales").await;
    let elsewhere = world.memories_in(sales, 1).await[0];
    let ids = world.approved_memories(3).await;
    for (id, label) in [
        (ids[1], "user:nobody"),
        (ids[2], "team:core"),
        // It is visible to all, yet not of this workspace.
        (elsewhere, "org:acme"),
    ] {
        world.change(&[id], audience(label)).await.unwrap();
    }
    let unknown = MemoryId(Uuid::nil());
    let cited = [ids[0], ids[1], ids[2], elsewhere, unknown];
    let hidden = "memory_ids[1] not_found, memory_ids[2] not_found, memory_ids[3] not_found, \
                  memory_ids[4] not_found";
    assert_eq!(problem(create(&world, &cited).await), hidden);
    let in_team = with(crate::make::new_member("nobody", MEMBER), |new| {
        new.teams = vec!["core".to_owned()];
    });
    let caller = world.trusted(world.add(&in_team).await);
    let new = new_recall(&ids);
    world.by(&caller).create_recall(&new).await.unwrap();
}

#[tokio::test]
async fn recall_requires_its_action() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let viewer = world.caller(VIEWER).await;
    let made = world.by(&viewer).create_recall(&new_recall(&ids)).await;
    assert_eq!(code(made), "forbidden");
}

#[tokio::test]
async fn recalls_are_listed_newest_first() {
    let world = World::new().await;
    let elsewhere = world.workspace("sales").await;
    let mut made = Vec::new();
    for _ in 0..3 {
        world.time.pass(MINUTE);
        made.insert(0, world.recall().await);
    }
    let listed = async |workspace, limit, cursor| {
        let limit = Some(limit);
        let page = page_at(limit, cursor);
        world.within(workspace).list_recalls(&page).await.unwrap()
    };
    let first = listed(world.workspace.id, 2, None).await;
    let rest = listed(world.workspace.id, 2, first.next_cursor).await;
    assert_eq!(rest.next_cursor, None);
    let found: Vec<_> = first.data.iter().chain(&rest.data).collect();
    let ids: Vec<_> = found.iter().map(|recall| recall.id).collect();
    assert_eq!(ids, made);
    assert_eq!(found[0].query, "Where is it written?");
    assert_eq!(found[0].created_by, world.owner_id);
    assert_eq!(listed(elsewhere, 2, None).await.data, []);
    world.assert_whole().await;
}

/// Deleted memories, and those that the reader may not know of, are left out.
#[tokio::test]
async fn recall_shows_only_memories_visible_to_its_maker() {
    let world = World::new().await;
    let ids = world.approved_memories(3).await;
    let maker = world.caller(MEMBER).await;
    let recall = world
        .by(&maker)
        .create_recall(&new_recall(&ids))
        .await
        .unwrap();
    let hide = audience("team:core");
    world.change(&ids[..1], hide).await.unwrap();
    world.delete_memory(ids[1]).await.unwrap();
    let shown = world.by(&maker).get_recall(recall.id).await.unwrap();
    assert_eq!(shown.memory_ids, [ids[2]]);
    assert_eq!(shown.query, recall.query);
    let unknown = knowledge_core::model::RecallId(Uuid::nil());
    let found = world.by(&maker).get_recall(unknown).await;
    assert_eq!(code(found), "not_found");
}
