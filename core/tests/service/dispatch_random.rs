//! Tests of two dispatchers on one store whose calls interleave at random.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use knowledge_core::model::{DeliveryId, DeliveryStatus, Webhook};
use knowledge_core::service::{
    AttemptOutcome, ClaimBatch, ClaimedDelivery, DeliveryLease, InFlight,
};
use knowledge_store::faults::{FaultPlan, FaultRates};

use crate::dispatching::{answer, under_way, webhook};
use crate::make::{HOUR, MILLISECOND};
use crate::world::World;

const STEPS: u32 = 250;

/// A generator of numbers from a seed (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }
}

/// A dispatching process, with its deliveries in flight.
struct Dispatcher {
    world: World,
    held: Vec<ClaimedDelivery>,
}

impl Dispatcher {
    fn in_flight(&self) -> InFlight {
        under_way(&self.held)
    }
}

/// The state of a run.
struct Run {
    stage: World,
    dispatchers: [Dispatcher; 2],
    /// The deliveries in flight of crashed dispatchers, whose exchanges may still end late.
    late: Vec<ClaimedDelivery>,
    webhooks: Vec<Webhook>,
    made: BTreeSet<DeliveryId>,
    sent: BTreeSet<DeliveryId>,
    delivered: BTreeMap<DeliveryId, BTreeSet<DeliveryLease>>,
    dice: Dice,
}

impl Run {
    async fn begin(seed: u64, rates: FaultRates) -> Self {
        let stage = World::new().await;
        let mut webhooks = Vec::new();
        for _ in 0..3 {
            webhooks.push(webhook(&stage).await);
        }
        let dispatcher = async |seed| Dispatcher {
            world: stage.served_with(FaultPlan::seeded(seed, rates)).await,
            held: Vec::new(),
        };
        Self {
            dispatchers: [dispatcher(seed).await, dispatcher(seed + 1_000_000).await],
            stage,
            late: Vec::new(),
            webhooks,
            made: BTreeSet::new(),
            sent: BTreeSet::new(),
            delivered: BTreeMap::new(),
            dice: Dice(seed),
        }
    }

    async fn step(&mut self) {
        let who = self.dice.roll(2);
        match self.dice.roll(12) {
            0..=2 => self.claim(who).await,
            3..=6 => self.finish(who).await,
            7 => {
                let dispatcher = &self.dispatchers[who];
                let leases: Vec<_> = dispatcher.held.iter().map(|held| held.lease).collect();
                let now = self.stage.time.now();
                let _ = dispatcher
                    .world
                    .service
                    .dispatcher()
                    .renew_leases(now, &leases)
                    .await;
            }
            8 => {
                let crashed = std::mem::take(&mut self.dispatchers[who].held);
                self.late.extend(crashed);
            }
            9 => {
                let passed = match self.dice.roll(4) {
                    0 => 6 * HOUR,
                    1 => MILLISECOND,
                    _ => Duration::from_millis(self.dice.roll(6_000) as u64),
                };
                self.stage.time.pass(passed);
            }
            10 => {
                let webhook = &self.webhooks[self.dice.roll(3)];
                let made = self.stage.announce(webhook, 1 + self.dice.roll(3)).await;
                self.made.extend(made.iter().map(|delivery| delivery.id));
            }
            _ => self.finish_late().await,
        }
    }

    /// Claims, at random with a concurrent claim of the other dispatcher.
    async fn claim(&mut self, who: usize) {
        let room = 1 + self.dice.roll(6);
        let meanwhile = self.claim_meanwhile(who);
        let dispatcher = &self.dispatchers[who];
        let (now, in_flight) = (self.stage.time.now(), dispatcher.in_flight());
        let claimed = dispatcher
            .world
            .service
            .dispatcher()
            .claim(now, room, &in_flight)
            .await;
        if let Ok(claimed) = claimed {
            self.hold(who, claimed);
        }
        self.take_meanwhile(who, &meanwhile);
    }

    /// Makes the other dispatcher claim right before the next commit of this one.
    fn claim_meanwhile(&mut self, who: usize) -> Arc<Mutex<Option<ClaimBatch>>> {
        let claimed = Arc::new(Mutex::new(None));
        if self.dice.roll(3) == 0 {
            let other = &self.dispatchers[1 - who];
            let (service, in_flight) = (other.world.service.clone(), other.in_flight());
            let (now, slot) = (self.stage.time.now(), Arc::clone(&claimed));
            self.dispatchers[who].world.probe.before_commit(async move {
                let found = service.dispatcher().claim(now, 4, &in_flight).await;
                *slot.lock().unwrap() = found.ok();
            });
        }
        claimed
    }

    fn take_meanwhile(&mut self, who: usize, claimed: &Mutex<Option<ClaimBatch>>) {
        if let Some(claimed) = claimed.lock().unwrap().take() {
            self.hold(1 - who, claimed);
        }
    }

    fn hold(&mut self, who: usize, claimed: ClaimBatch) {
        for one in claimed.deliveries {
            self.sent.insert(one.request.id);
            self.dispatchers[who].held.push(one);
        }
    }

    /// Records an attempt, at random with a concurrent claim of the other dispatcher.
    async fn finish(&mut self, who: usize) {
        if self.dispatchers[who].held.is_empty() {
            return;
        }
        let chosen = self.dice.roll(self.dispatchers[who].held.len());
        let one = self.dispatchers[who].held.swap_remove(chosen);
        let status = if self.dice.roll(3) == 0 { 500 } else { 200 };
        let meanwhile = self.claim_meanwhile(who);
        let (now, attempt) = (self.stage.time.now(), answer(status));
        let service = &self.dispatchers[who].world.service;
        let finished = service.dispatcher().finish(now, &one.lease, &attempt).await;
        match finished {
            Ok(finished) => self.note(&one, finished),
            // The same attempt is reported again.
            Err(_) => {
                let again = self.stage.finish(&one, &attempt).await;
                self.note(&one, again);
            }
        }
        self.take_meanwhile(who, &meanwhile);
    }

    fn note(&mut self, one: &ClaimedDelivery, finished: AttemptOutcome) {
        if finished == AttemptOutcome::Delivered {
            let leases = self.delivered.entry(one.request.id).or_default();
            leases.insert(one.lease);
            assert_eq!(leases.len(), 1, "delivered once under one lease");
        }
    }

    /// Records an attempt of a crashed dispatcher; if its lease is lost, this changes nothing.
    async fn finish_late(&mut self) {
        let Some(one) = self.late.pop() else { return };
        let before = self.stage.contents().await;
        let finished = self.stage.finish(&one, &answer(200)).await;
        if finished == AttemptOutcome::LeaseLost {
            assert_eq!(self.stage.contents().await, before);
        }
        self.note(&one, finished);
    }

    /// Completes each delivery, once.
    async fn end(mut self) {
        let stage = &self.stage;
        stage.assert_whole().await;
        for _ in 0..1_000 {
            let claimed = stage.claim().await;
            for one in &claimed.deliveries {
                self.sent.insert(one.request.id);
                let finished = stage.finish(one, &answer(200)).await;
                assert_eq!(finished, AttemptOutcome::Delivered);
                let leases = self.delivered.entry(one.request.id).or_default();
                leases.insert(one.lease);
                assert_eq!(leases.len(), 1, "delivered once under one lease");
            }
            match claimed.next_due {
                Some(next) => stage.time.set(next.max(stage.time.now())),
                None => break,
            }
        }
        assert_eq!(stage.undelivered().await, 0);
        assert_eq!(self.sent, self.made);
        let mut delivered = BTreeSet::new();
        for webhook in &self.webhooks {
            for id in &self.made {
                let endpoint = crate::dispatching::endpoint(webhook);
                let read = stage
                    .service
                    .deliveries()
                    .get(&stage.owner, endpoint, *id)
                    .await;
                if let Ok(read) = read
                    && read.status == DeliveryStatus::Delivered
                {
                    delivered.insert(read.id);
                }
            }
        }
        let noted: BTreeSet<_> = self.delivered.keys().copied().collect();
        assert_eq!(delivered, noted);
        stage.assert_whole().await;
    }
}

#[tokio::test]
async fn dispatchers_lose_nothing_and_record_each_success_once() {
    for seed in 0..30 {
        let mut run = Run::begin(seed, FaultRates::default()).await;
        for _ in 0..STEPS {
            run.step().await;
        }
        assert!(
            !run.made.is_empty() && !run.delivered.is_empty(),
            "seed {seed}"
        );
        run.end().await;
    }
}

#[tokio::test]
async fn dispatchers_lose_nothing_over_failing_store() {
    let rates = FaultRates {
        conflict: 0.1,
        unavailable: 0.05,
        full: 0.0,
        lost_applied: 0.05,
        lost_not_applied: 0.05,
        lost_applied_later: 0.05,
        read: 0.0,
    };
    for seed in 100..130 {
        let mut run = Run::begin(seed, rates).await;
        for _ in 0..STEPS {
            run.step().await;
        }
        for dispatcher in &run.dispatchers {
            dispatcher.world.faults.disable_faults();
            // Delayed commits are applied.
            dispatcher.world.service.ready().await.unwrap();
        }
        run.end().await;
    }
}
