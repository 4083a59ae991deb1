//! Tests of erasures, their receipts, and the deletion of single chats and recalls.

use knowledge_core::Error;
use knowledge_core::access::{Action, TokenScope};
use knowledge_core::internals::keys;
use knowledge_core::model::{
    Erasure, ErasureStatus, EventType, MemoryChange, MemoryId, NewErasure, ReviewStatus,
};
use knowledge_core::service::{AuditAction, Caller, ErasureResult, IngestOutcome, PageRequest};
use knowledge_core::store::Key;
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::audit::entries;
use crate::make::{
    ADMIN, MEMBER, VIEWER, actions, audience, code, new_chat, new_memory, new_recall,
    new_subscription, problem,
};
use crate::world::{World, data};
use knowledge_testing::requests::with;

/// Records that a step of an erasure examines.
const STEP: usize = 200;

async fn erase_with_key(
    world: &World,
    caller: &Caller,
    key: &str,
    request: &NewErasure,
) -> Result<ErasureResult, Error> {
    let key = key.parse().unwrap();
    world.by(caller).create_erasure(&key, request).await
}

async fn erase(world: &World, request: &NewErasure) -> Erasure {
    let key = world.name("key");
    let erased = erase_with_key(world, &world.owner, &key, request).await;
    erased.unwrap().erasure
}

fn named(memories: &[MemoryId]) -> NewErasure {
    NewErasure::builder().memory_ids(memories.to_vec()).build()
}

/// Asserts that no entry of the store has a text, apart from some families.
async fn assert_erased(world: &World, text: &str) {
    for (key, value) in world.contents().await {
        let value = String::from_utf8_lossy(&value).to_lowercase();
        assert!(!value.contains(text), "{key}: {value}");
    }
}

async fn add(world: &World, key: &str, content: &str) -> MemoryId {
    let new = with(new_memory("Quokka"), |new| {
        new.content = content.to_owned();
        new.source_key = Some(key.to_owned());
    });
    let ids = world.ingest(world.workspace.id, world.source, &[new]).await;
    let id = ids.unwrap()[0];
    world.approve(&[id]).await;
    id
}

#[tokio::test]
async fn named_memories_are_erased_with_a_receipt() {
    let world = World::with_endpoint().await;
    let (service, owner) = (&world.service, &world.owner);
    let first = add(&world, "page/1", "What the quokka says.").await;
    let second = add(&world, "page/2", "The quokka again.").await;
    let kept = world.approved_memories(1).await[0];
    let bare = with(new_recall(&[first, second]), |new| {
        new.query = "What does the quokka say?".to_owned();
    });
    let bare = world.create_recall(&bare).await;
    let bare = bare.unwrap().id;
    let subscription = world.subscribe(owner, bare).await.id;
    let other = world.recall_of(&[first, kept]).await;
    let unknown = MemoryId(uuid::Uuid::from_u128(7));

    let receipt = erase(&world, &named(&[first, unknown, second])).await;

    assert_eq!(receipt.status, ErasureStatus::Completed);
    assert_eq!((receipt.not_found, receipt.forbidden), (1, 0));
    let counts = &receipt.counts;
    assert_eq!((counts.memories, counts.source_keys), (2, 2));
    assert_eq!((counts.recalls, counts.citation_subscriptions), (1, 1));
    assert_eq!(receipt.scope.memories_named, Some(3));
    assert_eq!(receipt.remains.backups_before, receipt.completed_at);
    let until = receipt
        .completed_at
        .unwrap()
        .plus(service.limits().audit_retention);
    assert_eq!(receipt.remains.audit_log_until, Some(until));
    assert_erased(&world, "quokka").await;
    for id in [first, second] {
        assert_eq!(code(world.get_memory(id).await), "not_found");
    }
    assert_eq!(code(world.get_recall(bare).await), "not_found");
    let found = world.get_subscription(subscription).await;
    assert_eq!(code(found), "not_found");
    let found = world.get_recall(other).await.unwrap();
    assert_eq!(found.memory_ids, [kept]);
    let events = world.events_of(EventType::ChunkDeleted).await;
    let told = data(&events[0])["memory_ids"].to_string();
    assert!(told.contains(&first.to_string()) && told.contains(&second.to_string()));
    let mut audit = entries(&world).await;
    audit.retain(|entry| entry.action == AuditAction::ErasureCreate);
    assert!(audit.iter().any(|entry| entry.resource.id == receipt.id.0));
    world.assert_whole().await;

    let read = world.get_erasure(receipt.id).await.unwrap();
    assert_eq!(read, receipt);
    let listed = world.list_erasures(&PageRequest::default()).await;
    assert_eq!(listed.unwrap().data, [receipt]);
}

#[tokio::test]
async fn hidden_memories_count_as_not_found() {
    let world = World::new().await;
    let hidden = world.approved_memories(1).await[0];
    let for_nobody = audience("user:nobody");
    world.change(&[hidden], for_nobody).await.unwrap();
    let eraser = world
        .caller_who_may(actions(&[Action::ErasureManage]))
        .await;
    let unknown = MemoryId(uuid::Uuid::from_u128(7));
    let mut receipts = Vec::new();
    for id in [hidden, unknown] {
        let erased = erase_with_key(&world, &eraser, &world.name("key"), &named(&[id])).await;
        let receipt = erased.unwrap().erasure;
        receipts.push((receipt.counts, receipt.not_found, receipt.forbidden));
    }
    assert_eq!(receipts[0], receipts[1]);
    assert_eq!(receipts[0].1, 1);
    assert!(world.get_memory(hidden).await.is_ok());
}

#[tokio::test]
async fn restricted_admin_erases_nothing_in_that_workspace() {
    let world = World::new().await;
    let memory = world.approved_memories(1).await[0];
    let member = world.member(ADMIN).await;
    let caller = world.trusted(member);
    let restricted = world.assign_in(member, world.workspace.id, Some(VIEWER));
    restricted.await.unwrap();
    let erased = erase_with_key(&world, &caller, "key", &named(&[memory])).await;
    let receipt = erased.unwrap().erasure;
    assert_eq!((receipt.counts.memories, receipt.forbidden), (0, 1));
    let source = NewErasure::builder().source_id(world.source).build();
    let erased = erase_with_key(&world, &caller, "source", &source).await;
    assert_eq!(code(erased), "forbidden");
}

#[tokio::test]
async fn admin_restricted_in_one_of_its_workspaces_erases_no_source() {
    let world = World::new().await;
    let places = [world.workspace.id, world.workspace("sales").await];
    let source = NewErasure::builder().source_id(world.source).build();
    for restricted in places {
        let member = world.member(ADMIN).await;
        for place in places {
            let role = if place == restricted { VIEWER } else { ADMIN };
            world.assign_in(member, place, Some(role)).await.unwrap();
        }
        let (caller, key) = (world.trusted(member), world.name("key"));
        let erased = erase_with_key(&world, &caller, &key, &source).await;
        assert_eq!(code(erased), "forbidden");
    }
}

#[tokio::test]
async fn narrowed_credential_erases_no_source_and_no_member() {
    let world = World::new().await;
    let member = world.member(ADMIN).await;
    let scope = TokenScope {
        actions: Some(actions(&[Action::ErasureManage])),
        ..TokenScope::default()
    };
    let token: Caller = world.token(member, scope).await.secret.into();
    for request in [
        NewErasure::builder().source_id(world.source).build(),
        NewErasure::builder().member_id(member).build(),
    ] {
        let erased = erase_with_key(&world, &token, "key", &request).await;
        assert_eq!(code(erased), "forbidden");
    }
}

#[tokio::test]
async fn erasure_names_exactly_one_scope() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let new = || NewErasure::builder();
    let unknown = knowledge_core::model::SourceId(uuid::Uuid::from_u128(7));
    for (request, expected) in [
        (new().build(), "body required"),
        (
            new().member_id(member).source_id(world.source).build(),
            "body invalid_value",
        ),
        (
            new().member_id(member).source_key_prefix("a").build(),
            "sourceKeyPrefix invalid_value",
        ),
        (new().source_id(unknown).build(), "sourceId not_found"),
        (
            new()
                .member_id(knowledge_core::model::MemberId(unknown.0))
                .build(),
            "memberId not_found",
        ),
    ] {
        let erased = erase_with_key(&world, &world.owner, "key", &request).await;
        assert_eq!(problem(erased), expected, "{request:?}");
    }
}

#[tokio::test]
async fn erasure_is_replayed_by_its_key() {
    let world = World::new().await;
    let memories = world.approved_memories(2).await;
    let request = named(&memories[..1]);
    let erase = async |request| erase_with_key(&world, &world.owner, "key", request).await;
    let first = erase(&request).await.unwrap();
    assert!(!first.replayed);
    let contents = world.contents().await;
    let again = erase(&request).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.erasure, first.erasure);
    assert_eq!(world.contents().await, contents);
    let other = erase(&named(&memories[1..])).await;
    assert_eq!(code(other), "idempotency_key_reused");
}

#[tokio::test]
async fn everything_from_a_source_is_erased() {
    let world = World::with_endpoint().await;
    let page = add(&world, "page/1", "What the quokka says.").await;
    let note = add(&world, "note/1", "Not about it.").await;
    let recall = world.recall_of(&[page]).await;
    let prefix = NewErasure::builder()
        .source_id(world.source)
        .source_key_prefix("page/")
        .build();
    let receipt = erase(&world, &prefix).await;
    assert_eq!(receipt.status, ErasureStatus::Completed);
    assert_eq!((receipt.counts.memories, receipt.counts.recalls), (1, 1));
    assert_erased(&world, "what the quokka").await;
    assert_eq!(code(world.get_recall(recall).await), "not_found");
    assert!(world.get_memory(note).await.is_ok());

    let source = NewErasure::builder().source_id(world.source).build();
    let receipt = erase(&world, &source).await;
    assert_eq!(receipt.counts.memories, 1);
    assert_erased(&world, "quokka").await;
    let place = keys::memory_count(world.org.id, world.workspace.id);
    assert_eq!(world.counter(place).await, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn everything_of_a_member_is_erased() {
    let world = World::with_endpoint().await;
    let member = world.member(MEMBER).await;
    let caller = world.trusted(member);
    let kept = world.approved_memories(1).await[0];
    let new = with(new_memory("Quokka"), |new| {
        new.content = "It says.".to_owned();
    });
    let new = [new];
    let ingested = world.by(&caller).ingest_memories(world.source, &new);
    assert_eq!(ingested.await.unwrap()[0].outcome, IngestOutcome::Created);
    let recall = with(new_recall(&[kept]), |new| new.query = "Quokka?".to_owned());
    let recall = world.by(&caller).create_recall(&recall).await;
    let recall = recall.unwrap().id;
    let chat = new_chat("Quokkas");
    let chat = world.by(&caller).create_chat(&chat).await;
    let chat = chat.unwrap().id;
    for _ in 0..=2 * STEP {
        let posted = world.by(&caller).post_message(chat, "A quokka.");
        posted.await.unwrap();
    }

    let request = NewErasure::builder().member_id(member).build();
    let receipt = erase(&world, &request).await;
    assert_eq!(receipt.status, ErasureStatus::Completed);
    let counts = &receipt.counts;
    assert_eq!((counts.memories, counts.recalls), (1, 1));
    let messages = 2 * STEP as u64 + 1;
    assert_eq!((counts.chats, counts.chat_messages), (1, messages));
    assert_erased(&world, "quokka").await;
    assert_eq!(code(world.get_recall(recall).await), "not_found");
    assert_eq!(code(world.by(&caller).get_chat(chat).await), "not_found");
    assert!(world.get_memory(kept).await.is_ok());
    world.assert_whole().await;
}

/// Whichever commit fails, maintenance completes the erasure, and the store is whole throughout.
#[tokio::test]
async fn interrupted_erasure_is_resumed() {
    for number in 2..=5 {
        let world = World::with_endpoint().await;
        let memories = world.approved_memories(STEP + 1).await;
        world.recall_of(&memories[..1]).await;
        world.recall_of(&memories[STEP..]).await;
        let plan = FaultPlan::none().at_commit(number, CommitFault::Unavailable);
        let failing = world.served_with(plan).await;
        let source = NewErasure::builder().source_id(world.source).build();
        let receipt = erase(&failing, &source).await;
        assert_eq!(failing.faults.counts().faults, 1, "commit {number}");
        assert_eq!(receipt.status, ErasureStatus::Running);
        assert_eq!(receipt.remains.backups_before, None);
        world.assert_whole().await;
        world.maintain().await;
        let receipt = world.get_erasure(receipt.id).await;
        let receipt = receipt.unwrap();
        assert_eq!(receipt.status, ErasureStatus::Completed);
        let counts = &receipt.counts;
        assert_eq!((counts.memories, counts.recalls), (STEP as u64 + 1, 2));
        world.assert_whole().await;
    }
}

#[tokio::test]
async fn erasure_of_nothing_is_complete() {
    let world = World::new().await;
    let unknown = MemoryId(uuid::Uuid::from_u128(7));
    let receipt = erase(&world, &named(&[unknown])).await;
    assert_eq!(receipt.status, ErasureStatus::Completed);
    assert_eq!(receipt.counts.memories, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn pending_memories_are_erased_with_their_place_in_the_backlog() {
    let world = World::new().await;
    let memories = world.memories(3).await;
    let receipt = erase(&world, &named(&memories)).await;
    assert_eq!(receipt.counts.memories, 3);
    assert_eq!(world.dashboard().await.review_backlog_count, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn chat_is_deleted_with_all_its_messages() {
    let world = World::new().await;
    let creator = world.caller(MEMBER).await;
    let other = world.member(MEMBER).await;
    let new = with(new_chat("Quokkas"), |new| new.participants = vec![other]);
    let chat = world.by(&creator).create_chat(&new).await;
    let chat = chat.unwrap().id;
    for _ in 0..=STEP {
        let posted = world.by(&creator).post_message(chat, "A quokka.");
        posted.await.unwrap();
    }
    let stranger = world.caller(MEMBER).await;
    let delete = async |caller: &Caller| world.by(caller).delete_chat(chat).await;
    assert_eq!(code(delete(&stranger).await), "not_found");
    assert_eq!(code(delete(&world.trusted(other)).await), "forbidden");
    delete(&creator).await.unwrap();
    assert_eq!(code(delete(&creator).await), "not_found");
    assert_eq!(code(world.by(&creator).get_chat(chat).await), "not_found");
    assert!(world.dashboard().await.recent_chats.is_empty());
    world.assert_whole().await;
    world.maintain().await;
    assert_erased(&world, "quokka").await;
    world.assert_whole().await;
}

#[tokio::test]
async fn admin_deletes_chats_and_recalls_of_others() {
    let world = World::new().await;
    let member = world.caller(MEMBER).await;
    let chat = new_chat("Plans");
    let chat = world.by(&member).create_chat(&chat).await;
    let chat = chat.unwrap().id;
    let cited = world.approved_memories(1).await;
    let recall = new_recall(&cited);
    let recall = world.by(&member).create_recall(&recall).await;
    let recall = recall.unwrap().id;
    let other = world.caller(MEMBER).await;
    let refused = world.by(&other).delete_recall(recall).await;
    assert_eq!(code(refused), "forbidden");
    let admin = world.caller(ADMIN).await;
    world.by(&admin).delete_chat(chat).await.unwrap();
    world.by(&admin).delete_recall(recall).await.unwrap();
    let again = world.by(&admin).delete_recall(recall).await;
    assert_eq!(code(again), "not_found");
    world.assert_whole().await;
}

#[tokio::test]
async fn recall_is_deleted_with_its_subscriptions() {
    let world = World::new().await;
    let owner = &world.owner;
    let recall = world.recall().await;
    let subscription = world.subscribe(owner, recall).await.id;
    world.delete_recall(recall).await.unwrap();
    assert_eq!(code(world.get_recall(recall).await), "not_found");
    let found = world.get_subscription(subscription).await;
    assert_eq!(code(found), "not_found");
    world.maintain().await;
    world.assert_whole().await;
}

/// An erasure could not remove them from there.
#[tokio::test]
async fn audit_log_has_no_titles_queries_and_paths() {
    let world = World::new().await;
    let url = "https://example.com/quokka?token=quokka";
    world.webhook_to(EventType::ChunkCreated, url).await;
    let chat = world.add_chat("Quokka").await;
    let memories = world.approved_memories(1).await;
    let new = with(new_recall(&memories), |new| {
        new.query = "Quokka?".to_owned();
    });
    let recall = world.create_recall(&new).await;
    world.delete_recall(recall.unwrap().id).await.unwrap();
    world.delete_chat(chat).await.unwrap();
    let audit = entries(&world).await;
    let text = format!("{audit:?}").to_lowercase();
    assert!(!text.contains("quokka"), "{text}");
    assert!(text.contains("https://example.com"), "{text}");
}

#[tokio::test]
async fn review_status_does_not_matter_to_an_erasure() {
    let world = World::new().await;
    let memories = world.memories(2).await;
    let rejected = MemoryChange::builder().review_status(ReviewStatus::Rejected);
    let done = world.change(&memories[..1], rejected.build());
    done.await.unwrap();
    let source = NewErasure::builder().source_id(world.source).build();
    assert_eq!(erase(&world, &source).await.counts.memories, 2);
    world.assert_whole().await;
}

#[tokio::test]
async fn subscription_created_meanwhile_ends_with_its_recall() {
    let world = World::new().await;
    let recall = world.recall().await;
    let (service, owner) = (world.service.clone(), world.owner.clone());
    world.probe.before_commit(async move {
        let new = new_subscription(recall, "https://example.com/");
        let created = service.citation_subscriptions().create(&owner, &new);
        created.await.unwrap();
    });
    world.delete_recall(recall).await.unwrap();
    assert!(world.probe.has_happened());
    let left = world.contents().await;
    let is_subscription = |key: &&Key| key.to_string().starts_with("subscription");
    assert_eq!(left.keys().filter(is_subscription).count(), 0);
    world.assert_whole().await;
}
