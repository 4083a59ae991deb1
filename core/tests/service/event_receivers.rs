//! Tests of the claim that a delivery reveals no memory that does not exist for its receiver.

use std::slice;

use knowledge_core::access::{Action, TokenScope};
use knowledge_core::model::{
    EndpointId, EventType, MemberId, MemoryChange, MemoryId, NewWebhook, ReviewStatus,
    SensitivityLabel, Webhook,
};
use knowledge_core::service::{Caller, MemoryDays, NewRetention};
use knowledge_core::store::Key;
use knowledge_store::faults::{CommitFault, FaultPlan};
use knowledge_testing::requests::with;
use serde_json::{Value, json};

use crate::fan_out::listed;
use crate::make::{
    DAY, HOUR, MEMBER, MINUTE, SUCCESS, actions, audience, create_memory, new_memory, review,
    sensitivity,
};
use crate::world::{World, data};

/// Adds a member that reviews memories and manages webhooks, but sees no label of others.
pub(crate) async fn reviewer(world: &World) -> Caller {
    let held = [
        Action::MemoryRead,
        Action::MemoryCreate,
        Action::MemoryUpdate,
        Action::MemoryReview,
        Action::WebhookManage,
    ];
    world.caller_who_may(actions(&held)).await
}

pub(crate) async fn webhook(world: &World, by: &Caller, of: EventType) -> EndpointId {
    let url = "https://example.com/hook".parse().unwrap();
    let new = NewWebhook::builder().event_type(of).url(url).build();
    let created: Webhook = world.by(by).create_webhook(&new).await.unwrap();
    created.id.into()
}

/// Ingests a memory for each of these audiences with one call.
pub(crate) async fn ingest(world: &World, audiences: &[&str]) -> Vec<MemoryId> {
    let memories = audiences.iter().map(|label| {
        with(new_memory(label), |new| {
            new.audience_tag = Some(label.parse().unwrap());
        })
    });
    let memories: Vec<_> = memories.collect();
    let ids = world.ingest_memories(world.source, &memories);
    ids.await
        .unwrap()
        .iter()
        .filter_map(|made| made.id)
        .collect()
}

/// Returns the data of the deliveries to an endpoint, after a fan-out.
async fn received(world: &World, endpoint: EndpointId) -> Vec<Value> {
    world.fan_out().await;
    let events = world.queued_events(endpoint).await;
    events.iter().map(data).collect()
}

/// Returns the memories that each of the deliveries to an endpoint names, after a fan-out.
async fn named(world: &World, endpoint: EndpointId) -> Vec<Vec<MemoryId>> {
    world.fan_out().await;
    let events = world.queued_events(endpoint).await;
    events.iter().map(listed).collect()
}

pub(crate) async fn change(world: &World, memories: &[MemoryId], change: MemoryChange) {
    // Events of one millisecond are in no particular order.
    world.time.pass(MINUTE);
    let done = world.change(memories, change).await;
    assert_eq!(done.unwrap().summary.failed, 0);
}

pub(crate) const AUDIENCES: [&str; 4] = ["org:acme", "user:ada", "team:core", "workspace:research"];

#[tokio::test]
async fn webhook_names_only_memories_that_exist_for_its_owner() {
    let world = World::new().await;
    let by = reviewer(&world).await;
    let mut endpoints = Vec::new();
    for of in [
        EventType::ChunkCreated,
        EventType::MemoryUpdated,
        EventType::ChunkDeleted,
        EventType::IngestCompleted,
    ] {
        endpoints.push((webhook(&world, &by, of).await, world.webhook(of).await.id));
    }
    let [created, updated, deleted, ingested] = endpoints[..] else {
        panic!("four types");
    };
    let ids = ingest(&world, &AUDIENCES).await;
    let shown = vec![ids[0], ids[3]];
    change(&world, &ids, sensitivity(SensitivityLabel::Public)).await;
    // Nothing is left of changes of hidden memories.
    change(&world, &ids[1..3], sensitivity(SensitivityLabel::Internal)).await;
    for id in &ids[1..] {
        world.delete_memory(*id).await.unwrap();
    }
    assert_eq!(named(&world, created.0).await, slice::from_ref(&shown));
    assert_eq!(named(&world, created.1.into()).await, slice::from_ref(&ids));
    assert_eq!(named(&world, updated.0).await, [shown]);
    assert_eq!(named(&world, updated.1.into()).await.len(), 2);
    assert_eq!(named(&world, deleted.0).await, [vec![ids[3]]]);
    assert_eq!(named(&world, deleted.1.into()).await.len(), 3);
    let counts = received(&world, ingested.0).await;
    assert_eq!((&counts[0]["created"], counts.len()), (&json!(2), 1));
    assert_eq!(counts[0]["updated"], 0);
    let counts = received(&world, ingested.1.into()).await;
    assert_eq!(counts[0]["created"], 4);
    ingest(&world, &AUDIENCES[1..3]).await;
    assert_eq!(received(&world, ingested.0).await.len(), 1);
    assert_eq!(received(&world, ingested.1.into()).await.len(), 2);
    world.assert_whole().await;
}

#[tokio::test]
async fn expired_memory_is_named_to_those_for_whom_it_existed() {
    let world = World::new().await;
    let by = reviewer(&world).await;
    let of = EventType::ChunkDeleted;
    let (few, all) = (webhook(&world, &by, of).await, world.webhook(of).await.id);
    let ids = ingest(&world, &AUDIENCES).await;
    let days = MemoryDays::builder().internal(1).build();
    let new = NewRetention::builder().memory_days(days).build();
    world.set_retention(&new).await.unwrap();
    world.time.pass(DAY);
    world.maintain().await;
    // The sweep follows the identifiers.
    let (mut known, mut every) = (vec![ids[0], ids[3]], ids);
    known.sort_unstable();
    every.sort_unstable();
    assert_eq!(named(&world, few).await, [known]);
    assert_eq!(named(&world, all.into()).await, [every]);
}

#[tokio::test]
async fn relabelled_memory_is_named_to_those_for_whom_it_existed() {
    let world = World::new().await;
    let by = reviewer(&world).await;
    let endpoint = webhook(&world, &by, EventType::MemoryUpdated).await;
    let ids = ingest(&world, &["org:acme"]).await;
    // Once more when it is taken away, never while it is hidden, and again when it comes back.
    for (label, times) in [
        ("team:core", 1),
        ("user:ada", 1),
        ("org:acme", 2),
        ("workspace:research", 3),
    ] {
        change(&world, &ids, audience(label)).await;
        assert_eq!(named(&world, endpoint).await.len(), times, "{label}");
    }
    // What happens before the fan-out does not change what was known at the commits.
    change(&world, &ids, audience("team:core")).await;
    change(&world, &ids, audience("user:ada")).await;
    world.delete_memory(ids[0]).await.unwrap();
    assert_eq!(named(&world, endpoint).await.len(), 4);
}

#[tokio::test]
async fn memory_under_review_is_named_to_its_author() {
    let world = World::new().await;
    let held = actions(&[
        Action::MemoryRead,
        Action::MemoryCreate,
        Action::WebhookManage,
    ]);
    let author = world.caller_who_may(held).await;
    let other = world.caller_who_may(held).await;
    let to_author = webhook(&world, &author, EventType::ChunkCreated).await;
    let to_other = webhook(&world, &other, EventType::ChunkCreated).await;
    let new = create_memory("Note", world.source);
    let created = world.by(&author).create_memory(&new);
    let id = created.await.unwrap().value.summary.id;
    assert_eq!(named(&world, to_author).await, [vec![id]]);
    assert_eq!(received(&world, to_other).await, [] as [Value; 0]);
}

#[tokio::test]
async fn webhook_of_narrowed_token_stays_within_its_labels() {
    let world = World::new().await;
    let token = async |member: MemberId, label: &str| {
        let scope = TokenScope {
            audience: Some(vec![label.parse().unwrap()]),
            ..TokenScope::default()
        };
        Caller::from(world.token(member, scope).await.secret)
    };
    let narrow = token(world.owner_id, "org:acme").await;
    let not_theirs = token(world.owner_id, "team:core").await;
    let endpoint = webhook(&world, &narrow, EventType::MemoryUpdated).await;
    let nothing = webhook(&world, &not_theirs, EventType::MemoryUpdated).await;
    let ids = ingest(&world, &AUDIENCES).await;
    change(&world, &ids, sensitivity(SensitivityLabel::Public)).await;
    // The owner reviews, though this memory awaits review.
    assert_eq!(named(&world, endpoint).await, [ids[..1].to_vec()]);
    assert_eq!(received(&world, nothing).await, [] as [Value; 0]);
    world.time.pass(HOUR);
    change(&world, &ids, sensitivity(SensitivityLabel::Internal)).await;
    assert_eq!(named(&world, endpoint).await.len(), 1);
}

#[tokio::test]
async fn hidden_memories_of_a_bulk_call_change_no_delivery() {
    let world = World::new().await;
    let by = reviewer(&world).await;
    let endpoint = webhook(&world, &by, EventType::MemoryUpdated).await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.extend(world.memories(100).await);
    }
    let (hidden, shown): (Vec<_>, Vec<_>) = ids
        .iter()
        .enumerate()
        .partition(|(place, _)| place % 2 == 0);
    let of = |ids: Vec<(usize, &MemoryId)>| ids.into_iter().map(|(_, id)| *id).collect::<Vec<_>>();
    let (hidden, shown) = (of(hidden), of(shown));
    change(&world, &hidden, audience("user:ada")).await;
    world.fan_out().await;
    let before = received(&world, endpoint).await.len();
    let twin = world.copy(FaultPlan::none()).await;
    let mut told = Vec::new();
    for (world, memories) in [(&world, &ids), (&twin, &shown)] {
        world.reseed(7);
        change(world, memories, sensitivity(SensitivityLabel::Public)).await;
        let mut data = received(world, endpoint).await.split_off(before);
        data.sort_by_key(Value::to_string);
        told.push(data);
    }
    assert_eq!(told[0].len(), 2);
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn receivers_of_the_same_memories_share_an_event_despite_crashes() {
    let world = World::new().await;
    let by = reviewer(&world).await;
    let (mut few, mut all) = (Vec::new(), Vec::<EndpointId>::new());
    for _ in 0..5 {
        few.push(webhook(&world, &by, EventType::MemoryUpdated).await);
        all.push(world.webhook(EventType::MemoryUpdated).await.id.into());
    }
    let ids = ingest(&world, &AUDIENCES).await;
    world.fan_out().await;
    change(&world, &ids, sensitivity(SensitivityLabel::Public)).await;
    for fault in [
        CommitFault::Close,
        CommitFault::LostApplied,
        CommitFault::LostNotApplied,
    ] {
        let twin = world.copy(FaultPlan::none().at_commit(1, fault)).await;
        let _ = twin.service.dispatcher().fan_out(twin.time.now()).await;
        let next = twin.served_with(FaultPlan::none()).await;
        next.probe.take_reads();
        next.fan_out().await;
        let reads = next.probe.take_reads();
        let is_audit = |key: &Key| key.to_string().starts_with("audit/");
        let ranges = reads.ranges.iter();
        assert!(ranges.filter(|(range, _)| is_audit(&range.start)).count() <= 1);
        let events = next.queued_events(few[0]).await;
        assert_eq!(listed(&events[0]), [ids[0], ids[3]]);
        for endpoint in &few {
            assert_eq!(next.queued_events(*endpoint).await, events);
        }
        let whole = next.queued_events(all[0]).await;
        assert_eq!(listed(&whole[0]), ids);
        for endpoint in &all {
            assert_eq!(next.queued_events(*endpoint).await, whole);
        }
        assert_ne!(whole[0].id, events[0].id);
        next.assert_whole().await;
    }
}

#[tokio::test]
async fn event_about_no_memory_reaches_those_who_do_not_know_all_memories() {
    let world = World::new().await;
    let by = reviewer(&world).await;
    let endpoint = webhook(&world, &by, EventType::ConnectorStatusChanged).await;
    let connector = world.connector(HOUR).await;
    world.report_sync(connector, &SUCCESS).await.unwrap();
    let received = received(&world, endpoint).await;
    assert_eq!((&received[0]["to"], received.len()), (&json!("healthy"), 1));
}

/// Without the entries, nobody can tell for whom else a deleted memory existed.
#[tokio::test]
async fn deletion_whose_audit_entries_expired_is_told_to_those_who_know_all_memories() {
    let world = World::with(|options| options.limits.audit_retention = 3 * DAY).await;
    let by = reviewer(&world).await;
    let of = EventType::ChunkDeleted;
    let (few, all) = (webhook(&world, &by, of).await, world.webhook(of).await.id);
    let ids = ingest(&world, &["org:acme"]).await;
    world.delete_memory(ids[0]).await.unwrap();
    world.time.pass(5 * DAY);
    world.maintain().await;
    assert!(named(&world, few).await.is_empty());
    assert_eq!(named(&world, all.into()).await, [ids]);
}

#[tokio::test]
async fn subscriber_that_loses_a_cited_memory_is_told_of_its_deletion() {
    let losses = [
        audience("team:core"),
        review(ReviewStatus::Pending),
        review(ReviewStatus::Rejected),
    ];
    for loss in losses {
        let world = World::new().await;
        let held = [Action::MemoryRead, Action::CitationSubscriptionManage];
        let by = world.caller_who_may(actions(&held)).await;
        let ids = world.memories(2).await;
        let recall = world.recall_of(&ids).await;
        let endpoint = world.subscribe(&by, recall).await.id.into();
        let of_owner = world.subscribe(&world.owner, recall).await.id.into();
        change(&world, &ids, sensitivity(SensitivityLabel::Public)).await;
        change(&world, &ids[..1], loss.clone()).await;
        // From then on, the recall does not exist for the subscriber.
        change(&world, &ids, sensitivity(SensitivityLabel::Internal)).await;
        let told = received(&world, endpoint).await;
        assert_eq!(told.len(), 2, "{loss:?}");
        assert_eq!(told[0]["change"], "updated");
        assert_eq!(told[0]["memory_ids"], json!(ids));
        assert_eq!(told[1]["change"], "deleted");
        assert_eq!(told[1]["memory_ids"], json!(ids[..1]));
        // It still exists for the owner, who made the recall.
        let told = received(&world, of_owner).await;
        let changes: Vec<_> = told.iter().map(|told| &told["change"]).collect();
        assert_eq!(changes, ["updated"; 3]);
    }
}

#[tokio::test]
async fn citations_lost_and_kept_by_one_change_are_two_events() {
    let world = World::new().await;
    let held = [
        Action::MemoryRead,
        Action::MemoryCreate,
        Action::RecallCreate,
        Action::CitationSubscriptionManage,
    ];
    let by = world.caller_who_may(actions(&held)).await;
    let new = create_memory("Note", world.source);
    let own = world.by(&by).create_memory(&new);
    let own = own.await.unwrap().value.summary.id;
    let other = world.memories(1).await[0];
    let recall = world.recall_of(&[other, own]).await;
    let endpoint = world.subscribe(&by, recall).await.id.into();
    world.fan_out().await;
    change(&world, &[other, own], review(ReviewStatus::Pending)).await;
    let told = received(&world, endpoint).await;
    let told: Vec<_> = told
        .iter()
        .map(|told| (told["change"].clone(), told["memory_ids"].clone()))
        .collect();
    assert_eq!(told.len(), 2);
    assert!(told.contains(&(json!("updated"), json!([own]))));
    assert!(told.contains(&(json!("deleted"), json!([other]))));
    world.assert_whole().await;
}

#[tokio::test]
async fn citation_webhook_hears_of_no_recall_that_is_hidden_from_its_owner() {
    let world = World::new().await;
    let by = reviewer(&world).await;
    let endpoint = webhook(&world, &by, EventType::CitationChanged).await;
    let ids = world.approved_memories(2).await;
    // The recall would be told of the approval.
    world.fan_out().await;
    world.recall_of(&ids).await;
    change(&world, &ids[1..], audience("user:ada")).await;
    assert_eq!(named(&world, endpoint).await, [ids[1..].to_vec()]);
    change(&world, &ids, sensitivity(SensitivityLabel::Public)).await;
    assert_eq!(named(&world, endpoint).await.len(), 1);
    // A recall that cites neither hidden memory is reported.
    world.recall_of(&ids[..1]).await;
    change(&world, &ids, sensitivity(SensitivityLabel::Internal)).await;
    assert_eq!(named(&world, endpoint).await[1..], [ids[..1].to_vec()]);
}

#[tokio::test]
async fn subscription_is_hidden_from_others_with_its_recall() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let recall = world.recall_of(&ids).await;
    let (by, other) = (world.caller(MEMBER).await, world.caller(MEMBER).await);
    let made = world.subscribe(&by, recall).await;
    let shown = async |caller: &Caller| {
        let found = world.by(caller).get_subscription(made.id);
        let found = found.await.map(|found| found.webhook_url.to_string());
        found.map_err(|error| error.code())
    };
    // The path of the URL may be a secret.
    assert_eq!(shown(&by).await.unwrap(), "https://example.com/citations");
    assert_eq!(shown(&other).await.unwrap(), "https://example.com/");
    let by_owner = shown(&world.owner).await;
    assert_eq!(by_owner.unwrap(), "https://example.com/citations");
    let page = knowledge_core::service::PageRequest::default();
    let listed = world.by(&other).list_subscriptions(recall, &page);
    let url = listed.await.unwrap().data[0].webhook_url.to_string();
    assert_eq!(url, "https://example.com/");
    change(&world, &ids, audience("user:olga")).await;
    assert_eq!(shown(&other).await, Err("not_found"));
    assert_eq!(shown(&by).await.unwrap(), "https://example.com/citations");
    let endpoint = knowledge_core::service::Endpoint::Subscription(made.id);
    let deleted = world.by(&other).delete_subscription(made.id);
    let rotated = world.by(&other).rotate_subscription(made.id);
    let deliveries = world.by(&other).list_deliveries(endpoint, None, &page);
    for tried in [
        deleted.await,
        rotated.await.map(drop),
        deliveries.await.map(drop),
        world.by(&other).ping_endpoint(endpoint).await.map(drop),
    ] {
        assert_eq!(tried.unwrap_err().code(), "not_found");
    }
    world.by(&by).delete_subscription(made.id).await.unwrap();
}
