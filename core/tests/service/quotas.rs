//! Tests of the quotas of organisations.

use std::time::Duration;

use futures::future::join_all;
use http::Method;
use knowledge_core::Error;
use knowledge_core::access::BaseRole;
use knowledge_core::internals::keys;
use knowledge_core::limits::Limits;
use knowledge_core::model::{
    AuditReads, BulkResult, ChatId, EventType, MemoryId, Quota, SensitivityLabel, SourceId,
};
use knowledge_core::service::{CreateMemory, MemberAssignment, NewMemory};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::admin::ask;
use crate::inbound_sender::{Sender, keyed, titles};
use crate::make::{
    ADMIN, DAY, HOUR, MEMBER, MILLISECOND, SUCCESS, VIEWER, code, custom, new_chat, new_member,
    new_memory, new_recall, sensitivity,
};
use crate::world::World;
use knowledge_testing::requests::with;
use knowledge_testing::seed::Seed;

/// Creates a world with other limits.
async fn limited(adapt: impl FnOnce(&mut Limits)) -> World {
    World::with(|options| adapt(&mut options.limits)).await
}

/// Returns the exhausted quota of an error, its maximum and its waiting time.
fn exceeded<T: std::fmt::Debug>(result: Result<T, Error>) -> (Quota, u64, Option<Duration>) {
    match result.unwrap_err() {
        Error::QuotaExceeded {
            quota,
            maximum,
            retry_after,
        } => (quota, maximum, retry_after),
        other => panic!("{other}"),
    }
}

async fn usage(world: &World, quota: Quota) -> i64 {
    let key = keys::usage(world.org.id, quota);
    world.read(&key).await.unwrap_or(0)
}

async fn chat(world: &World, title: &str) -> Result<ChatId, Error> {
    world.chat(world.workspace.id, &new_chat(title)).await
}

fn batch(count: usize) -> Vec<NewMemory> {
    let memory = |number| new_memory(&format!("Memory {number}"));
    (0..count).map(memory).collect()
}

async fn ingest(world: &World, batch: &[NewMemory]) -> Result<Vec<MemoryId>, Error> {
    let source = world.source;
    let ingested = world.ingest_memories(source, batch).await?.into_iter();
    Ok(ingested.filter_map(|memory| memory.id).collect())
}

#[tokio::test]
async fn ingest_beyond_the_quota_is_rejected_as_a_whole() {
    let world = limited(|limits| limits.memories_per_org_max = 5).await;
    ingest(&world, &batch(3)).await.unwrap();
    let contents = world.contents().await;
    let refused = exceeded(ingest(&world, &batch(3)).await);
    assert_eq!(refused, (Quota::Memories, 5, None));
    assert_eq!(world.contents().await, contents, "nothing is half done");
    let two = ingest(&world, &batch(2)).await.unwrap();
    let new = CreateMemory::builder()
        .source_id(world.source)
        .title("One more")
        .content("Too many.");
    let new = new.build();
    let create = || world.create_memory(&new);
    assert_eq!(exceeded(create().await).0, Quota::Memories);

    // A deletion works at the limit and makes room.
    world.delete_memory(two[0]).await.unwrap();
    create().await.unwrap();
    assert_eq!(exceeded(create().await).0, Quota::Memories);
    assert_eq!(usage(&world, Quota::Memories).await, 5);
    world.assert_whole().await;
}

#[tokio::test]
async fn known_memories_are_updated_at_the_limit() {
    let world = limited(|limits| limits.memories_per_org_max = 2).await;
    let keyed = |text: &str| {
        with(new_memory("Page"), |new| {
            new.source_key = Some("page".to_owned());
            new.content = text.to_owned();
        })
    };
    ingest(&world, &[keyed("one"), new_memory("Other")])
        .await
        .unwrap();
    ingest(&world, &[keyed("two")]).await.unwrap();
    let refused = ingest(&world, &[keyed("three"), new_memory("Third")]).await;
    assert_eq!(exceeded(refused).0, Quota::Memories);
    assert_eq!(usage(&world, Quota::Memories).await, 2);
}

#[tokio::test]
async fn concurrent_creations_never_exceed_the_quota() {
    let world = limited(|limits| limits.memories_per_org_max = 3).await;
    ingest(&world, &batch(2)).await.unwrap();
    let one = batch(1);
    let race = join_all((0..16).map(|_| ingest(&world, &one))).await;
    assert_eq!(race.iter().filter(|result| result.is_ok()).count(), 1);
    for refused in race.into_iter().filter(Result::is_err) {
        assert_eq!(exceeded(refused), (Quota::Memories, 3, None));
    }
    assert_eq!(usage(&world, Quota::Memories).await, 3);
    world.assert_whole().await;
}

/// Far from the limit, the counter is neither read apart nor checked.
#[tokio::test]
async fn counter_far_from_its_limit_does_not_conflict() {
    let world = World::new().await;
    world.memories(1).await;
    let counter = keys::usage(world.org.id, Quota::Memories);
    let checks = async |world: &World| {
        let history = world.faults.history();
        let (_, commit) = history.last().unwrap();
        let mut checked = commit.checks().iter();
        checked.any(|check| check.key == counter)
    };
    assert!(!checks(&world).await);
    let near = limited(|limits| limits.memories_per_org_max = 100).await;
    near.memories(1).await;
    let counter = keys::usage(near.org.id, Quota::Memories);
    let history = near.faults.history();
    let (_, commit) = history.last().unwrap();
    assert!(commit.checks().iter().any(|check| check.key == counter));
}

#[tokio::test]
async fn recalls_chats_and_messages_are_limited() {
    let world = limited(|limits| {
        limits.recalls_per_org_max = 1;
        limits.chats_per_org_max = 1;
        limits.chat_messages_per_org_max = 2;
    })
    .await;
    let memories = world.approved_memories(1).await;
    let recall = new_recall(&memories);
    let create = || world.create_recall(&recall);
    create().await.unwrap();
    assert_eq!(exceeded(create().await), (Quota::Recalls, 1, None));

    let first = chat(&world, "One").await.unwrap();
    assert_eq!(exceeded(chat(&world, "Two").await), (Quota::Chats, 1, None));
    let post = || world.post_message(first, "Hello.");
    for _ in 0..2 {
        post().await.unwrap();
    }
    assert_eq!(exceeded(post().await), (Quota::ChatMessages, 2, None));
    world.assert_whole().await;
}

#[tokio::test]
async fn sources_and_members_are_limited() {
    let world = limited(|limits| {
        limits.sources_per_org_max = 2;
        limits.members_per_org_max = 2;
    })
    .await;
    world.source("Files", "drive").await.unwrap();
    let refused = world.source("Tickets", "help_desk").await;
    assert_eq!(exceeded(refused), (Quota::Sources, 2, None));
    // An inbound webhook has a source of its own.
    let inbound = Seed::inbound_webhook(&world, world.workspace.id, "Forms").await;
    assert_eq!(exceeded(inbound), (Quota::Sources, 2, None));

    let member = world.member(MEMBER).await;
    let new = new_member("robin", VIEWER);
    let add = || world.add_member(&new);
    assert_eq!(exceeded(add().await), (Quota::Members, 2, None));
    let operator = world.service.provisioning();
    let by_operator = operator.create_member(world.org.id, &new).await;
    assert_eq!(exceeded(by_operator), (Quota::Members, 2, None));
    world.remove_member(member).await.unwrap();
    add().await.unwrap();
    world.maintain().await;
    world.assert_whole().await;
}

#[tokio::test]
async fn endpoints_of_all_kinds_share_a_quota() {
    let world = limited(|limits| limits.endpoints_per_org_max = 3).await;
    let (owner, place) = (&world.owner, world.workspace.id);
    let webhook = world.webhook(EventType::ChunkCreated).await;
    let inbound = Seed::inbound_webhook(&world, place, "Forms").await.unwrap();
    let recall = world.recall().await;
    let subscription = world.subscribe(owner, recall).await;
    let url = "https://example.com/hook";
    let hook = || Seed::webhook(&world, place, EventType::ChunkCreated, url);
    let full = (Quota::Endpoints, 3, None);
    assert_eq!(exceeded(hook().await), full);
    let refused = Seed::inbound_webhook(&world, place, "Mail").await;
    assert_eq!(exceeded(refused), full);
    assert_eq!(
        exceeded(Seed::subscription(&world, recall, url).await),
        full
    );
    for freed in 0..3 {
        match freed {
            0 => world.delete_webhook(webhook.id).await,
            1 => world.delete_inbound(inbound.id).await,
            _ => world.delete_subscription(subscription.id).await,
        }
        .unwrap();
        hook().await.unwrap();
        assert_eq!(exceeded(hook().await), full);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn failed_creations_count_nothing() {
    let world = limited(|limits| limits.memories_per_org_max = 10).await;
    let nowhere = SourceId(Uuid::nil());
    let unknown = world.ingest(world.workspace.id, nowhere, &batch(3)).await;
    assert_eq!(code(unknown), "invalid_request");
    let (viewer, three) = (world.caller(VIEWER).await, batch(3));
    let denied = world.by(&viewer).ingest_memories(world.source, &three);
    assert_eq!(code(denied.await), "forbidden");
    assert_eq!(usage(&world, Quota::Memories).await, 0);
}

#[tokio::test]
async fn inbound_message_over_the_quota_is_ingested_once_there_is_room() {
    let world = limited(|limits| limits.memories_per_org_max = 1).await;
    let sender = Sender::new(&world).await;
    let kept = world.memories(1).await;
    let message = [new_memory("Posted")];
    let refused = sender.post(&world, "msg_1", &message).await;
    assert_eq!(exceeded(refused), (Quota::Memories, 1, None));
    world.delete_memory(kept[0]).await.unwrap();
    sender.post(&world, "msg_1", &message).await.unwrap();
    assert_eq!(titles(&world, &sender).await, ["Posted"]);
}

async fn try_bulk(world: &World, ids: &[MemoryId]) -> Result<BulkResult, Error> {
    let change = sensitivity(SensitivityLabel::Public);
    world.change(ids, change).await
}

/// Adds to the audit log by bulk updates of unknown memories, until its quota is exhausted.
async fn exhaust(world: &World) -> (Quota, u64, Option<Duration>) {
    let unknown: Vec<_> = (0..1_000_u128)
        .map(|id| MemoryId(Uuid::from_u128(id)))
        .collect();
    for count in [1_000, 100, 10] {
        while try_bulk(world, &unknown[..count]).await.is_ok() {}
    }
    loop {
        let result = try_bulk(world, &unknown[..1]).await;
        if result.is_err() {
            return exceeded(result);
        }
    }
}

#[tokio::test]
async fn audit_quota_limits_growth_until_the_next_day() {
    let maximum = 200_000;
    let world = limited(|limits| limits.audit_bytes_per_day_max = maximum).await;
    let owner = &world.owner;
    let memories = world.memories(2).await;
    let change = sensitivity(SensitivityLabel::Confidential);
    let again = || world.bulk_with_key(owner, "k", &memories, change.clone());
    again().await.unwrap();
    let member = world.member(ADMIN).await;
    let role = world.plain_role(BaseRole::Member).await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    let connector = world.connector(HOUR).await;
    let key = world.mcp_key_for("org:acme").await;
    let stranger = world.stranger("globex").await;
    // The waiting time is in whole seconds, so it is rounded up.
    world.time.pass(HOUR + MILLISECOND);

    let wait = DAY
        - Duration::from_millis(
            u64::try_from(world.time.now().as_millis()).unwrap()
                % u64::try_from(DAY.as_millis()).unwrap(),
        );
    let (quota, most, after) = exhaust(&world).await;
    assert_eq!((quota, most), (Quota::AuditBytes, maximum));
    let after = after.unwrap();
    assert!(
        wait <= after && after <= wait + Duration::from_secs(1),
        "{after:?}"
    );
    let contents = world.contents().await;
    let pages = contents
        .iter()
        .filter(|(key, _)| key.to_string().starts_with("audit/"));
    let written: usize = pages
        .map(|(key, page)| key.as_bytes().len() + page.len())
        .sum();
    assert!(
        written as u64 <= 2 * maximum,
        "the other organisation included"
    );

    // What takes something away works, and so do replays, reads and what is not audited.
    assert!(again().await.unwrap().replayed);
    world.get_memory(memories[0]).await.unwrap();
    world.report_sync(connector, &SUCCESS).await.unwrap();
    world.delete_memory(memories[1]).await.unwrap();
    world.revoke_mcp_key(key.summary.id).await.unwrap();
    world.delete_webhook(webhook.id).await.unwrap();
    let assignment = MemberAssignment::Organization(custom(role.id));
    world.assign_role(member, assignment).await.unwrap();
    world.remove_member(member).await.unwrap();
    // What grows does not, in this organisation.
    assert_eq!(exceeded(chat(&world, "Two").await).0, Quota::AuditBytes);
    stranger.source("Wiki", "wiki").await.unwrap();
    // The next day begins exactly after the waiting time at the latest.
    world.time.pass(wait - MILLISECOND);
    assert_eq!(exceeded(chat(&world, "Three").await).0, Quota::AuditBytes);
    world.time.pass(MILLISECOND);
    chat(&world, "Four").await.unwrap();

    // Maintenance removes the counters of past days.
    world.time.pass(DAY);
    world.maintain().await;
    let days = keys::audit_days(world.org.id);
    let contents = world.contents().await;
    assert_eq!(contents.keys().filter(|key| days.contains(key)).count(), 0);
    world.assert_whole().await;
}

/// Returns the number of bytes that the audit log grew by on the only day that has any.
async fn audit_bytes(world: &World) -> u64 {
    let days = keys::audit_days(world.org.id);
    let mut stored = world.contents().await.into_keys();
    let day = stored.find(|key| days.contains(key)).unwrap();
    u64::try_from(world.counter(day).await).unwrap()
}

#[tokio::test]
async fn audit_quota_admits_exactly_its_maximum() {
    let world = World::new().await;
    chat(&world, "One").await.unwrap();
    let used = audit_bytes(&world).await;
    let world = limited(|limits| limits.audit_bytes_per_day_max = used).await;
    chat(&world, "One").await.unwrap();
    assert_eq!(audit_bytes(&world).await, used);
    let world = limited(|limits| limits.audit_bytes_per_day_max = used - 1).await;
    assert_eq!(exceeded(chat(&world, "One").await).0, Quota::AuditBytes);
}

/// Deletions exceed the quota.
/// A key that may only read must not keep the others from adding something.
#[tokio::test]
async fn audited_reads_use_nothing_of_the_audit_quota() {
    let world = World::with(|options| {
        options.limits.audit_bytes_per_day_max = 100_000;
        options.audit_reads = AuditReads::Confidential;
    })
    .await;
    let secret = world.confidential().await;
    let used = audit_bytes(&world).await;
    for _ in 0..1_000 {
        world.get_memory(secret).await.unwrap();
    }
    let audit = keys::audits(world.org.id);
    let contents = world.contents().await;
    let written = contents.iter().filter(|(key, _)| audit.contains(key));
    let written: usize = written.map(|(_, page)| page.len()).sum();
    assert!(written > 100_000, "{written}");
    assert_eq!(audit_bytes(&world).await, used);
    chat(&world, "One").await.unwrap();
}

#[tokio::test]
async fn message_that_changes_nothing_is_accepted_beyond_the_audit_quota() {
    let maximum = 100_000;
    let world = limited(|limits| limits.audit_bytes_per_day_max = maximum).await;
    let sender = Sender::new(&world).await;
    sender.post(&world, "1", &[keyed("Open")]).await.unwrap();
    let ids = world.memories(5).await;
    exhaust(&world).await;
    for id in ids {
        world.delete_memory(id).await.unwrap();
    }
    assert!(audit_bytes(&world).await > maximum);
    sender.post(&world, "2", &[keyed("Open")]).await.unwrap();
    let changed = sender.post(&world, "3", &[keyed("Closed")]).await;
    assert_eq!(exceeded(changed).0, Quota::AuditBytes);
}

#[tokio::test]
async fn inbound_message_over_the_audit_quota_can_be_repeated() {
    let world = limited(|limits| limits.audit_bytes_per_day_max = 100_000).await;
    let sender = Sender::new(&world).await;
    exhaust(&world).await;
    // A few more entries might have had room.
    let message = batch(100);
    let mut number = 0;
    let refused = loop {
        number += 1;
        let id = format!("msg_{number}");
        let posted = sender.post(&world, &id, &message).await;
        if posted.is_err() {
            break exceeded(posted);
        }
    };
    assert_eq!(refused.0, Quota::AuditBytes);
    world.time.pass(DAY);
    let id = format!("msg_{number}");
    sender.post(&world, &id, &message).await.unwrap();
}

#[tokio::test]
async fn verification_recounts_the_quotas() {
    let world = World::new().await;
    world.memories(2).await;
    let key = keys::usage(world.org.id, Quota::Memories);
    let wrong = knowledge_core::store::Commit::builder().put(key.clone(), "7");
    let store = world.service.store();
    store.commit(wrong.build().unwrap()).await.unwrap();
    let found = world.service.verify().await.unwrap().differences;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].key, key);
}

#[tokio::test]
async fn quota_errors_name_their_limit() {
    for quota in Quota::ALL {
        let error = Error::QuotaExceeded {
            quota: *quota,
            maximum: 7,
            retry_after: None,
        };
        let named = quota.as_str().replace('_', " ");
        assert!(error.to_string().contains(&format!("at most 7 {named}")));
    }
}

#[tokio::test]
async fn audit_quota_limits_what_the_operator_does_on_behalf_of_members() {
    let world = limited(|limits| limits.audit_bytes_per_day_max = 100_000).await;
    exhaust(&world).await;
    let memory = json!({"title": "On call", "content": "Ask Ada.", "source_key": "pages/42"});
    let batch = json!({"source_id": world.source, "memories": [memory]});
    // A few more entries might have had room.
    let ingest = "/orgs/acme/members/ada/workspaces/research/ingest";
    let (mut status, mut body) = (200, Value::Null);
    for number in 0..100 {
        let mut batch = batch.clone();
        batch["memories"][0]["source_key"] = json!(number.to_string());
        (status, body) = ask(&world, Method::POST, ingest, batch).await;
        if status != 200 {
            break;
        }
    }
    assert_eq!((status, &body["error"]), (429, &json!("quota_exceeded")));
    assert_eq!(body["details"]["limit"], "audit_bytes_per_day");
    let new = json!({"name": "W".repeat(120), "kind": "import"});
    let sources = "/orgs/acme/members/ada/sources";
    (status, body) = (201, Value::Null);
    for _ in 0..100 {
        (status, body) = ask(&world, Method::POST, sources, new.clone()).await;
        if status != 201 {
            break;
        }
    }
    assert_eq!((status, &body["error"]), (429, &json!("quota_exceeded")));
}
