//! Tests of the turns that organisations take in fan-out, and of its cost with many recalls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use knowledge_core::internals::keys;
use knowledge_core::model::{
    EventId, EventType, MemoryId, OrgId, ReviewStatus, SensitivityLabel, WorkspaceId,
};
use knowledge_core::service::{FanOutLimits, FanOutReport, InFlight};
use knowledge_core::store::Key;
use knowledge_store::faults::FaultPlan;
use knowledge_testing::seed::Seed;

use crate::fan_out::listed;
use crate::make::{MILLISECOND, new_memory, new_recall, new_workspace, review, sensitivity};
use crate::world::World;

/// Limits with which a call is one commit with one delivery.
const SMALL_STEP: FanOutLimits = FanOutLimits {
    steps: 1,
    deliveries: 1,
    recalls: 100,
    looks: 10_000,
};

/// An organisation whose changes notify the subscriptions of many recalls.
struct Cited {
    seed: Seed,
    workspace: WorkspaceId,
    memories: Vec<MemoryId>,
    relabelled: AtomicUsize,
}

impl Cited {
    async fn new(world: &World, slug: &str, recalls: usize, memories: usize) -> Self {
        let seed = world.stranger(slug).await;
        let workspace = seed.workspace(&new_workspace("theirs")).await.unwrap().id;
        let source = seed.source("Wiki", "confluence").await.unwrap();
        let new: Vec<_> = (0..memories)
            .map(|number| new_memory(&format!("Memory {number}")))
            .collect();
        let memories = seed.ingest(workspace, source, &new).await.unwrap();
        let (key, approved) = (world.name("approve"), review(ReviewStatus::Approved));
        let done = seed.bulk_update(&key, &memories, approved).await;
        assert_eq!(done.unwrap().summary.failed, 0);
        for _ in 0..recalls {
            let recall = seed
                .recall(workspace, &new_recall(&memories))
                .await
                .unwrap();
            let url = "https://example.org/citations";
            seed.subscription(recall, url).await.unwrap();
        }
        Self {
            seed,
            workspace,
            memories,
            relabelled: AtomicUsize::new(0),
        }
    }

    /// Changes the labels of all memories this many times; each change is an event.
    async fn relabel(&self, world: &World, times: usize) {
        for _ in 0..times {
            let number = self.relabelled.fetch_add(1, Ordering::Relaxed);
            let labels = [SensitivityLabel::Public, SensitivityLabel::Internal];
            let change = sensitivity(labels[number % 2]);
            let key = world.name("relabel");
            let done = self.seed.bulk_update(&key, &self.memories, change).await;
            assert_eq!(done.unwrap().summary.failed, 0);
        }
    }

    /// Creates a webhook that receives one event per change.
    async fn webhook(&self) {
        let (updated, url) = (EventType::MemoryUpdated, "https://example.org/updated");
        let webhook = self.seed.webhook(self.workspace, updated, url).await;
        webhook.unwrap();
    }
}

impl World {
    /// Makes one small step of the fan-out.
    async fn small_step(&self) -> FanOutReport {
        let now = self.time.now();
        let done = self
            .service
            .dispatcher()
            .fan_out_within(now, SMALL_STEP)
            .await;
        done.unwrap()
    }

    /// Returns the number of deliveries of each organisation.
    async fn deliveries_by_org(&self) -> BTreeMap<OrgId, usize> {
        let mut counts = BTreeMap::new();
        for (key, _) in self.family("delivery").await {
            let text = key.to_string();
            let org = text.split('/').nth(1).unwrap().parse().unwrap();
            *counts.entry(OrgId(org)).or_default() += 1;
        }
        counts
    }

    /// Returns the marks of the events in the outbox.
    async fn marks(&self) -> Vec<Key> {
        let marks = self.family("outbox_queue").await;
        marks.into_iter().map(|(key, _)| key).collect()
    }
}

#[tokio::test]
async fn backlog_of_one_org_delays_another_by_one_step() {
    let world = World::new().await;
    let busy = Cited::new(&world, "busy", 12, 40).await;
    let other = Cited::new(&world, "other", 0, 1).await;
    other.webhook().await;
    for restarts in [false, true] {
        busy.relabel(&world, 130).await;
        let mut process = world.served_with(FaultPlan::none()).await;
        // It has begun with the busy organisation.
        process.small_step().await;
        let before = process.deliveries_by_org().await;
        other.relabel(&world, 1).await;
        if restarts {
            process = world.served_with(FaultPlan::none()).await;
        }
        for _ in 0..2 {
            process.small_step().await;
        }
        let after = process.deliveries_by_org().await;
        let of = |counts: &BTreeMap<OrgId, usize>, org: &Cited| {
            counts.get(&org.seed.org.id).copied().unwrap_or(0)
        };
        assert!(of(&after, &other) > of(&before, &other), "{after:?}");
        assert!(world.events().await.len() >= 129);
        world.fan_out().await;
        assert_eq!(world.events().await, []);
        assert_eq!(world.marks().await, []);
    }
    assert_eq!(
        world.deliveries_by_org().await[&busy.seed.org.id],
        2 * 130 * 12
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn orgs_with_backlogs_progress_in_turns() {
    let mut world = World::new().await;
    let mut orgs = Vec::new();
    for slug in ["one", "two", "three"] {
        orgs.push(Cited::new(&world, slug, 5, 2).await);
    }
    for org in &orgs {
        org.relabel(&world, 4).await;
    }
    let mut steps = 0;
    loop {
        let counts = world.deliveries_by_org().await;
        let counts: Vec<usize> = orgs
            .iter()
            .map(|org| counts.get(&org.seed.org.id).copied().unwrap_or(0))
            .collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        // The first organisation may have another turn after the restart.
        assert!(most - least <= 2, "{counts:?} after {steps} steps");
        if steps == 20 {
            world = world.served_with(FaultPlan::none()).await;
        }
        steps += 1;
        if !world.small_step().await.has_more {
            break;
        }
    }
    // Each delivery is a step, and was made once.
    let counts = world.deliveries_by_org().await;
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [20; 3]);
    assert!((60..=75).contains(&steps), "{steps} steps");
    assert_eq!(world.events().await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn last_of_many_orgs_has_its_turn_within_one_round() {
    let world = World::new().await;
    let mut orgs = Vec::new();
    for number in 0..20 {
        let org = Cited::new(&world, &format!("org-{number}"), 2, 1).await;
        // More events than one scan of the marks returns.
        org.relabel(&world, 101).await;
        orgs.push(org);
    }
    for round in 1..=3 {
        for _ in 0..orgs.len() {
            world.small_step().await;
        }
        let counts = world.deliveries_by_org().await;
        assert_eq!(counts.into_values().collect::<Vec<_>>(), [round; 20]);
    }
}

#[tokio::test]
async fn deliveries_of_orgs_are_claimed_interleaved() {
    let world = World::new().await;
    let busy = Cited::new(&world, "busy", 12, 2).await;
    let other = Cited::new(&world, "other", 0, 1).await;
    other.webhook().await;
    world.confirm_due().await;
    busy.relabel(&world, 20).await;
    world.fan_out().await;
    world.time.pass(MILLISECOND);
    other.relabel(&world, 1).await;
    world.fan_out().await;
    let (now, nobody) = (world.time.now(), InFlight::default());
    let claimed = world.service.dispatcher().claim(now, 32, &nobody).await;
    let claimed = claimed.unwrap().deliveries;
    let of_other = claimed
        .iter()
        .filter(|one| one.event_type == EventType::MemoryUpdated);
    assert_eq!((claimed.len(), of_other.count()), (32, 1));
}

#[tokio::test]
async fn mark_without_event_is_removed() {
    let world = World::new().await;
    let stray = EventId(uuid::Uuid::from_u128(7));
    let mark = keys::outbox_queue(world.org.id, stray);
    world.overwrite(mark, "null".to_owned()).await;
    assert!(!world.service.verify().await.unwrap().differences.is_empty());
    assert_eq!(world.fan_out().await, FanOutReport::default());
    assert_eq!(world.marks().await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn each_recall_is_read_once_per_event() {
    let world = World::new().await;
    let cited = Cited::new(&world, "cited", 12, 300).await;
    cited.relabel(&world, 1).await;
    world.fan_out().await;
    cited.relabel(&world, 2).await;
    world.probe.take_reads();
    let commits = world.faults.counts().commits;
    assert_eq!(world.fan_out().await.deliveries, 2 * 12);
    let reads = world.probe.take_reads();
    let is_recall = |key: &&Key| key.to_string().starts_with("recall/");
    assert_eq!(reads.keys.iter().filter(is_recall).count(), 2 * 12);
    // All memories of an event take one read of their citations.
    let is_citation = |key: &Key| key.to_string().starts_with("cited_by/");
    let ranges = reads.ranges.iter();
    let ranges = ranges.filter(|(range, _)| is_citation(&range.start));
    assert_eq!(ranges.count(), 2 * 300);
    assert!(world.faults.counts().commits - commits <= 2);
}

#[tokio::test]
async fn recalls_beyond_one_read_are_each_notified_once() {
    let world = World::new().await;
    let ids = world.memories(4).await;
    // Each memory is cited by another number of recalls, some by several.
    let mut subscriptions = Vec::new();
    for number in 0..60_usize {
        let cited = ids.iter().enumerate();
        let cited = cited.filter(|(place, _)| (number + 1).is_multiple_of(place + 1));
        let cited: Vec<_> = cited.map(|(_, id)| *id).collect();
        let recall = world.recall_of(&cited).await;
        let subscription = world.subscribe(&world.owner, recall).await;
        subscriptions.push((subscription, cited));
    }
    world.relabel(&ids, SensitivityLabel::Public).await;
    // Few citations a read, so that the memories reach different recalls.
    let limits = FanOutLimits {
        steps: 1,
        looks: 12,
        ..FanOutLimits::default()
    };
    let mut steps = 0;
    while world
        .service
        .dispatcher()
        .fan_out_within(world.time.now(), limits)
        .await
        .unwrap()
        .has_more
    {
        steps += 1;
    }
    assert!(steps >= 10, "{steps}");
    for (subscription, cited) in subscriptions {
        let events = world.queued_events(subscription.id).await;
        assert_eq!(events.len(), 1);
        assert_eq!(listed(&events[0]), cited);
    }
    world.assert_whole().await;
}
