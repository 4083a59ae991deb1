//! Tests of the reference monitor: what does not exist for a caller cannot be reached by any call.

use knowledge_core::Error;
use knowledge_core::access::{Action, BuiltInRole, RoleRef, TokenScope};
use knowledge_core::model::{
    AccessCheck, BulkItemErrorCode, BulkResult, MemoryFilter, MemoryId, MemoryUpdate, ReviewStatus,
    SensitivityLabel,
};
use knowledge_core::service::{Caller, IngestOutcome, IngestedMemory, NewMemory, PageRequest};

use crate::inbound_sender::Sender;
use crate::make::{
    MEMBER, VIEWER, actions, audience, code, create_memory, new_mcp_key, new_memory, new_recall,
    problem, review, sensitivity,
};
use crate::world::World;
use knowledge_testing::requests::with;

fn keyed(text: &str) -> NewMemory {
    with(new_memory("Page"), |new| {
        new.source_key = Some("page/1".to_owned());
        new.content = text.to_owned();
    })
}

async fn ingest(world: &World, caller: &Caller, text: &str) -> Result<Vec<IngestedMemory>, Error> {
    let batch = [keyed(text)];
    world.by(caller).ingest_memories(world.source, &batch).await
}

fn codes(result: &BulkResult) -> Vec<Option<BulkItemErrorCode>> {
    let errors = result.results.iter().map(|item| item.error.as_ref());
    errors.map(|error| error.map(|error| error.code)).collect()
}

/// Asserts that no call of the caller tells the memory from an unknown one, or changes it.
async fn assert_unknown(world: &World, caller: &Caller, memory: MemoryId) {
    let before = world.labels(memory).await;
    let (filter, page) = (MemoryFilter::default(), PageRequest::default());
    let found = world.by(caller).get_memory(memory).await;
    assert_eq!(code(found), "not_found");
    let listed = world.by(caller).list_memories(&filter, &page);
    if let Ok(listed) = listed.await {
        assert!(listed.data.iter().all(|found| found.id != memory));
        assert_eq!(listed.next_cursor, None);
    }
    let check = AccessCheck::builder().memory_ids(vec![memory]).build();
    let checked = world.by(caller).check_access(&check).await.unwrap();
    assert_eq!(checked.results[0].labels, None);
    for change in [audience("org:acme"), review(ReviewStatus::Approved)] {
        if let Ok(result) = world.bulk(caller, &[memory], change.clone()).await {
            assert_eq!(codes(&result), [Some(BulkItemErrorCode::NotFound)]);
        }
        let update = MemoryUpdate::builder().change(change).build();
        let updated = world.by(caller).update_memory(memory, &update, None).await;
        assert_eq!(code(updated), "not_found");
    }
    let rewrite = MemoryUpdate::builder().title("Mine").build();
    let updated = world.by(caller).update_memory(memory, &rewrite, None).await;
    assert_eq!(code(updated), "not_found");
    let deleted = world.by(caller).delete_memory(memory).await;
    assert_eq!(code(deleted), "not_found");
    match world.by(caller).create_recall(&new_recall(&[memory])).await {
        Err(Error::Forbidden { .. }) => {}
        cited => assert_eq!(problem(cited), "memory_ids[0] not_found"),
    }
    assert_eq!(world.labels(memory).await, before);
}

#[tokio::test]
async fn member_cannot_reach_memory_of_another_audience() {
    let world = World::new().await;
    let memory = world.approved_memories(1).await[0];
    let member = world.member(MEMBER).await;
    let caller = world.trusted(member);
    let covered = world.by(&caller).get_memory(memory).await.unwrap();
    assert!(covered.value.content.is_some());
    let deleting = actions(&[
        Action::MemoryDelete,
        Action::MemoryUpdate,
        Action::MemoryRead,
    ]);
    let deleting = world.caller_who_may(deleting).await;
    let listed = TokenScope {
        audience: Some(vec!["user:ada".parse().unwrap()]),
        ..TokenScope::default()
    };
    let listed = world.token(world.owner_id, listed).await;
    world
        .change(&[memory], audience("user:olga"))
        .await
        .unwrap();
    for caller in [caller, deleting, Caller::from(listed.secret)] {
        assert_unknown(&world, &caller, memory).await;
    }
    // The owner, who may share, governs it without reading it.
    assert_eq!(world.get_memory(memory).await.unwrap().value.content, None);
    let shared = audience("org:acme");
    let shared = world.change(&[memory], shared).await;
    assert_eq!(shared.unwrap().summary.succeeded, 1);
}

#[tokio::test]
async fn memory_under_review_is_unknown_to_viewers_and_mcp_keys() {
    let world = World::new().await;
    let memory = world.memories(1).await[0];
    let key = world.mcp_key_for("workspace:research").await;
    let key = Caller::from(key.secret.clone().unwrap());
    let viewer = world.caller(VIEWER).await;
    for status in [ReviewStatus::Pending, ReviewStatus::Rejected] {
        let status = review(status);
        world.change(&[memory], status).await.unwrap();
        assert_unknown(&world, &viewer, memory).await;
        assert_unknown(&world, &key, memory).await;
    }
    world.approve(&[memory]).await;
    for caller in [&viewer, &key] {
        let found = world.by(caller).get_memory(memory).await;
        assert!(found.unwrap().value.content.is_some());
    }
}

#[tokio::test]
async fn memory_under_review_is_known_to_its_author_but_not_to_the_authors_mcp_key() {
    let world = World::new().await;
    let author = actions(&[
        Action::MemoryCreate,
        Action::MemoryRead,
        Action::McpKeyManage,
    ]);
    let author = world.caller_who_may(author).await;
    let new = create_memory("Note", world.source);
    let made = world.by(&author).create_memory(&new).await;
    let memory = made.unwrap().value.summary.id;
    let found = world.by(&author).get_memory(memory).await.unwrap();
    assert!(found.value.content.is_some());
    let new = new_mcp_key("workspace:research");
    let key = world.by(&author).create_mcp_key(&new).await;
    assert_unknown(&world, &Caller::from(key.unwrap().secret.unwrap()), memory).await;
    let another = actions(&[Action::MemoryCreate, Action::MemoryRead]);
    assert_unknown(&world, &world.caller_who_may(another).await, memory).await;
}

#[tokio::test]
async fn recall_loses_memory_that_is_no_longer_approved() {
    let world = World::new().await;
    let ids = world.approved_memories(2).await;
    let recall = world.recall_of(&ids).await;
    let rejected = review(ReviewStatus::Rejected);
    world.change(&ids[..1], rejected).await.unwrap();
    assert_eq!(world.get_recall(recall).await.unwrap().memory_ids, ids[1..]);
}

#[tokio::test]
async fn ingest_neither_changes_nor_reveals_hidden_memory() {
    let world = World::new().await;
    let memory = ingest(&world, &world.owner, "secret").await.unwrap()[0].id;
    let memory = memory.unwrap();
    world
        .change(&[memory], audience("user:olga"))
        .await
        .unwrap();
    let member = world.caller(MEMBER).await;
    let before = world.contents().await;
    for text in ["secret", "guess"] {
        let refused = ingest(&world, &member, text).await.unwrap();
        let outcome = IngestOutcome::Forbidden;
        assert_eq!(refused, [IngestedMemory { id: None, outcome }]);
    }
    assert_eq!(world.contents().await, before);
}

#[tokio::test]
async fn ingest_does_not_reveal_text_of_own_memory_that_is_hidden_now() {
    let world = World::new().await;
    let member = world.caller(MEMBER).await;
    let memory = ingest(&world, &member, "mine").await.unwrap()[0].id;
    let memory = memory.unwrap();
    world.approve(&[memory]).await;
    world
        .change(&[memory], audience("user:olga"))
        .await
        .unwrap();
    let updated = IngestedMemory {
        id: Some(memory),
        outcome: IngestOutcome::Updated,
    };
    let same = ingest(&world, &member, "mine").await.unwrap();
    assert_eq!(same, [updated]);
    let labels = world.labels(memory).await;
    assert_eq!(labels.review, ReviewStatus::Approved, "nothing changed");
    assert_eq!(ingest(&world, &member, "new").await.unwrap(), [updated]);
    let labels = world.labels(memory).await;
    assert_eq!(labels.review, ReviewStatus::Pending);
    assert_eq!(labels.audience.to_string(), "user:olga");
    world.assert_whole().await;
}

#[tokio::test]
async fn source_of_inbound_webhook_accepts_signed_messages_alone() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    let batch = [keyed("signed")];
    sender.post(&world, "first", &batch).await.unwrap();
    let ingested = world.ingest_memories(sender.source, &batch);
    assert_eq!(code(ingested.await), "forbidden");
    let new = create_memory("Note", sender.source);
    assert_eq!(code(world.create_memory(&new).await), "forbidden");
    let batch = [keyed("again")];
    sender.post(&world, "second", &batch).await.unwrap();
}

#[tokio::test]
async fn replay_checks_each_item_again() {
    let world = World::new().await;
    let ids = world.approved_memories(2).await;
    let member = world.caller(MEMBER).await;
    let raise = || sensitivity(SensitivityLabel::Confidential);
    let again = async || world.bulk_with_key(&member, "raise", &ids, raise()).await;
    let first = again().await.unwrap();
    assert_eq!(codes(&first), [None, None]);
    world
        .change(&ids[..1], audience("user:olga"))
        .await
        .unwrap();
    let replay = again().await.unwrap();
    let hidden = Some(BulkItemErrorCode::NotFound);
    assert_eq!(
        (replay.replayed, codes(&replay)),
        (true, vec![hidden, None])
    );
    assert_eq!(replay.results[0].memory, None);
    assert_eq!((replay.summary.succeeded, replay.summary.failed), (1, 1));
}

/// A deletion of a hidden memory is as hidden as the memory.
#[tokio::test]
async fn replay_tells_nothing_of_what_happened_to_hidden_memory() {
    let world = World::new().await;
    let ids = world.approved_memories(2).await;
    let member = world.caller(MEMBER).await;
    let again = async |key: &str, ids: &[MemoryId], label: &str| {
        let result = world.bulk_with_key(&member, key, ids, audience(label));
        codes(&result.await.unwrap())
    };
    let hidden = Some(BulkItemErrorCode::NotFound);
    assert_eq!(again("keep", &ids[..1], "org:acme").await, [None]);
    assert_eq!(again("give", &ids[1..], "team:legal").await, [None]);
    let hide = audience("user:olga");
    world.change(&ids, hide).await.unwrap();
    assert_eq!(again("keep", &ids[..1], "org:acme").await, [hidden]);
    assert_eq!(again("give", &ids[1..], "team:legal").await, [None]);
    for id in &ids {
        world.delete_memory(*id).await.unwrap();
    }
    assert_eq!(again("keep", &ids[..1], "org:acme").await, [hidden]);
    assert_eq!(again("give", &ids[1..], "team:legal").await, [None]);
}

#[tokio::test]
async fn ingest_through_list_of_labels_requires_right_to_read() {
    let world = World::new().await;
    ingest(&world, &world.owner, "mine").await.unwrap();
    let elsewhere = TokenScope {
        audience: Some(vec!["team:core".parse().unwrap()]),
        ..TokenScope::default()
    };
    let token = world.token(world.owner_id, elsewhere).await;
    let token = Caller::from(token.secret);
    let refused = ingest(&world, &token, "other").await.unwrap();
    assert_eq!(refused[0].outcome, IngestOutcome::Forbidden);
}

#[tokio::test]
async fn replay_shows_what_the_update_itself_gave_away() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let member = world.caller(MEMBER).await;
    let give = || audience("team:legal");
    let first = world.bulk_with_key(&member, "give", &ids, give()).await;
    let replay = world.bulk_with_key(&member, "give", &ids, give()).await;
    let (first, replay) = (first.unwrap(), replay.unwrap());
    assert_eq!((replay.replayed, codes(&replay)), (true, vec![None]));
    assert_eq!(replay.results, first.results);
}

#[tokio::test]
async fn making_another_member_the_audience_requires_right_to_share() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let member = world.caller(MEMBER).await;
    let result = world.bulk(&member, &ids, audience("user:olga")).await;
    let forbidden = Some(BulkItemErrorCode::Forbidden);
    assert_eq!(codes(&result.unwrap()), [forbidden]);
    let admin = world.caller(RoleRef::BuiltIn(BuiltInRole::Admin)).await;
    let result = world.bulk(&admin, &ids, audience("user:olga")).await;
    assert_eq!(codes(&result.unwrap()), [None]);
}
