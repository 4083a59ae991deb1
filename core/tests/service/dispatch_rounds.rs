//! Tests of whole dispatch rounds, for hosts without a process of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use knowledge_core::model::{DeliveryId, DeliveryStatus, EventType, SensitivityLabel, WebhookUrl};
use knowledge_core::service::{
    Attempt, DeliveryRequest, DeliverySender, DispatchLimits, DispatchReport, Endpoint, PageRequest,
};
use knowledge_store::faults::{CommitFault, FaultPlan};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::dispatching::{answer, endpoint, signed_with};
use crate::make::{MILLISECOND, code, sensitivity};
use crate::world::{Time, World};

/// A receiver that stores each request, and responds as planned.
struct Receiver {
    time: Time,
    status: u16,
    takes: Duration,
    received: Mutex<Vec<DeliveryRequest>>,
}

impl Receiver {
    fn new(world: &World, status: u16) -> Self {
        Self {
            time: world.time.clone(),
            status,
            takes: MILLISECOND,
            received: Mutex::default(),
        }
    }

    fn received(&self) -> Vec<DeliveryRequest> {
        std::mem::take(&mut self.received.lock().unwrap())
    }
}

#[async_trait]
impl DeliverySender for Receiver {
    async fn send(&self, request: &DeliveryRequest) -> Attempt {
        self.received.lock().unwrap().push(request.clone());
        self.time.pass(self.takes);
        answer(self.status)
    }
}

async fn dispatch(world: &World, receiver: &Receiver) -> DispatchReport {
    dispatch_within(world, receiver, DispatchLimits::default()).await
}

async fn dispatch_within(
    world: &World,
    sender: &dyn DeliverySender,
    limits: DispatchLimits,
) -> DispatchReport {
    let dispatched = world
        .service
        .dispatcher()
        .dispatch(sender, world.time.now(), limits);
    dispatched.await.unwrap()
}

#[tokio::test]
async fn dispatch_delivers_change_to_matching_endpoints() {
    let world = World::new().await;
    let created = world.webhook(EventType::ChunkCreated).await;
    let receiver = Receiver::new(&world, 200);
    let memories = world.memories(2).await;
    let done = dispatch(&world, &receiver).await;
    assert_eq!((done.attempts, done.delivered), (1, 1));
    assert_eq!((done.has_more, done.next_due), (false, None));
    let received = receiver.received();
    let [request] = received.as_slice() else {
        panic!("{received:?}");
    };
    let secret = created.signing_secret.as_ref().unwrap();
    assert_eq!(signed_with(request, &[secret]), [true]);
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["type"], "chunk.created");
    assert_eq!(body["data"]["memory_ids"], serde_json::json!(memories));
    assert_eq!(dispatch(&world, &receiver).await, DispatchReport::default());
    assert_eq!(receiver.received(), []);
    world.assert_whole().await;
}

#[tokio::test]
async fn dispatch_delivers_change_of_cited_memory_to_subscriber() {
    let world = World::new().await;
    let memories = world.memories(3).await;
    let owner = &world.owner;
    let recall = world.recall_of(&memories).await;
    let subscription = world.subscribe(owner, recall).await;
    let change = sensitivity(SensitivityLabel::Public);
    world.bulk(owner, &memories[..2], change).await.unwrap();
    let receiver = Receiver::new(&world, 204);
    assert_eq!(dispatch(&world, &receiver).await.delivered, 1);
    let received = receiver.received();
    let secret = subscription.signing_secret.unwrap();
    assert_eq!(signed_with(&received[0], &[&secret]), [true]);
    let body: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(body["type"], "citation.changed");
    assert_eq!(body["data"]["memory_ids"], serde_json::json!(memories[..2]));
    let (endpoint, page) = (
        Endpoint::Subscription(subscription.id),
        PageRequest::default(),
    );
    let status = Some(DeliveryStatus::Delivered);
    let listed = world.list_deliveries(endpoint, status, &page);
    assert_eq!(listed.await.unwrap().data.len(), 1);
    world.assert_whole().await;
}

#[tokio::test]
async fn dispatch_rounds_continue_until_nothing_is_due() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    for _ in 0..30 {
        world.memories(1).await;
    }
    let receiver = Receiver::new(&world, 200);
    let done = dispatch(&world, &receiver).await;
    assert_eq!(
        (done.attempts, done.delivered, done.has_more),
        (30, 30, false)
    );
    let mut received: BTreeMap<DeliveryId, u32> = BTreeMap::new();
    for request in receiver.received() {
        *received.entry(request.id).or_default() += 1;
    }
    assert_eq!(received.len(), 30);
    assert!(received.values().all(|count| *count == 1));
    let page = PageRequest::default();
    let status = Some(DeliveryStatus::Pending);
    let listed = world.list_deliveries(endpoint(&webhook), status, &page);
    assert_eq!(listed.await.unwrap().data, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn failed_delivery_is_retried_by_schedule() {
    let world = World::new().await;
    world.webhook(EventType::ChunkCreated).await;
    world.memories(1).await;
    let failing = Receiver::new(&world, 503);
    let mut attempts = 0;
    let begun = world.time.now();
    // The whole schedule applies, however late the calls are.
    loop {
        let done = dispatch(&world, &failing).await;
        attempts += done.attempts;
        match done.next_due {
            Some(next) => world.time.set(next.max(world.time.now())),
            None => break,
        }
    }
    assert_eq!(attempts, 10);
    let took = world.time.now().since(begun).as_secs();
    assert!((217_000..=327_000).contains(&took), "{took} s");
    let ids: Vec<_> = failing.received().iter().map(|one| one.id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(world.undelivered().await, 0);
    world.assert_whole().await;
}

/// A receiver that responds to the first request once it has received all others.
struct Hesitant {
    first: Semaphore,
    received: Mutex<Vec<DeliveryId>>,
    wanted: usize,
}

#[async_trait]
impl DeliverySender for Hesitant {
    async fn send(&self, request: &DeliveryRequest) -> Attempt {
        let received = {
            let mut received = self.received.lock().unwrap();
            received.push(request.id);
            received.len()
        };
        if received == self.wanted {
            self.first.add_permits(1);
        }
        if received == 1 {
            self.first.acquire().await.unwrap().forget();
        }
        answer(200)
    }
}

#[tokio::test]
async fn slow_endpoint_does_not_delay_others() {
    let world = World::new().await;
    let slow = world.webhook(EventType::ChunkCreated).await;
    world.announce(&slow, 1).await;
    world.time.pass(MILLISECOND);
    // More endpoints than there are deliveries in flight.
    let others = 80;
    for _ in 0..10 {
        let other = world.webhook(EventType::ChunkCreated).await;
        world.announce(&other, others / 10).await;
    }
    let sender = Hesitant {
        first: Semaphore::new(0),
        received: Mutex::default(),
        wanted: others + 1,
    };
    let done = dispatch_within(&world, &sender, DispatchLimits::default()).await;
    assert_eq!((done.attempts, done.delivered), (81, 81));
    assert_eq!((done.has_more, done.next_due), (false, None));
    world.assert_whole().await;
}

#[tokio::test]
async fn dispatch_round_with_fault_loses_nothing() {
    let world = World::new().await;
    world.webhook(EventType::ChunkCreated).await;
    world.memories(3).await;
    for number in 1.. {
        let plan = FaultPlan::none().at_commit(number, CommitFault::LostNotApplied);
        let twin = world.copy(plan).await;
        let receiver = Receiver::new(&twin, 200);
        let limits = DispatchLimits::default();
        let first = twin
            .service
            .dispatcher()
            .dispatch(&receiver, twin.time.now(), limits)
            .await;
        if twin.faults.counts().faults == 0 {
            assert_eq!(first.unwrap().delivered, 1);
            assert!(number > 3, "{number}");
            break;
        }
        assert_eq!(code(first), "unavailable", "commit {number}");
        let mut delivered = 0;
        for _ in 0..4 {
            let done = dispatch(&twin, &receiver).await;
            delivered += done.delivered;
            twin.time.pass(Duration::from_secs(20));
        }
        assert_eq!(delivered, 1, "commit {number}");
        let ids: Vec<_> = receiver.received().iter().map(|one| one.id).collect();
        assert!(ids.iter().all(|id| *id == ids[0]) && ids.len() <= 2);
        assert_eq!(twin.undelivered().await, 0);
        twin.assert_whole().await;
    }
}

/// A receiver that counts the requests in flight.
///
/// One endpoint responds only once all others have been served, or once it has all the capacity.
struct Crowded {
    silent: WebhookUrl,
    others: usize,
    room: usize,
    seen: Mutex<Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    under_way: usize,
    with_silent: usize,
    under_way_max: usize,
    with_silent_max: usize,
    others_served: usize,
}

#[async_trait]
impl DeliverySender for Crowded {
    async fn send(&self, request: &DeliveryRequest) -> Attempt {
        let is_silent = request.url == self.silent;
        {
            let mut seen = self.seen.lock().unwrap();
            seen.under_way += 1;
            seen.with_silent += usize::from(is_silent);
            seen.under_way_max = seen.under_way_max.max(seen.under_way);
            seen.with_silent_max = seen.with_silent_max.max(seen.with_silent);
        }
        let is_held_back = || {
            let seen = *self.seen.lock().unwrap();
            is_silent && seen.others_served < self.others && seen.with_silent < self.room
        };
        tokio::task::yield_now().await;
        while is_held_back() {
            tokio::task::yield_now().await;
        }
        let mut seen = self.seen.lock().unwrap();
        seen.under_way -= 1;
        seen.with_silent -= usize::from(is_silent);
        seen.others_served += usize::from(!is_silent);
        answer(200)
    }
}

#[tokio::test]
async fn silent_endpoint_leaves_connections_to_others() {
    let world = World::new().await;
    let silent = world
        .webhook_to(EventType::ChunkCreated, "https://silent.example/hook")
        .await;
    world.announce(&silent, 8).await;
    world.time.pass(MILLISECOND);
    let others = 10;
    let other = world.webhook(EventType::ChunkCreated).await;
    world.announce(&other, others).await;
    let limits = DispatchLimits {
        at_once_max: 6,
        ..DispatchLimits::default()
    };
    let sender = Crowded {
        silent: silent.url.clone(),
        others,
        room: limits.at_once_max,
        seen: Mutex::default(),
    };
    let done = dispatch_within(&world, &sender, limits).await;
    assert_eq!((done.attempts, done.delivered), (18, 18));
    let seen = *sender.seen.lock().unwrap();
    assert_eq!((seen.under_way_max, seen.with_silent_max), (6, 3));
    world.assert_whole().await;
}

#[tokio::test]
async fn dispatch_round_respects_limit_of_attempts() {
    let world = World::new().await;
    for _ in 0..5 {
        let webhook = world.webhook(EventType::ChunkCreated).await;
        world.announce(&webhook, 5).await;
    }
    let limits = DispatchLimits {
        at_once_max: 6,
        attempts_max: 4,
    };
    let receiver = Receiver::new(&world, 200);
    let mut rounds = Vec::new();
    loop {
        let done = dispatch_within(&world, &receiver, limits).await;
        rounds.push(done.attempts);
        if !done.has_more {
            break;
        }
    }
    assert_eq!(rounds, [4, 4, 4, 4, 4, 4, 1]);
    let ids: BTreeSet<_> = receiver.received().iter().map(|one| one.id).collect();
    assert_eq!(ids.len(), 25);
    // A limit of none in flight would make no progress, and be called for ever.
    let limits = DispatchLimits {
        at_once_max: 0,
        ..limits
    };
    world.memories(1).await;
    assert_eq!(dispatch_within(&world, &receiver, limits).await.attempts, 4);
    let limits = DispatchLimits {
        attempts_max: 0,
        ..limits
    };
    assert_eq!(dispatch_within(&world, &receiver, limits).await.attempts, 1);
    world.assert_whole().await;
}
