//! Tests of recalls and the memories that they may cite.

use knowledge_core::access::{Action, BaseRole};
use knowledge_core::internals::keys;
use knowledge_core::limits::RECALL_MEMORIES_MAX;
use knowledge_core::model::{AuditAction, CitationFilter, MemoryId, Recall, RecallId};
use knowledge_core::service::{AuditFilter, CitedKey, NewMemory, NewRecall, RecallUpdate};
use uuid::Uuid;

use crate::make::{
    MEMBER, MINUTE, VIEWER, actions, audience, code, new_chat, new_recall, page_at, problem,
};
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
    let others = BaseRole::Viewer.actions() - actions(&[Action::RecallCreate]);
    let caller = world.caller_who_may(others).await;
    let made = world.by(&caller).create_recall(&new_recall(&ids)).await;
    assert_eq!(code(made), "forbidden");
}

/// The person who asks registers what their answer used, and nothing that they may not read.
#[tokio::test]
async fn viewer_registers_recalls_of_what_it_may_read() {
    let world = World::new().await;
    let ids = world.approved_memories(2).await;
    let pending = world.memories(1).await[0];
    let hidden = [world.approved_memories(1).await[0], pending];
    let nobody = audience("user:nobody");
    world.change(&hidden[..1], nobody).await.unwrap();
    let viewer = world.caller(VIEWER).await;
    let made = world.by(&viewer).create_recall(&new_recall(&ids)).await;
    let made = made.unwrap();
    assert_eq!(made.memory_ids, ids);
    let cited = [ids[0], hidden[0], hidden[1]];
    let refused = world.by(&viewer).create_recall(&new_recall(&cited)).await;
    assert_eq!(
        problem(refused),
        "memory_ids[1] not_found, memory_ids[2] not_found"
    );
    assert_eq!(
        world.by(&viewer).get_recall(made.id).await.unwrap(),
        made,
        "it is there for its maker"
    );
    // Chats are those of members.
    let chat = world.by(&viewer).create_chat(&new_chat("Hi")).await;
    assert_eq!(code(chat), "forbidden");
    world.by(&viewer).delete_recall(made.id).await.unwrap();
    let others = world.recall_of(&ids).await;
    let refused = world.by(&viewer).delete_recall(others).await;
    assert_eq!(code(refused), "forbidden");
    world.assert_whole().await;
}

fn cites(ids: &[MemoryId]) -> RecallUpdate {
    RecallUpdate::builder().memory_ids(ids.to_vec()).build()
}

#[tokio::test]
async fn recall_is_narrowed_to_what_the_answer_cites() {
    let world = World::new().await;
    let ids = world.approved_memories(4).await;
    let recall = create(&world, &ids).await.unwrap();
    // One that is gone, and one that is not named, are both no longer cited.
    world.delete_memory(ids[3]).await.unwrap();
    let narrowed = world
        .update_recall(recall.id, &cites(&[ids[2], ids[0]]))
        .await
        .unwrap();
    let kept = [ids[0], ids[2]];
    let expected = with(recall.clone(), |recall| recall.memory_ids = kept.to_vec());
    assert_eq!(narrowed, expected);
    assert_eq!(world.get_recall(recall.id).await.unwrap(), expected);
    let contents = world.contents().await;
    for id in &ids {
        let cited_by = keys::cited_by(world.org.id, *id, recall.id);
        assert_eq!(contents.contains_key(&cited_by), kept.contains(id), "{id}");
    }
    let refused = world.update_recall(recall.id, &cites(&ids[..3])).await;
    assert_eq!(problem(refused), "memory_ids[1] not_found");
    let refused = world.update_recall(recall.id, &cites(&[])).await;
    assert_eq!(problem(refused), "memory_ids too_small");
    // Without a change there is no further entry.
    world.update_recall(recall.id, &cites(&kept)).await.unwrap();
    let filter = AuditFilter::builder().action(AuditAction::RecallUpdate);
    let page = page_at(None, None);
    let entries = world
        .list_audit_log(&filter.build(), &page)
        .await
        .unwrap()
        .data;
    assert_eq!(entries.len(), 1);
    let cited = |state: &Option<serde_json::Value>| state.as_ref().unwrap()["memory_ids"].clone();
    assert_eq!(cited(&entries[0].before), serde_json::json!(ids));
    assert_eq!(cited(&entries[0].after), serde_json::json!(kept));
    world.assert_whole().await;
}

#[tokio::test]
async fn recall_is_narrowed_by_its_maker_alone() {
    let world = World::new().await;
    let ids = world.approved_memories(3).await;
    let maker = world.caller(VIEWER).await;
    let recall = world.by(&maker).create_recall(&new_recall(&ids)).await;
    let recall = recall.unwrap().id;
    let refused = world.update_recall(recall, &cites(&ids[..1])).await;
    assert_eq!(code(refused), "forbidden");
    // Of what is hidden from the maker by now, nothing is told, and nothing is kept.
    world
        .change(&ids[..1], audience("user:nobody"))
        .await
        .unwrap();
    let others = world.caller(MEMBER).await;
    let refused = world
        .by(&others)
        .update_recall(recall, &cites(&ids[1..]))
        .await;
    assert_eq!(code(refused), "not_found");
    let refused = world.by(&maker).update_recall(recall, &cites(&ids)).await;
    assert_eq!(problem(refused), "memory_ids[0] not_found");
    let narrowed = world
        .by(&maker)
        .update_recall(recall, &cites(&ids[1..]))
        .await;
    assert_eq!(narrowed.unwrap().memory_ids, ids[1..]);
    // Whoever may read all that is left may read it now.
    let shown = world.by(&others).get_recall(recall).await.unwrap();
    assert_eq!(shown.memory_ids, ids[1..]);
    let removed = world.by(&maker).delete_recall(recall).await;
    removed.unwrap();
    let gone = world
        .by(&maker)
        .update_recall(recall, &cites(&ids[1..]))
        .await;
    assert_eq!(code(gone), "not_found");
    world.assert_whole().await;
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
        world
            .within(workspace)
            .list_recalls(&CitationFilter::default(), &page)
            .await
            .unwrap()
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
    let unknown = RecallId(Uuid::nil());
    let found = world.by(&maker).get_recall(unknown).await;
    assert_eq!(code(found), "not_found");
}

/// A list shows the memories that each recall shows, and is filtered by these.
#[tokio::test]
async fn recalls_are_found_by_a_memory_that_they_show() {
    let world = World::new().await;
    let ids = world.approved_memories(3).await;
    let elsewhere = world.workspace("sales").await;
    let mut made = Vec::new();
    for cited in [&ids[..1], &ids[..2], &ids[1..]] {
        world.time.pass(MINUTE);
        made.push(create(&world, cited).await.unwrap().id);
    }
    let found = async |workspace, memory: MemoryId| {
        let filter = CitationFilter::builder().memory_id(memory).build();
        let mut page = page_at(Some(1), None);
        let mut found: Vec<(RecallId, Vec<MemoryId>)> = Vec::new();
        loop {
            let listed = world.within(workspace).list_recalls(&filter, &page).await;
            let listed = listed.unwrap();
            assert!(found.is_empty() || !listed.data.is_empty(), "an empty page");
            let items = listed.data.into_iter();
            found.extend(items.map(|recall| (recall.id, recall.memory_ids)));
            page.cursor = listed.next_cursor;
            if page.cursor.is_none() {
                return found;
            }
        }
    };
    let here = world.workspace.id;
    let cited = |recall: usize, ids: &[MemoryId]| (made[recall], ids.to_vec());
    let both = vec![cited(1, &ids[..2]), cited(0, &ids[..1])];
    assert_eq!(found(here, ids[0]).await, both);
    assert_eq!(found(elsewhere, ids[0]).await, []);
    // A memory that does not exist for the caller finds nothing, and is not shown, like a deleted
    // one.
    world.delete_memory(ids[1]).await.unwrap();
    assert_eq!(found(here, ids[1]).await, []);
    assert_eq!(found(here, MemoryId(Uuid::nil())).await, []);
    let left = vec![cited(1, &ids[..1]), cited(0, &ids[..1])];
    assert_eq!(found(here, ids[0]).await, left);
}

/// A recall that its maker still sees is not found by a memory that is hidden from them now.
#[tokio::test]
async fn recall_is_not_found_by_a_hidden_memory() {
    let world = World::new().await;
    let ids = world.approved_memories(2).await;
    let maker = world.caller(MEMBER).await;
    let new = new_recall(&ids);
    let recall = world.by(&maker).create_recall(&new).await.unwrap().id;
    world
        .change(&ids[1..], audience("team:core"))
        .await
        .unwrap();
    let found = async |memory: Option<MemoryId>| {
        let filter = CitationFilter::builder().maybe_memory_id(memory).build();
        let page = page_at(None, None);
        let listed = world.by(&maker).list_recalls(&filter, &page).await;
        let listed = listed.unwrap().data.into_iter();
        listed
            .map(|recall| (recall.id, recall.memory_ids))
            .collect::<Vec<_>>()
    };
    let shown = vec![(recall, ids[..1].to_vec())];
    assert_eq!(found(None).await, shown);
    assert_eq!(found(Some(ids[0])).await, shown);
    assert_eq!(found(Some(ids[1])).await, []);
}

#[tokio::test]
async fn recall_cites_memories_by_their_source_keys() {
    let world = World::new().await;
    let memory = |key: &str| {
        let memory = NewMemory::builder().source_key(key).title("On call");
        memory.content("Ask Ada.").build()
    };
    let batch = ["a", "b", "c"].map(memory);
    let ingested = world.ingest_memories(world.source, &batch).await.unwrap();
    let ids: Vec<MemoryId> = ingested.iter().filter_map(|memory| memory.id).collect();
    world.approve(&ids[..2]).await;
    let recall = |ids: &[MemoryId], names: &[&str]| {
        let key = |name: &&str| {
            let key = CitedKey::builder().source_id(world.source);
            key.source_key(*name).build()
        };
        NewRecall::builder()
            .query("Who is on call?")
            .memory_ids(ids.to_vec())
            .source_keys(names.iter().map(key).collect())
            .build()
    };
    let made = world.create_recall(&recall(&ids[..1], &["b", "a"])).await;
    assert_eq!(made.unwrap().memory_ids, ids[..2]);
    let made = world.create_recall(&recall(&[], &["b", "b"])).await;
    assert_eq!(made.unwrap().memory_ids, ids[1..2]);
    // One that awaits review is refused like one that does not exist.
    let refused = world.create_recall(&recall(&ids[..1], &["a", "c"])).await;
    assert_eq!(problem(refused), "source_keys[1] not_found");
    let refused = world.create_recall(&recall(&[], &["nothing"])).await;
    assert_eq!(problem(refused), "source_keys[0] not_found");
    let refused = world.create_recall(&recall(&[], &[])).await;
    assert_eq!(problem(refused), "memory_ids too_small");
    world.assert_whole().await;
}
