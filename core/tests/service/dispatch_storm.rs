//! Test of random actions on deliveries, each between any two store calls of another.
//!
//! At each moment, each queued delivery has a ready entry, and in the end all are completed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::internals::keys;
use knowledge_core::model::{SourceId, Webhook, WebhookUpdate, WorkspaceId};
use knowledge_core::service::{Caller, ClaimedDelivery, KnowledgeService, PageRequest};
use knowledge_store::faults::FaultPlan;

use crate::dispatch_random::Dice;
use crate::dispatching::{answer, endpoint, under_way};
use crate::make::{DAY, HOUR, MILLISECOND, new_memory, new_webhook, set_active, set_url};
use crate::world::{Time, World};

const SEEDS: u64 = 40;
const STEPS: u32 = 150;
const WEBHOOKS: usize = 3;
/// Approximate number of store calls of an operation.
const CALLS: usize = 9;

/// A random action; its numbers select the objects.
#[derive(Clone, Copy, Debug)]
enum Act {
    Claim(usize),
    Renew,
    Finish(usize, u16),
    Crash,
    FinishLate(u16),
    Switch(usize, bool),
    Move(usize),
    Rotate(usize),
    Replace(usize),
    Ping(usize),
    Redeliver(usize, usize),
    RedeliverDead(usize),
    Ingest,
    FanOut,
    Maintain,
}

impl Act {
    fn any(dice: &mut Dice) -> Self {
        let status = [200, 200, 500, 500, 410][dice.roll(5)];
        match dice.roll(30) {
            0..=5 => Self::Claim(1 + dice.roll(8)),
            6..=9 => Self::Renew,
            10..=13 => Self::Finish(dice.roll(100), status),
            14 => Self::Crash,
            15 => Self::FinishLate(status),
            16..=19 => Self::Switch(dice.roll(WEBHOOKS), dice.roll(2) == 0),
            20 => Self::Move(dice.roll(WEBHOOKS)),
            21 => Self::Rotate(dice.roll(WEBHOOKS)),
            22 => Self::Replace(dice.roll(WEBHOOKS)),
            23 => Self::Ping(dice.roll(WEBHOOKS)),
            24 => Self::Redeliver(dice.roll(WEBHOOKS), dice.roll(100)),
            25 => Self::RedeliverDead(dice.roll(WEBHOOKS)),
            26 => Self::Ingest,
            27 | 28 => Self::FanOut,
            _ => Self::Maintain,
        }
    }
}

/// The state that all actors share.
struct Common {
    owner: Caller,
    workspace: WorkspaceId,
    source: SourceId,
    time: Time,
    webhooks: Mutex<Vec<Webhook>>,
    /// The deliveries in flight of the two dispatchers, and those from before their crashes.
    held: [Mutex<Vec<ClaimedDelivery>>; 3],
}

impl Common {
    fn webhook(&self, index: usize) -> Webhook {
        self.webhooks.lock().unwrap()[index].clone()
    }

    fn held(&self, who: usize) -> Vec<ClaimedDelivery> {
        self.held[who].lock().unwrap().clone()
    }

    fn take(&self, who: usize, chosen: usize) -> Option<ClaimedDelivery> {
        let mut held = self.held[who].lock().unwrap();
        let chosen = chosen.checked_rem(held.len())?;
        Some(held.swap_remove(chosen))
    }

    /// Executes an action, as one of the dispatchers or as a client of its process.
    async fn act(
        self: Arc<Self>,
        service: KnowledgeService,
        who: usize,
        act: Act,
    ) -> Result<(), Error> {
        let (owner, workspace, now) = (&self.owner, self.workspace, self.time.now());
        match act {
            Act::Claim(room) => {
                let in_flight = under_way(&self.held(who));
                let claimed = service.dispatcher().claim(now, room, &in_flight).await?;
                let mut held = self.held[who].lock().unwrap();
                held.extend(claimed.deliveries);
            }
            Act::Renew => {
                let leases: Vec<_> = self.held(who).iter().map(|held| held.lease).collect();
                service.dispatcher().renew_leases(now, &leases).await?;
            }
            Act::Finish(chosen, status) => self.finish(&service, who, chosen, status).await?,
            Act::FinishLate(status) => self.finish(&service, 2, 0, status).await?,
            Act::Crash => {
                let lost = std::mem::take(&mut *self.held[who].lock().unwrap());
                self.held[2].lock().unwrap().extend(lost);
            }
            Act::Switch(index, is_active) => {
                let update = set_active(is_active);
                self.update(&service, index, update).await?;
            }
            Act::Move(index) => {
                let update = set_url("https://example.org/moved");
                self.update(&service, index, update).await?;
            }
            Act::Rotate(index) => {
                let id = self.webhook(index).id;
                service
                    .webhooks()
                    .rotate_secret(owner, workspace, id)
                    .await?;
            }
            Act::Replace(index) => {
                let id = self.webhook(index).id;
                service.webhooks().delete(owner, workspace, id).await?;
                let new = self.new_webhook(&service).await?;
                self.webhooks.lock().unwrap()[index] = new;
            }
            Act::Ping(index) => {
                let to = endpoint(&self.webhook(index));
                service.deliveries().ping(owner, to).await?;
            }
            Act::Redeliver(index, chosen) => {
                let (of, page) = (endpoint(&self.webhook(index)), PageRequest::default());
                let listed = service
                    .deliveries()
                    .list(owner, of, None, &page)
                    .await?
                    .data;
                if let Some(chosen) = chosen.checked_rem(listed.len()) {
                    service
                        .deliveries()
                        .redeliver(owner, of, listed[chosen].id)
                        .await?;
                }
            }
            Act::RedeliverDead(index) => {
                let of = endpoint(&self.webhook(index));
                service.deliveries().redeliver_dead(owner, of).await?;
            }
            Act::Ingest => {
                let memory = [new_memory("A memory")];
                service
                    .memories()
                    .ingest(owner, workspace, self.source, &memory)
                    .await?;
            }
            Act::FanOut => {
                service.dispatcher().fan_out(now).await?;
            }
            Act::Maintain => {
                service.maintain(now).await?;
            }
        }
        Ok(())
    }

    async fn finish(
        &self,
        service: &KnowledgeService,
        who: usize,
        chosen: usize,
        status: u16,
    ) -> Result<(), Error> {
        if let Some(one) = self.take(who, chosen) {
            let now = self.time.now();
            service
                .dispatcher()
                .finish(now, &one.lease, &answer(status))
                .await?;
        }
        Ok(())
    }

    async fn update(
        &self,
        service: &KnowledgeService,
        index: usize,
        update: WebhookUpdate,
    ) -> Result<(), Error> {
        let (workspace, id) = (self.workspace, self.webhook(index).id);
        let updated = service
            .webhooks()
            .update(&self.owner, workspace, id, &update, None);
        updated.await.map(drop)
    }

    async fn new_webhook(&self, service: &KnowledgeService) -> Result<Webhook, Error> {
        let new = new_webhook("https://example.com/hook");
        service
            .webhooks()
            .create(&self.owner, self.workspace, &new)
            .await
    }
}

/// Asserts that only expected errors occur, none of them for corrupt data.
fn assert_expected(act: Act, done: Result<(), Error>) {
    match done {
        Ok(()) | Err(Error::Conflict | Error::EndpointInactive | Error::NotFound { .. }) => {}
        Err(error) => panic!("{act:?}: {error:?}"),
    }
}

struct Storm {
    stage: World,
    dispatchers: [World; 2],
    common: Arc<Common>,
    dice: Dice,
}

impl Storm {
    async fn begin(seed: u64) -> Self {
        let stage = World::new().await;
        let dispatchers = [
            stage.served_with(FaultPlan::none()).await,
            stage.served_with(FaultPlan::none()).await,
        ];
        let common = Common {
            owner: stage.owner.clone(),
            workspace: stage.workspace.id,
            source: stage.source,
            time: stage.time.clone(),
            webhooks: Mutex::default(),
            held: Default::default(),
        };
        for _ in 0..WEBHOOKS {
            let made = common.new_webhook(&stage.service).await.unwrap();
            common.webhooks.lock().unwrap().push(made);
        }
        Self {
            stage,
            dispatchers,
            common: Arc::new(common),
            dice: Dice(seed),
        }
    }

    /// Executes an action, at random with another one between two of its store calls.
    async fn step(&mut self) {
        if self.dice.roll(5) == 0 {
            self.pass();
        }
        let (who, act) = (self.dice.roll(2), Act::any(&mut self.dice));
        if self.dice.roll(2) == 0 {
            // A renewal moves queue places that a claim reads, unnoticed if the ready entry stays.
            let meanwhile = match act {
                Act::Claim(_) if self.dice.roll(2) == 0 => Act::Renew,
                _ => Act::any(&mut self.dice),
            };
            let service = self.dispatchers[1 - who].service.clone();
            let common = Arc::clone(&self.common);
            let event = async move {
                let done = common.act(service, 1 - who, meanwhile).await;
                assert_expected(meanwhile, done);
            };
            let others = self.dice.roll(CALLS);
            self.dispatchers[who].probe.before_call(others, event);
        }
        let service = self.dispatchers[who].service.clone();
        let done = Arc::clone(&self.common).act(service, who, act).await;
        assert_expected(act, done);
        self.dispatchers[who].probe.expect_no_call();
    }

    /// Advances or sets the clock.
    fn pass(&mut self) {
        let time = &self.stage.time;
        match self.dice.roll(12) {
            0 => time.pass(6 * HOUR),
            1 => time.pass(DAY),
            2 => time.set(time.now().minus(HOUR)),
            3 => time.set(time.now().minus(Duration::from_secs(3))),
            4..=6 => time.pass(MILLISECOND),
            _ => time.pass(Duration::from_millis(self.dice.roll(5_000) as u64)),
        }
    }

    /// Completes all queued deliveries; the dispatchers that held any have crashed.
    async fn end(self) {
        let stage = &self.stage;
        stage.fan_out().await;
        for _ in 0..1_000 {
            let claimed = stage.claim().await;
            for one in &claimed.deliveries {
                stage.finish(one, &answer(200)).await;
            }
            match claimed.next_due {
                Some(next) => stage.time.set(next.max(stage.time.now())),
                None if claimed.has_more => stage.time.pass(MILLISECOND),
                None => break,
            }
        }
        // Maintenance deletes the deliveries of deleted webhooks, whose task may be from before a
        // clock change.
        stage.time.pass(DAY);
        stage.maintain().await;
        assert_eq!(stage.undelivered().await, 0);
        assert_eq!(stage.family("delivery_due").await.len(), 0);
        assert_eq!(
            stage.counter(keys::undelivered_count(stage.org.id)).await,
            0
        );
        stage.assert_whole().await;
    }
}

#[tokio::test]
async fn queued_deliveries_always_have_ready_entry_and_complete() {
    for seed in 0..SEEDS {
        let mut storm = Storm::begin(seed).await;
        for _ in 0..STEPS {
            storm.step().await;
            storm.stage.assert_whole().await;
        }
        storm.end().await;
    }
}
