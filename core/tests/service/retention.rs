//! Tests of the retention of chats.

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::TokenScope;
use knowledge_core::internals::keys;
use knowledge_core::limits::RETENTION_DAYS_MAX;
use knowledge_core::model::{ChatId, Quota, ResourceKind};
use knowledge_core::service::{AuditAction, Caller, NewRetention, PageRequest, Retention};
use knowledge_store::faults::{CommitFault, FaultPlan};
use serde_json::json;

use crate::audit::entries;
use crate::make::{ADMIN, DAY, MILLISECOND, MINUTE, code, problem};
use crate::world::World;

async fn set_as(
    world: &World,
    caller: &Caller,
    chat_days: Option<u64>,
) -> Result<Retention, Error> {
    let new = NewRetention::builder().maybe_chat_days(chat_days).build();
    world.by(caller).set_retention(&new).await
}

async fn set(world: &World, chat_days: impl Into<Option<u64>>) {
    let chat_days = chat_days.into();
    let set = set_as(world, &world.owner, chat_days).await.unwrap();
    assert_eq!(set.chat_days, chat_days);
    assert_eq!(world.get_retention().await.unwrap(), set);
}

/// Returns the identifiers of the listed chats, after all other reads agree with the list.
async fn chats(world: &World, known: &[ChatId]) -> Vec<ChatId> {
    let page = PageRequest::default();
    let listed = world.list_chats(&page).await.unwrap();
    let mut listed: Vec<ChatId> = listed.data.into_iter().map(|chat| chat.id).collect();
    listed.sort_unstable();
    let mut shown = world.dashboard().await.recent_chats;
    shown.sort_by_key(|chat| chat.session_id);
    let shown: Vec<ChatId> = shown.into_iter().map(|chat| chat.session_id).collect();
    assert_eq!(shown, listed);
    for chat in known {
        let is_listed = listed.contains(chat);
        let found = world.get_chat(*chat).await;
        assert_eq!(found.is_ok(), is_listed);
        assert_eq!(world.list_messages(*chat, &page).await.is_ok(), is_listed);
        if !is_listed {
            assert_eq!(code(world.post_message(*chat, "Late.").await), "not_found");
            assert_eq!(code(world.delete_chat(*chat).await), "not_found");
        }
    }
    world.assert_whole().await;
    listed
}

async fn usage(world: &World) -> [i64; 2] {
    let mut used = [0; 2];
    for (used, quota) in used.iter_mut().zip([Quota::Chats, Quota::ChatMessages]) {
        let key = keys::usage(world.org.id, quota);
        *used = world.read(&key).await.unwrap_or(0);
    }
    used
}

async fn post(world: &World, chat: ChatId, content: &str) {
    world.post_message(chat, content).await.unwrap();
}

/// Returns the counts of chats and messages in the entries about erasure.
async fn erased(world: &World) -> Vec<(u64, u64)> {
    let mut found = entries(world).await;
    found.retain(|entry| entry.action == AuditAction::RetentionErase);
    let counts = found.into_iter().map(|entry| {
        assert_eq!(entry.resource.kind, ResourceKind::Workspace);
        assert_eq!(entry.resource.id, world.workspace.id.0);
        assert_eq!((entry.actor_id, entry.before), (None, None));
        let after = entry.after.unwrap();
        let count = |name: &str| after[name].as_u64().unwrap();
        (count("chats"), count("chat_messages"))
    });
    counts.collect()
}

async fn is_first_question_asked(world: &World) -> bool {
    let steps = world.dashboard().await.first_value_checklist.suggested;
    let step = steps
        .iter()
        .find(|step| step.step_id == "ask_first_question");
    step.unwrap().completed
}

#[tokio::test]
async fn chat_expires_at_its_time_and_is_erased() {
    let world = World::new().await;
    let chat = world.add_chat("Quokka").await;
    post(&world, chat, "The quokka smiles.").await;
    set(&world, 2).await;
    world.time.pass(2 * DAY - MILLISECOND);
    world.maintain().await;
    assert_eq!(chats(&world, &[chat]).await, [chat]);
    let tag = world.dashboard_tag().await;

    world.time.pass(MILLISECOND);
    assert_eq!(chats(&world, &[chat]).await, []);
    assert!(!is_first_question_asked(&world).await);
    assert_ne!(world.dashboard_tag().await, tag);
    assert_eq!(usage(&world).await, [1, 1]);
    let other = world.add_chat("Wombat").await;
    assert_eq!(chats(&world, &[chat, other]).await, [other]);

    world.maintain().await;
    assert_eq!(chats(&world, &[chat, other]).await, [other]);
    assert_eq!(usage(&world).await, [1, 0]);
    for (key, value) in world.contents().await {
        let value = String::from_utf8_lossy(&value).to_lowercase();
        assert!(!value.contains("quokka"), "{key}: {value}");
    }
    assert_eq!(erased(&world).await, [(1, 1)]);
}

#[tokio::test]
async fn message_moves_the_deadline() {
    let world = World::new().await;
    let (moved, still) = (world.add_chat("Moved").await, world.add_chat("Still").await);
    set(&world, 1).await;
    world.maintain().await;
    world.time.pass(DAY - MINUTE);
    post(&world, moved, "Still here.").await;
    world.time.pass(MINUTE);
    let both = [moved, still];
    assert_eq!(chats(&world, &both).await, [moved]);
    world.maintain().await;
    assert_eq!(chats(&world, &both).await, [moved]);
    world.time.pass(DAY - MINUTE);
    assert_eq!(chats(&world, &both).await, []);
    world.maintain().await;
    assert_eq!(usage(&world).await, [0, 0]);
    assert_eq!(erased(&world).await, [(1, 0), (1, 1)]);
}

#[tokio::test]
async fn shorter_retention_acts_at_once_and_longer_brings_nothing_back() {
    for is_swept in [false, true] {
        let world = World::new().await;
        let sweep = async || {
            if is_swept {
                world.maintain().await;
            }
        };
        let old = world.add_chat("Old").await;
        world.time.pass(DAY);
        let new = world.add_chat("New").await;
        let both = [old, new];
        set(&world, 2).await;
        sweep().await;
        assert_eq!(chats(&world, &both).await, both);
        set(&world, 1).await;
        assert_eq!(chats(&world, &both).await, [new]);
        sweep().await;
        for days in [Some(30), None, Some(2), None] {
            set(&world, days).await;
            assert_eq!(chats(&world, &both).await, [new], "{days:?}");
            sweep().await;
        }
        world.time.pass(400 * DAY);
        assert_eq!(chats(&world, &both).await, [new]);
        world.maintain().await;
        assert_eq!(chats(&world, &both).await, [new]);
        assert_eq!(usage(&world).await, [1, 0]);
        let place = keys::retention(world.org.id, world.workspace.id);
        assert_eq!(world.read::<serde_json::Value>(&place).await, None);
        assert_eq!(world.planned().await, 0);
    }
}

#[tokio::test]
async fn retention_has_one_task_and_one_audit_entry_per_change() {
    let world = World::new().await;
    for days in [1, 1, 2, 3, 1] {
        set(&world, days).await;
        assert_eq!(world.planned().await, 1);
        world.time.pass(MINUTE);
    }
    world.maintain().await;
    assert_eq!(world.planned().await, 1);
    let mut changes = entries(&world).await;
    changes.retain(|entry| entry.action == AuditAction::RetentionUpdate);
    let after = changes.into_iter().map(|entry| entry.after.unwrap());
    let after: Vec<_> = after.collect();
    let retention = |days: u64| {
        json!({
            "chat_days": days,
            "memory_days": {},
            "recall_days": 30,
            "record_recalls": true,
        })
    };
    assert_eq!(after, [1, 2, 3, 1].map(retention));
}

#[tokio::test]
async fn retention_is_of_one_workspace() {
    let world = World::new().await;
    let chat = world.add_chat("Here").await;
    let sales = world.workspace("sales").await;
    let new = NewRetention::builder().chat_days(1).build();
    world.within(sales).set_retention(&new).await.unwrap();
    world.time.pass(2 * DAY);
    world.maintain().await;
    assert_eq!(chats(&world, &[chat]).await, [chat]);
}

#[tokio::test]
async fn retention_rejects_days_outside_its_range() {
    let world = World::new().await;
    for days in [0, RETENTION_DAYS_MAX + 1, u64::MAX] {
        let set = set_as(&world, &world.owner, Some(days)).await;
        assert_eq!(problem(set), "chat_days invalid_value");
    }
    for days in [1, RETENTION_DAYS_MAX] {
        set(&world, days).await;
    }
}

#[tokio::test]
async fn credential_with_audience_labels_sets_no_retention() {
    let world = World::new().await;
    let member = world.member(ADMIN).await;
    let scope = TokenScope {
        audience: Some(vec!["org:acme".parse().unwrap()]),
        ..TokenScope::default()
    };
    for (scope, expected) in [(scope, "forbidden"), (TokenScope::default(), "ok")] {
        let token = world.token(member, scope).await.secret;
        let set = set_as(&world, &token.into(), Some(1)).await;
        assert_eq!(set.map_or_else(|error| error.code(), |_| "ok"), expected);
    }
}

/// Whichever commit fails, maintenance erases the rest, and the store is whole throughout.
#[tokio::test]
async fn interrupted_erasure_of_chats_is_resumed() {
    const CHATS: usize = 70;
    const MESSAGES: usize = 210;
    for number in 1..=5 {
        let world = World::new().await;
        let long = world.add_chat("Long").await;
        for _ in 0..MESSAGES {
            post(&world, long, "Again.").await;
        }
        for number in 1..CHATS {
            world.add_chat(&format!("Chat {number}")).await;
        }
        world.time.pass(Duration::from_secs(1));
        let kept = world.add_chat("Kept").await;
        set(&world, 1).await;
        world.time.pass(DAY - Duration::from_secs(1));
        let plan = FaultPlan::none().at_commit(number, CommitFault::Unavailable);
        let failing = world.served_with(plan).await;
        let mut failures = 0;
        loop {
            match failing.service.maintain(world.time.now()).await {
                Ok(done) if done.has_more => {}
                Ok(_) => break,
                Err(_) => failures += 1,
            }
            assert_eq!(chats(&world, &[long, kept]).await, [kept]);
        }
        assert!(failures <= 1);
        assert_eq!(chats(&world, &[long, kept]).await, [kept]);
        assert_eq!(usage(&world).await, [1, 0]);
        let counts = erased(&world).await;
        assert_eq!(
            counts.iter().map(|(chats, _)| chats).sum::<u64>(),
            CHATS as u64
        );
        assert_eq!(counts.len(), 2, "an entry for each batch");
    }
}
