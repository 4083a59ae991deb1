//! Tests of access checks: they agree with reading, memory by memory.

use knowledge_core::access::Action;
use knowledge_core::limits::{ACCESS_CHECK_CONTENT_BYTES_MAX, ACCESS_CHECK_MEMORIES_MAX};
use knowledge_core::model::{
    AccessCheck, MemoryAccess, MemoryId, MemoryKey, MemoryUpdate, SensitivityLabel,
};
use knowledge_core::service::{Caller, NewMemory};
use uuid::Uuid;

use crate::make::{ADMIN, MEMBER, VIEWER, actions, audience, in_workspaces, problem, sensitivity};
use crate::world::World;

async fn check(
    world: &World,
    caller: &Caller,
    memories: &[MemoryId],
    include_content: bool,
) -> Vec<MemoryAccess> {
    let check = AccessCheck::builder()
        .memory_ids(memories.to_vec())
        .include_content(include_content)
        .build();
    let checked = world.by(caller).check_access(&check).await;
    checked.unwrap().results
}

/// Creates memories of all kinds of labels in two workspaces, and an unknown identifier.
async fn memories(world: &World) -> Vec<MemoryId> {
    let elsewhere = world.workspace("elsewhere").await;
    let mut all = world.memories(6).await;
    all.extend(world.memories_in(elsewhere, 2).await);
    let labels = [
        "user:nobody",
        "team:core",
        "org:acme",
        "workspace:elsewhere",
    ];
    for (memory, label) in all.iter().zip(labels) {
        world.change(&[*memory], audience(label)).await.unwrap();
    }
    for (memory, label) in [
        (all[4], SensitivityLabel::Confidential),
        (all[5], SensitivityLabel::Restricted),
    ] {
        let change = sensitivity(label);
        world.change(&[memory], change).await.unwrap();
    }
    all.push(MemoryId(Uuid::nil()));
    all
}

#[tokio::test]
async fn access_check_agrees_with_reading_for_every_caller() {
    let world = World::new().await;
    let all = memories(&world).await;
    let member = world.member(MEMBER).await;
    let scope = in_workspaces(&[world.workspace.id]);
    let scoped = world.token(member, scope).await.secret;
    let callers = [
        world.owner.clone(),
        world.caller(ADMIN).await,
        world.caller(VIEWER).await,
        world.trusted(member),
        Caller::new(scoped),
        world.caller_who_may(actions(&[])).await,
        world.caller_who_may(actions(&[Action::MemoryUpdate])).await,
        world.caller_who_may(actions(&[Action::MemoryRead])).await,
    ];
    for (index, caller) in callers.iter().enumerate() {
        let items = check(&world, caller, &all, true).await;
        assert_eq!(items.len(), all.len());
        for (item, id) in items.iter().zip(&all) {
            assert_eq!(item.memory_id, *id);
            let read = world.by(caller).get_memory(*id).await;
            let read = read.ok().map(|read| read.value);
            let content = read.as_ref().and_then(|read| read.content.clone());
            assert_eq!(
                item.labels.is_some(),
                read.is_some(),
                "caller {index}, {id}"
            );
            assert_eq!(item.readable, content.is_some(), "caller {index}, {id}");
            assert_eq!(item.content, content, "caller {index}, {id}");
            assert!(!item.content_omitted);
        }
    }
}

#[tokio::test]
async fn hidden_and_unknown_memories_look_the_same() {
    let world = World::new().await;
    let all = memories(&world).await;
    let caller = world.caller(VIEWER).await;
    for item in check(&world, &caller, &[all[0], all[8]], false).await {
        assert_eq!(item, MemoryAccess::none(item.memory_id));
    }
}

#[tokio::test]
async fn access_check_without_contents_returns_none() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let items = check(&world, &world.owner, &[ids[0], ids[0]], false).await;
    assert_eq!(items.len(), 2);
    for item in items {
        assert!(item.readable && item.labels.is_some());
        assert_eq!((item.title, item.content), (None, None));
    }
}

#[tokio::test]
async fn access_check_omits_contents_beyond_its_limit() {
    let world = World::new().await;
    let ids = world.memories(140).await;
    let text = "x".repeat(32 * 1024);
    for id in &ids {
        let update = MemoryUpdate::builder().content(text.clone()).build();
        world.update_memory(*id, &update, None).await.unwrap();
    }
    let fit = ACCESS_CHECK_CONTENT_BYTES_MAX / text.len();
    // A memory that is named repeatedly counts each time.
    for ids in [ids.clone(), vec![ids[0]; 140]] {
        let items = check(&world, &world.owner, &ids, true).await;
        for (index, item) in items.iter().enumerate() {
            assert!(item.readable);
            assert_eq!(item.content.is_some(), index < fit, "{index}");
            assert_eq!(item.content_omitted, index >= fit, "{index}");
        }
    }
}

#[tokio::test]
async fn access_check_takes_1_to_1000_memories() {
    let world = World::new().await;
    let many = |count| {
        AccessCheck::builder()
            .memory_ids(vec![MemoryId(Uuid::nil()); count])
            .include_content(false)
            .build()
    };
    let most = many(ACCESS_CHECK_MEMORIES_MAX);
    assert!(world.check_access(&most).await.is_ok());
    let over = many(ACCESS_CHECK_MEMORIES_MAX + 1);
    let refused = world.check_access(&over).await;
    assert_eq!(problem(refused), "memoryIds too_large");
    let refused = world.check_access(&many(0)).await;
    assert_eq!(problem(refused), "memoryIds too_small");
}

/// By its key at a source, a memory is found only by those who may read it.
#[tokio::test]
async fn access_check_takes_source_keys() {
    let world = World::new().await;
    let workspace = world.workspace.id;
    let memory = |key: &str| {
        let memory = NewMemory::builder().source_key(key).title("On call");
        memory.content(format!("The text of {key}.")).build()
    };
    let batch = ["a", "b", "c"].map(memory);
    let ingested = world.ingest_memories(world.source, &batch).await.unwrap();
    let ids: Vec<MemoryId> = ingested.iter().filter_map(|memory| memory.id).collect();
    world.approve(&ids).await;
    world
        .change(&ids[1..2], sensitivity(SensitivityLabel::Restricted))
        .await
        .unwrap();
    world
        .change(&ids[2..], audience("team:core"))
        .await
        .unwrap();
    let key = |key: &str| {
        let place = MemoryKey::builder().workspace_id(workspace);
        place.source_id(world.source).source_key(key).build()
    };
    let wanted: Vec<MemoryKey> = ["b", "a", "unknown", "c", "a"].map(key).into();
    let check = AccessCheck::builder()
        .memory_ids(vec![ids[0]])
        .source_keys(wanted)
        .include_content(true)
        .build();
    let viewer = world.caller(VIEWER).await;
    let found = world.by(&viewer).check_access(&check).await.unwrap();
    assert_eq!(found.results.len(), 1);
    let first = found.results[0].clone();
    assert_eq!(first.content.as_deref(), Some("The text of a."));
    let expected = [None, Some(first.clone()), None, None, Some(first)];
    assert_eq!(found.source_key_results, expected);
    // The owner, who is in no team, reads the restricted one too.
    let found = world.check_access(&check).await.unwrap();
    let found: Vec<Option<MemoryId>> = found
        .source_key_results
        .iter()
        .map(|item| item.as_ref().map(|item| item.memory_id))
        .collect();
    assert_eq!(
        found,
        [Some(ids[1]), Some(ids[0]), None, None, Some(ids[0])]
    );
    let none = AccessCheck::builder().build();
    let refused = world.check_access(&none).await;
    assert_eq!(problem(refused), "memoryIds too_small");
    let over = AccessCheck::builder()
        .memory_ids(vec![ids[0]])
        .source_keys(vec![key("a"); ACCESS_CHECK_MEMORIES_MAX])
        .build();
    let refused = world.check_access(&over).await;
    assert_eq!(problem(refused), "sourceKeys too_large");
}
