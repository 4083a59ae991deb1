//! The loop that delivers: it expands, claims and renews; the exchanges are tasks of their own.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use knowledge_core::Error;
use knowledge_core::model::Timestamp;
use knowledge_core::service::{Claimed, KnowledgeService};
use tokio::time::{Instant, sleep_until, timeout};

use super::Deliveries;
use super::attempt::Attempts;
use super::clock::ClockWatch;
use super::in_flight::InFlight;
use crate::explain::explain;
use crate::metrics::{DeliveryMetrics, DispatchStep};

/// How long a step rests after its first failure, and after every later one at most.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// How long a step rests that found more to do and could do nothing of it: somebody else is at it.
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// How long everything rests after a panic.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Delivers what is in the outbox of one service.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    attempts: Attempts,
    in_flight: InFlight,
    clock: ClockWatch,
    expanding: Step,
    claiming: Step,
    renewing: Step,
}

impl Dispatcher {
    pub(crate) fn new(
        service: KnowledgeService,
        deliveries: Deliveries,
        metrics: DeliveryMetrics,
    ) -> Self {
        metrics.set_in_flight_max(deliveries.in_flight_max);
        let clock = ClockWatch::begin(Instant::now(), service.env().now());
        Self {
            attempts: Attempts {
                service,
                deliveries,
                metrics,
            },
            in_flight: InFlight::default(),
            clock,
            expanding: Step::new(DispatchStep::Expand),
            claiming: Step::new(DispatchStep::Claim),
            renewing: Step::new(DispatchStep::Renew),
        }
    }

    /// Delivers until `stopping` resolves. From then on nothing is claimed; the exchanges in flight may end and be
    /// recorded for so long. What is left then is claimed anew when its lease has lapsed.
    pub(crate) async fn run(mut self, stopping: impl Future<Output = ()>, drain_timeout: Duration) {
        let mut stopping = pin!(stopping);
        loop {
            tokio::select! {
                biased;
                () = &mut stopping => break,
                // Broken off within a step, which then counts as not done: a claim that nobody saw lapses.
                () = self.turn_whatever_happens() => {}
            }
        }
        self.drain(drain_timeout).await;
    }

    /// A turn. A defect that panics ends it and no more: whatever else waits is to be delivered.
    async fn turn_whatever_happens(&mut self) {
        let turn = AssertUnwindSafe(self.turn()).catch_unwind().await;
        self.rest_after_panic(turn).await;
    }

    async fn rest_after_panic(&self, turn: std::thread::Result<()>) {
        if turn.is_err() {
            self.attempts.metrics.failed(DispatchStep::Turn);
            tracing::error!("a turn of the dispatcher panicked; the next one begins soon");
            tokio::time::sleep(PANIC_PAUSE).await;
        }
    }

    /// Does what there is to do, then waits until there may be more.
    async fn turn(&mut self) {
        self.in_flight.forget_ended();
        self.renew().await;
        let until = self.expand().await;
        // A lease that lapsed while events were expanded would be claimed a second time.
        self.renew().await;
        let until = until.min(self.claim().await);
        self.rest(until).await;
    }

    /// Waits until then at the latest.
    async fn rest(&mut self, until: Instant) {
        let renewal = self.in_flight.renewal_at();
        let renewal = renewal.map(|at| self.renewing.rests_until().map_or(at, |rest| at.max(rest)));
        let until = renewal.map_or(until, |at| at.min(until));
        tokio::select! {
            () = self.in_flight.ended() => {}
            () = self.attempts.deliveries.wake.woken() => {}
            () = sleep_until(until) => {}
        }
    }

    /// Expands events, a bounded part of what there is. Says when to go on at the latest.
    async fn expand(&mut self) -> Instant {
        if let Some(until) = self.expanding.rests_until() {
            return until;
        }
        let result = self.service().expand_events(self.now()).await;
        let Some(expanded) = self.expanding.came_to(result, &self.attempts.metrics) else {
            return self.expanding.next();
        };
        self.attempts.metrics.expanded(&expanded);
        let has_done = expanded.events > 0 || expanded.deliveries > 0;
        let poll = self.poll_interval();
        self.expanding.go_on(expanded.has_more, has_done, poll)
    }

    /// Claims what is due, as far as there is room, and begins the exchanges. Says when to go on at the latest.
    async fn claim(&mut self) -> Instant {
        if let Some(until) = self.claiming.rests_until() {
            return until;
        }
        let room = self.attempts.deliveries.in_flight_max;
        let room = room.saturating_sub(self.in_flight.len());
        let (since, now) = (Instant::now(), self.now());
        self.look_at_clock(since, now);
        // With leases that may have lapsed it would claim what is in flight.
        let is_late = |at| at <= since;
        if room == 0 || self.in_flight.renewal_at().is_some_and(is_late) {
            return since + self.poll_interval();
        }
        let in_flight = self.in_flight.counted();
        let result = self.service().claim_deliveries(now, room, in_flight).await;
        let Some(claimed) = self.claiming.came_to(result, &self.attempts.metrics) else {
            return self.claiming.next();
        };
        let next = self.next_claim(&claimed, since, now);
        if claimed.given_up > 0 {
            let given_up = claimed.given_up;
            tracing::info!(
                given_up,
                "deliveries to endpoints that are switched off were given up: they are dead letters now"
            );
            self.attempts.metrics.gave_up(given_up);
        }
        for claimed in claimed.deliveries {
            let attempt = self.attempts.clone().make(claimed.clone());
            self.in_flight.begin(claimed.lease, since, attempt);
        }
        next
    }

    fn next_claim(&mut self, claimed: &Claimed, since: Instant, now: Timestamp) -> Instant {
        let has_done = claimed.given_up > 0 || !claimed.deliveries.is_empty();
        let next = self
            .claiming
            .go_on(claimed.has_more, has_done, self.poll_interval());
        match claimed.next_due {
            // What was due then and was not claimed waits for an exchange to end.
            Some(due) if due > now => next.min(since + due.since(now)),
            _ => next,
        }
    }

    /// Renews the leases for which it is time.
    async fn renew(&mut self) {
        let now = Instant::now();
        self.look_at_clock(now, self.now());
        let leases = self.in_flight.renewals(now);
        if leases.is_empty() || self.renewing.rests_until().is_some() {
            return;
        }
        let result = self.service().renew_leases(self.now(), &leases).await;
        if let Some(kept) = self.renewing.came_to(result, &self.attempts.metrics) {
            let lost = self.in_flight.renewed(&leases, &kept, now);
            if lost > 0 {
                tracing::debug!(lost, "leases were lost to another dispatcher");
            }
        }
    }

    /// The leases are kept by the clock, and renewed by the timer.
    fn look_at_clock(&mut self, timer: Instant, clock: Timestamp) {
        if self.clock.has_run_ahead(timer, clock) {
            tracing::warn!(
                "the clock was set forward: the leases of what is in flight are renewed"
            );
            self.in_flight.renew_all(timer);
        }
    }

    /// Lets the exchanges in flight end.
    async fn drain(mut self, drain_timeout: Duration) {
        self.in_flight.forget_ended();
        let in_flight = self.in_flight.len();
        if in_flight > 0 {
            tracing::info!(in_flight, "waiting for the deliveries in flight");
        }
        let ended = async {
            while !self.in_flight.is_empty() {
                let turn = async {
                    self.renew().await;
                    self.rest(Instant::now() + self.poll_interval()).await;
                };
                let turn = AssertUnwindSafe(turn).catch_unwind().await;
                self.rest_after_panic(turn).await;
            }
        };
        if timeout(drain_timeout, ended).await.is_err() {
            let left = self.in_flight.len();
            tracing::info!(left, "deliveries in flight are left to the next start");
        }
        self.in_flight.abort().await;
    }

    fn poll_interval(&self) -> Duration {
        self.attempts.deliveries.poll_interval
    }

    fn service(&self) -> &KnowledgeService {
        &self.attempts.service
    }

    fn now(&self) -> Timestamp {
        self.service().env().now()
    }
}

/// One thing that the loop does again and again, and that rests after a failure.
#[derive(Debug)]
struct Step {
    step: DispatchStep,
    failures: u32,
    rests_until: Option<Instant>,
}

impl Step {
    fn new(step: DispatchStep) -> Self {
        Self {
            step,
            failures: 0,
            rests_until: None,
        }
    }

    /// Until when it rests, where it does.
    fn rests_until(&self) -> Option<Instant> {
        self.rests_until.filter(|until| *until > Instant::now())
    }

    /// When to do it next after a failure.
    fn next(&self) -> Instant {
        self.rests_until().unwrap_or_else(Instant::now)
    }

    /// When to do it next, where nothing else calls for it.
    fn go_on(&mut self, has_more: bool, has_done: bool, poll_interval: Duration) -> Instant {
        let now = Instant::now();
        match (has_more, has_done) {
            (true, true) => now,
            (true, false) => {
                self.rests_until = Some(now + PAUSE);
                now + PAUSE
            }
            (false, _) => now + poll_interval,
        }
    }

    /// What it came to; nothing after a failure, which is logged and counted.
    fn came_to<T>(&mut self, result: Result<T, Error>, metrics: &DeliveryMetrics) -> Option<T> {
        let error = match result {
            Ok(done) => {
                self.failures = 0;
                self.rests_until = None;
                return Some(done);
            }
            // Nothing is wrong: another dispatcher was faster, or requests were.
            Err(Error::Conflict) => {
                self.rests_until = Some(Instant::now() + PAUSE);
                tracing::debug!(step = self.step.label(), "others were faster");
                return None;
            }
            Err(error) => error,
        };
        let wait = RETRY_MAX.min(RETRY_MIN * 2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        self.rests_until = Some(Instant::now() + wait);
        metrics.failed(self.step);
        let (step, detail) = (self.step.label(), explain(&error));
        tracing::warn!(step, detail, retry_in = ?wait, "delivering stands still");
        None
    }
}
