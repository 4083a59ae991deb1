//! Tests of posts to inbound webhooks.

use std::time::Duration;

use knowledge_core::access::Action;
use knowledge_core::model::{
    EventType, InboundWebhookId, MemberId, OrgId, ReviewStatus, Timestamp,
};
use knowledge_core::service::AuditAction;
use uuid::Uuid;

use crate::audit::entry_of;
use crate::inbound_sender::{Sender, Sent, keyed, memories, titles};
use crate::make::{ADMIN, DAY, MILLISECOND, MINUTE, VIEWER, actions, code, new_memory, problem};
use crate::world::{World, data};

#[tokio::test]
async fn posted_message_becomes_memories_pending_review() {
    let world = World::with_endpoint().await;
    let sender = Sender::new(&world).await;
    let pending = world.dashboard().await.review_backlog_count;
    let batch = [new_memory("One"), new_memory("Two")];
    sender.post(&world, "msg_1", &batch).await.unwrap();

    let found = memories(&world, &sender).await;
    assert_eq!(titles(&world, &sender).await, ["One", "Two"]);
    for (labels, content) in &found {
        assert_eq!(labels.review, ReviewStatus::Pending);
        assert_eq!(labels.workspace_id, world.workspace.id);
        assert_eq!(content.created_by, world.owner_id);
        assert_eq!(content.origin_source_id, sender.source);
    }
    assert_eq!(world.dashboard().await.review_backlog_count, pending + 2);
    assert_eq!(world.events_of(EventType::ChunkCreated).await.len(), 1);
    assert_eq!(world.events_of(EventType::MemoryUpdated).await.len(), 0);
    let completed = world.events_of(EventType::IngestCompleted).await;
    assert_eq!(completed.len(), 1);
    assert_eq!(data(&completed[0])["source_id"], sender.source.to_string());

    let entry = entry_of(&world, AuditAction::MemoryIngest).await;
    assert_eq!(
        (entry.actor_id, entry.credential_id),
        (Some(world.owner_id), None)
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn source_of_inbound_webhook_outlives_it() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    let source = world.get_source(sender.source).await;
    let source = source.unwrap();
    assert_eq!((&*source.name, &*source.kind), ("Forms", "inbound_webhook"));
    sender.post_one(&world, "msg_1", "One").await.unwrap();
    delete(&world, &sender).await;
    assert_eq!(world.get_source(sender.source).await.unwrap(), source);
    assert_eq!(titles(&world, &sender).await, ["One"]);
    world.assert_whole().await;
}

async fn delete(world: &World, sender: &Sender) {
    world.delete_inbound(sender.webhook).await.unwrap();
}

#[tokio::test]
async fn signature_covers_identifier_time_and_body() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    let other = Sender::new(&world).await;
    let right = sender.sign(&world, "msg_1");
    right.verify(&world, &sender).await.unwrap();
    let plain = right.signature.strip_prefix("v1,").unwrap();
    let wrong = [
        Sent {
            id: "msg_2".to_owned(),
            ..right.clone()
        },
        Sent {
            timestamp: (right.timestamp.parse::<i64>().unwrap() + 1).to_string(),
            ..right.clone()
        },
        Sent {
            body: b"{\"memories\": [] }",
            ..right.clone()
        },
        Sent {
            signature: String::new(),
            ..right.clone()
        },
        Sent {
            signature: plain.to_owned(),
            ..right.clone()
        },
        Sent {
            signature: format!("v1a,{plain}"),
            ..right.clone()
        },
        Sent {
            signature: format!("v1,{}", &plain[..plain.len() - 4]),
            ..right.clone()
        },
        Sent {
            signature: "v1,".to_owned(),
            ..right.clone()
        },
        other.sign(&world, "msg_1"),
    ];
    for sent in wrong {
        let verified = sent.verify(&world, &sender).await;
        assert_eq!(code(verified), "unauthenticated", "{}", sent.signature);
    }
    let among_others = Sent {
        signature: format!("v1,AAAA v1a,{plain} v1,? {}", right.signature),
        ..right
    };
    among_others.verify(&world, &sender).await.unwrap();
}

#[tokio::test]
async fn message_timestamp_must_be_within_five_minutes() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    let sent = sender.sign(&world, "msg_1");
    let start = world.time.now();
    let verify = async |at: Timestamp| {
        world.time.set(at);
        sent.verify(&world, &sender).await.map(drop)
    };
    let tolerance = 5 * MINUTE;
    let earlier = |by: Duration| {
        let by = i64::try_from(by.as_millis()).unwrap();
        Timestamp::from_millis(start.as_millis() - by)
    };
    assert!(verify(start.plus(tolerance)).await.is_ok());
    assert!(verify(earlier(tolerance)).await.is_ok());
    let late = verify(start.plus(tolerance + MILLISECOND)).await;
    assert_eq!(code(late), "unauthenticated");
    let early = verify(earlier(tolerance + MILLISECOND)).await;
    assert_eq!(code(early), "unauthenticated");
    world.time.set(start);
    for no_time in ["", "now", "+1800000000", "1.8e9", "99999999999999999999"] {
        let sent = Sent {
            timestamp: no_time.to_owned(),
            ..sent.clone()
        };
        let verified = sent.verify(&world, &sender).await;
        assert_eq!(code(verified), "unauthenticated", "{no_time:?}");
    }
}

#[tokio::test]
async fn message_identifier_must_be_visible_ascii_without_full_stops() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    for right in ["~", &"i".repeat(255)] {
        sender.verified(&world, right).await;
    }
    for wrong in ["", "a b", "a.b", ".", "ä", "\u{7f}", &"i".repeat(256)] {
        let verified = sender.sign(&world, wrong).verify(&world, &sender).await;
        assert_eq!(problem(verified), "webhook-id invalid_value", "{wrong:?}");
    }
}

#[tokio::test]
async fn signature_is_valid_for_one_identifier() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    let seconds = world.time.now().as_millis() / 1_000;
    // The same bytes are signed for both.
    let dotted = sender.sign(&world, &format!("msg_1.{seconds}"));
    let body = [format!("{seconds}.").as_bytes(), dotted.body].concat();
    let plain = Sent {
        id: "msg_1".to_owned(),
        body: body.leak(),
        ..dotted.clone()
    };
    plain.verify(&world, &sender).await.unwrap();
    let verified = dotted.verify(&world, &sender).await;
    assert_eq!(problem(verified), "webhook-id invalid_value");
}

#[tokio::test]
async fn message_is_deduplicated_for_a_week() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    let (first, second) = ([new_memory("First")], [new_memory("Second")]);
    sender.post(&world, "msg_1", &first).await.unwrap();
    let planned = world.planned().await;
    let once = world.contents().await;
    sender.post(&world, "msg_1", &first).await.unwrap();
    sender.post(&world, "msg_1", &second).await.unwrap();
    assert_eq!(world.contents().await, once);

    let other = Sender::new(&world).await;
    other.post(&world, "msg_1", &second).await.unwrap();
    assert_eq!(titles(&world, &other).await, ["Second"]);
    world.assert_whole().await;

    let marks = async || {
        let contents = world.contents().await;
        let mut marks = contents.keys().map(ToString::to_string);
        marks.any(|key| key.starts_with("inbound_message/"))
    };
    world.time.pass(7 * DAY - MILLISECOND);
    world.maintain().await;
    sender.post(&world, "msg_1", &second).await.unwrap();
    assert_eq!(titles(&world, &sender).await, ["First"]);
    world.time.pass(MILLISECOND);
    world.maintain().await;
    assert!(!marks().await);
    assert_eq!(world.planned().await, planned - 1);
    sender.post(&world, "msg_1", &second).await.unwrap();
    assert_eq!(titles(&world, &sender).await, ["First", "Second"]);
    world.assert_whole().await;
}

#[tokio::test]
async fn expired_deduplication_record_is_ignored_before_its_purge() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    sender.post_one(&world, "msg_1", "First").await.unwrap();
    world.time.pass(7 * DAY);
    sender.post_one(&world, "msg_1", "Second").await.unwrap();
    assert_eq!(titles(&world, &sender).await, ["First", "Second"]);
    // The purge of the first record leaves the second one.
    world.maintain().await;
    sender.post_one(&world, "msg_1", "Third").await.unwrap();
    assert_eq!(titles(&world, &sender).await, ["First", "Second"]);
    world.assert_whole().await;
}

#[tokio::test]
async fn concurrent_posts_of_one_message_take_effect_once() {
    let world = World::with_endpoint().await;
    let sender = Sender::new(&world).await;
    let batch = [new_memory("One")];
    let verified = sender.verified(&world, "msg_1").await;
    let takes = (0..8).map(|_| {
        world
            .service
            .inbound_webhooks()
            .ingest_message(&verified, &batch)
    });
    for taken in futures::future::join_all(takes).await {
        taken.unwrap();
    }
    assert_eq!(titles(&world, &sender).await, ["One"]);
    assert_eq!(world.events_of(EventType::ChunkCreated).await.len(), 1);
    world.assert_whole().await;
}

#[tokio::test]
async fn rotated_and_previous_inbound_secret_are_valid_for_a_day() {
    let world = World::new().await;
    let mut sender = Sender::new(&world).await;
    let first = sender.rotate(&world, &world.owner).await;
    let signed_with = |secret: &str| Sender {
        secret: secret.to_owned(),
        ..sender
    };
    let (old, new) = (signed_with(&first), signed_with(&sender.secret));
    old.post(&world, "old", &[new_memory("Old")]).await.unwrap();
    new.post(&world, "new", &[new_memory("New")]).await.unwrap();
    assert_eq!(titles(&world, &sender).await, ["New", "Old"]);
    world.time.pass(DAY - MILLISECOND);
    old.verified(&world, "msg_2").await;
    world.time.pass(MILLISECOND);
    let over = old.sign(&world, "msg_2").verify(&world, &old).await;
    assert_eq!(code(over), "unauthenticated");
    new.verified(&world, "msg_2").await;
}

#[tokio::test]
async fn secret_replaced_after_verification_is_rejected() {
    let world = World::new().await;
    let mut sender = Sender::new(&world).await;
    let verified = sender.verified(&world, "msg_1").await;
    sender.rotate(&world, &world.owner).await;
    sender.rotate(&world, &world.owner).await;
    let batch = [new_memory("One")];
    let taken = world
        .service
        .inbound_webhooks()
        .ingest_message(&verified, &batch)
        .await;
    assert_eq!(code(taken), "unauthenticated");
    assert!(titles(&world, &sender).await.is_empty());
}

#[tokio::test]
async fn message_is_authorized_by_owner_of_webhook_secret() {
    let world = World::new().await;
    let admin = world.member(ADMIN).await;
    let mut sender = Sender::registered_by(&world, &world.trusted(admin)).await;
    let post =
        async |sender: &Sender, title: &str| sender.post(&world, title, &[new_memory(title)]).await;
    post(&sender, "1").await.unwrap();
    world.assign(admin, VIEWER).await.unwrap();
    let before = world.contents().await;
    assert_eq!(code(post(&sender, "2").await), "forbidden");
    assert_eq!(world.contents().await, before);
    world.assign(admin, ADMIN).await.unwrap();
    // A rejected message is not a duplicate.
    post(&sender, "2").await.unwrap();

    world.remove_member(admin).await.unwrap();
    let before = world.contents().await;
    assert_eq!(code(post(&sender, "3").await), "forbidden");
    assert_eq!(world.contents().await, before);
    sender.rotate(&world, &world.owner).await;
    post(&sender, "3").await.unwrap();
    let read = world.get_inbound(sender.webhook).await.unwrap().value;
    assert_eq!((read.created_by, read.acts_as), (admin, world.owner_id));
    let by: Vec<MemberId> = memories(&world, &sender)
        .await
        .into_iter()
        .map(|(_, memory)| memory.created_by)
        .collect();
    assert_eq!(by, [admin, admin, world.owner_id]);
}

#[tokio::test]
async fn message_verified_before_a_rotation_is_authorized_by_the_new_owner() {
    let world = World::new().await;
    let mut sender = Sender::new(&world).await;
    let verified = sender.verified(&world, "msg_1").await;
    let admin = world.member(ADMIN).await;
    sender.rotate(&world, &world.trusted(admin)).await;
    world.assign(admin, VIEWER).await.unwrap();
    let batch = [new_memory("One")];
    let posted = world
        .service
        .inbound_webhooks()
        .ingest_message(&verified, &batch)
        .await;
    assert_eq!(code(posted), "forbidden");
    assert!(titles(&world, &sender).await.is_empty());
}

#[tokio::test]
async fn message_with_known_source_key_updates_its_memory() {
    let world = World::with_endpoint().await;
    let sender = Sender::new(&world).await;
    let post = async |id: &str, title: &str| {
        sender.post(&world, id, &[keyed(title)]).await.unwrap();
        titles(&world, &sender).await
    };
    assert_eq!(post("1", "Open").await, ["Open"]);
    assert_eq!(post("2", "Closed").await, ["Closed"]);
    assert_eq!(world.events_of(EventType::MemoryUpdated).await.len(), 1);
    let events = world.events().await.len();
    assert_eq!(post("3", "Closed").await, ["Closed"]);
    assert_eq!(world.events().await.len(), events);
    // Another webhook with the same key ingests another memory.
    let other = Sender::new(&world).await;
    other.post(&world, "1", &[keyed("Other")]).await.unwrap();
    assert_eq!(titles(&world, &sender).await, ["Closed"]);
    assert_eq!(titles(&world, &other).await, ["Other"]);
    world.assert_whole().await;
}

/// The source added the memory, whoever owned its secret then and whatever the owner may read now.
#[tokio::test]
async fn message_updates_memory_that_the_owner_of_its_secret_may_not_read() {
    let world = World::new().await;
    let mut sender = Sender::new(&world).await;
    sender.post(&world, "1", &[keyed("Open")]).await.unwrap();
    let held = [
        Action::MemoryCreate,
        Action::MemoryUpdate,
        Action::InboundWebhookManage,
    ];
    let another = world.caller_who_may(actions(&held)).await;
    sender.rotate(&world, &another).await;
    sender.post(&world, "2", &[keyed("Closed")]).await.unwrap();
    assert_eq!(titles(&world, &sender).await, ["Closed"]);
    world.assert_whole().await;
}

#[tokio::test]
async fn unknown_deleted_and_foreign_webhooks_are_indistinguishable() {
    let world = World::new().await;
    let deleted = Sender::new(&world).await;
    let verified = deleted.verified(&world, "msg_1").await;
    delete(&world, &deleted).await;
    let kept = Sender::new(&world).await;
    let evil = world.stranger("evil").await;
    let at = |org: OrgId, webhook: InboundWebhookId, sender: &Sender| Sender {
        org,
        webhook,
        source: sender.source,
        secret: sender.secret.clone(),
    };
    let nobody = Uuid::from_u128(7);
    let senders = [
        at(deleted.org, deleted.webhook, &deleted),
        at(kept.org, InboundWebhookId(nobody), &kept),
        at(OrgId(nobody), kept.webhook, &kept),
        at(evil.org.id, kept.webhook, &kept),
    ];
    for sender in senders {
        let refused = sender.sign(&world, "msg_1").verify(&world, &sender).await;
        let refused = refused.unwrap_err().to_string();
        assert_eq!(refused, "there is no such inbound webhook");
    }
    let batch = [new_memory("One")];
    let taken = world
        .service
        .inbound_webhooks()
        .ingest_message(&verified, &batch)
        .await;
    assert_eq!(code(taken), "not_found");
}
