//! Dispatch loop: it fans out, claims and renews leases; the exchanges are tasks of their own.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use knowledge_core::Error;
use knowledge_core::model::Timestamp;
use knowledge_core::service::{ClaimBatch, KnowledgeService};
use tokio::time::{Instant, sleep_until, timeout};

use super::Deliveries;
use super::attempt::{Attempts, CONFLICT_DELAY};
use super::clock::{ClockWatch, Jump};
use super::in_flight::LeasedAttempts;
use crate::explain::explain;
use crate::metrics::{DeliveryMetrics, DispatchStep};

/// Delay of a step after its first failure, doubled after each further one up to the maximum.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Minimum time between two iterations, unless one has left work to do.
///
/// Each iteration has a few commits, whatever the number of events and results.
const ITERATION_MIN: Duration = Duration::from_millis(5);
/// Delay of the whole loop after a panic.
const PANIC_DELAY: Duration = Duration::from_secs(1);

/// Dispatcher of the outbox of one service.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    attempts: Arc<Attempts>,
    in_flight: LeasedAttempts,
    clock: ClockWatch,
    fan_out: Step,
    /// [`Dispatcher::outbox_additions`](knowledge_core::service::Dispatcher::outbox_additions) at
    /// which nothing was left to fan out, and the time of the next poll for additions by other
    /// services.
    fanned_out: Option<(u64, Instant)>,
    claims: Step,
    renewals: Step,
    /// Start of the last iteration.
    began: Instant,
}

impl Dispatcher {
    pub(crate) fn new(
        service: KnowledgeService,
        deliveries: Deliveries,
        metrics: DeliveryMetrics,
    ) -> Self {
        metrics.set_in_flight_max(deliveries.in_flight_max);
        let began = Instant::now();
        let clock = ClockWatch::new(began, service.env().now());
        Self {
            attempts: Arc::new(Attempts {
                service,
                deliveries,
                metrics,
            }),
            in_flight: LeasedAttempts::default(),
            clock,
            fan_out: Step::new(DispatchStep::FanOut),
            fanned_out: None,
            claims: Step::new(DispatchStep::Claim),
            renewals: Step::new(DispatchStep::Renew),
            began,
        }
    }

    /// Delivers until `stopping` resolves. Then it claims nothing more and waits up to
    /// `drain_timeout` for the exchanges in flight to be completed and recorded. The rest is
    /// claimed again when the leases expire.
    pub(crate) async fn run(mut self, stopping: impl Future<Output = ()>, drain_timeout: Duration) {
        let mut stopping = pin!(stopping);
        loop {
            tokio::select! {
                biased;
                () = &mut stopping => break,
                // Cancelled within a step, which then has no effect: an unused claim expires.
                () = self.run_once_catching_panics() => {}
            }
        }
        self.drain(drain_timeout).await;
    }

    /// Runs one iteration. A panic ends this iteration only: other deliveries must go on.
    async fn run_once_catching_panics(&mut self) {
        let run = AssertUnwindSafe(self.run_once()).catch_unwind().await;
        self.back_off_after_panic(run).await;
    }

    async fn back_off_after_panic(&self, result: std::thread::Result<()>) {
        if result.is_err() {
            self.attempts.metrics.record_failure(DispatchStep::Run);
            tracing::error!("dispatcher panicked; backing off");
            tokio::time::sleep(PANIC_DELAY).await;
        }
    }

    /// Does all available work, then waits until there may be more.
    async fn run_once(&mut self) {
        self.began = Instant::now();
        self.in_flight.reap();
        self.renew().await;
        self.record_ended().await;
        let until = self.fan_out().await;
        // A lease that expired during the fan-out would be claimed a second time.
        self.renew().await;
        let until = until.min(self.claim().await);
        self.wait(until).await;
    }

    /// Records the attempts that have ended: those that succeeded in one commit, each other one by
    /// a task of its own, which retries as long as necessary.
    async fn record_ended(&mut self) {
        let attempts = Arc::clone(&self.attempts);
        let ended = self.in_flight.ended_attempts();
        let successful: Vec<_> = ended
            .iter()
            .filter(|ended| ended.attempt.is_success())
            .map(|ended| (ended.claimed.lease, ended.attempt.clone()))
            .collect();
        let mut recorded = HashMap::new();
        if successful.len() > 1 {
            // Cancelled here, they are recorded again, which changes nothing.
            recorded = attempts.record_together(&successful).await;
        }
        for ended in self.in_flight.take_ended() {
            let (lease, attempts) = (ended.claimed.lease, Arc::clone(&attempts));
            match recorded.remove(&lease) {
                Some(outcome) => {
                    self.in_flight.remove(&lease);
                    attempts.end_recorded(ended, outcome);
                }
                None => {
                    let recording = attempts.record_one(ended);
                    self.in_flight.start_recording(lease, recording);
                }
            }
        }
    }

    /// Waits for a notification, but not longer than `until`.
    async fn wait(&mut self, until: Instant) {
        let renewal = self.in_flight.renewal_at();
        let renewal = renewal.map(|at| {
            self.renewals
                .backoff_until()
                .map_or(at, |backoff| at.max(backoff))
        });
        let until = renewal.map_or(until, |at| at.min(until));
        tokio::select! {
            () = self.in_flight.ended() => {}
            () = self.attempts.service.dispatcher().deliveries_pending() => {}
            () = sleep_until(until) => return,
        }
        // Batch: work that arrives within this time joins the next iteration.
        sleep_until(self.began + ITERATION_MIN).await;
    }

    /// Fans out a bounded number of events. Returns the latest time to continue.
    ///
    /// An outbox that is fanned out is not read again: an engine may pass everything that was deleted
    /// there to find it empty.
    async fn fan_out(&mut self) -> Instant {
        if let Some(until) = self.fan_out.backoff_until() {
            return until;
        }
        let additions = self.service().dispatcher().outbox_additions();
        if let Some((known, until)) = self.fanned_out
            && known == additions
            && until > Instant::now()
        {
            return until;
        }
        let result = self.service().dispatcher().fan_out(self.now()).await;
        let Some(expanded) = self.fan_out.record_result(result, &self.attempts.metrics) else {
            return self.fan_out.next_run();
        };
        self.attempts.metrics.record_fan_out(&expanded);
        let made_progress = expanded.events > 0 || expanded.deliveries > 0;
        let poll = self.poll_interval();
        let next = self
            .fan_out
            .schedule_next(expanded.has_more, made_progress, poll);
        let is_done = !expanded.has_more && !made_progress;
        self.fanned_out = is_done.then_some((additions, next));
        next
    }

    /// Claims due deliveries within the free capacity and starts their exchanges. Returns the
    /// latest time to continue.
    async fn claim(&mut self) -> Instant {
        if let Some(until) = self.claims.backoff_until() {
            return until;
        }
        let capacity = self.attempts.deliveries.in_flight_max;
        let capacity = capacity.saturating_sub(self.in_flight.len());
        let (since, now) = (Instant::now(), self.now());
        self.check_clock(since, now);
        // With leases that may have expired, it would claim deliveries that are in flight.
        let is_late = |at| at <= since;
        if capacity == 0 || self.in_flight.renewal_at().is_some_and(is_late) {
            return since + self.poll_interval();
        }
        let in_flight = self.in_flight.counts();
        let result = self
            .service()
            .dispatcher()
            .claim(now, capacity, in_flight)
            .await;
        let Some(claimed) = self.claims.record_result(result, &self.attempts.metrics) else {
            return self.claims.next_run();
        };
        let next = self.next_claim(&claimed, since, now);
        if claimed.dead_lettered > 0 {
            let dead_lettered = claimed.dead_lettered;
            tracing::info!(
                dead_lettered,
                "deliveries dead-lettered without a further attempt"
            );
            self.attempts.metrics.record_dead_letters(dead_lettered);
        }
        for claimed in claimed.deliveries {
            let lease = claimed.lease;
            let attempt = Arc::clone(&self.attempts).make(claimed);
            self.in_flight.start(lease, since, attempt);
        }
        next
    }

    fn next_claim(&mut self, claimed: &ClaimBatch, since: Instant, now: Timestamp) -> Instant {
        let made_progress = claimed.dead_lettered > 0 || !claimed.deliveries.is_empty();
        let next = self
            .claims
            .schedule_next(claimed.has_more, made_progress, self.poll_interval());
        match claimed.next_due {
            // Deliveries that were due but not claimed wait for an exchange to end.
            Some(due) if due > now => next.min(since + due.since(now)),
            _ => next,
        }
    }

    /// Renews the leases that need it.
    async fn renew(&mut self) {
        let now = Instant::now();
        self.check_clock(now, self.now());
        let leases = self.in_flight.renewals(now);
        if leases.is_empty() || self.renewals.backoff_until().is_some() {
            return;
        }
        let result = self
            .service()
            .dispatcher()
            .renew_leases(self.now(), &leases)
            .await;
        if let Some(kept) = self.renewals.record_result(result, &self.attempts.metrics) {
            let lost = self.in_flight.record_renewals(&leases, &kept, now);
            if lost > 0 {
                tracing::debug!(lost, "leases lost to another dispatcher");
            }
        }
    }

    /// Detects a jump of the clock: leases expire by the clock but are renewed by the timer.
    fn check_clock(&mut self, timer: Instant, clock: Timestamp) {
        match self.clock.jump(timer, clock) {
            Some(Jump::Forward) => {
                tracing::warn!("the clock jumped forward; renewing the leases in flight");
                self.in_flight.renew_all(timer);
            }
            Some(Jump::Back(by)) => {
                let seconds = by.as_secs();
                tracing::warn!(
                    seconds,
                    "the clock stepped back; what was due waits as long"
                );
            }
            None => {}
        }
    }

    /// Waits for the exchanges in flight.
    async fn drain(mut self, drain_timeout: Duration) {
        self.in_flight.reap();
        let in_flight = self.in_flight.len();
        if in_flight > 0 {
            tracing::info!(in_flight, "waiting for deliveries in flight");
        }
        let ended = async {
            while !self.in_flight.is_empty() {
                let run = async {
                    self.renew().await;
                    self.in_flight.reap();
                    self.record_ended().await;
                    self.wait(Instant::now() + self.poll_interval()).await;
                };
                let run = AssertUnwindSafe(run).catch_unwind().await;
                self.back_off_after_panic(run).await;
            }
        };
        if timeout(drain_timeout, ended).await.is_err() {
            let left = self.in_flight.len();
            tracing::info!(
                left,
                "drain timed out; the remaining deliveries are retried later"
            );
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

/// Repeated step of the loop, with backoff after failures.
#[derive(Debug)]
struct Step {
    step: DispatchStep,
    failures: u32,
    backoff_until: Option<Instant>,
}

impl Step {
    fn new(step: DispatchStep) -> Self {
        Self {
            step,
            failures: 0,
            backoff_until: None,
        }
    }

    /// Returns the end of the backoff, if it is in progress.
    fn backoff_until(&self) -> Option<Instant> {
        self.backoff_until.filter(|until| *until > Instant::now())
    }

    /// Returns the time of the next run after a failure.
    fn next_run(&self) -> Instant {
        self.backoff_until().unwrap_or_else(Instant::now)
    }

    /// Returns the time of the next run if no notification arrives before.
    fn schedule_next(
        &mut self,
        has_more: bool,
        made_progress: bool,
        poll_interval: Duration,
    ) -> Instant {
        let now = Instant::now();
        match (has_more, made_progress) {
            (true, true) => now,
            (true, false) => {
                self.backoff_until = Some(now + CONFLICT_DELAY);
                now + CONFLICT_DELAY
            }
            (false, _) => now + poll_interval,
        }
    }

    /// Returns the result of a run, or logs and counts its failure and backs off.
    fn record_result<T>(
        &mut self,
        result: Result<T, Error>,
        metrics: &DeliveryMetrics,
    ) -> Option<T> {
        let error = match result {
            Ok(done) => {
                self.failures = 0;
                self.backoff_until = None;
                return Some(done);
            }
            // Not an error: another dispatcher or a request was faster.
            Err(Error::Conflict) => {
                self.backoff_until = Some(Instant::now() + CONFLICT_DELAY);
                tracing::debug!(step = self.step.as_str(), "conflict with another writer");
                return None;
            }
            Err(error) => error,
        };
        let wait = RETRY_MAX.min(RETRY_MIN * 2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        self.backoff_until = Some(Instant::now() + wait);
        metrics.record_failure(self.step);
        let (step, detail) = (self.step.as_str(), explain(&error));
        tracing::warn!(step, detail, retry_in = ?wait, "delivery step failed; backing off");
        None
    }
}
