//! Exchanges in flight, with the leases that protect them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use knowledge_core::service::{DELIVERY_LEASE, DeliveryLease, InFlight};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::attempt::EndedAttempt;

/// Age at which a lease is renewed: most exchanges end sooner.
const RENEW_INTERVAL: Duration = DELIVERY_LEASE.checked_div(2).expect("2 is not 0");
/// Time by which a lease may be renewed early, together with one whose renewal is due.
const RENEW_EARLY_MAX: Duration = RENEW_INTERVAL.checked_div(2).expect("2 is not 0");

/// Exchanges in flight with their leases, until their outcomes are recorded.
#[derive(Debug, Default)]
pub(super) struct LeasedAttempts {
    tasks: JoinSet<Option<EndedAttempt>>,
    /// Leases by task, because a task that panics does not return its lease.
    leases_of_tasks: HashMap<Id, DeliveryLease>,
    /// Time of each lease's next renewal; `None` once the lease is lost. The exchange continues,
    /// because its receiver may already have the request.
    leases: HashMap<DeliveryLease, Option<Instant>>,
    /// Attempts that have ended and are to be recorded.
    ended: Vec<EndedAttempt>,
    counts: InFlight,
}

impl LeasedAttempts {
    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Returns the number of exchanges per endpoint and per organisation.
    pub(super) fn counts(&self) -> &InFlight {
        &self.counts
    }

    /// Starts an exchange under a lease acquired at `since`.
    ///
    /// It ends with an attempt that is to be recorded, or with none once that is done.
    pub(super) fn start(
        &mut self,
        lease: DeliveryLease,
        since: Instant,
        exchange: impl Future<Output = Option<EndedAttempt>> + Send + 'static,
    ) {
        self.spawn(lease, exchange);
        self.leases.insert(lease, Some(since + RENEW_INTERVAL));
        self.counts.begin(&lease);
    }

    /// Continues an attempt that has ended with a task that records it.
    pub(super) fn start_recording(
        &mut self,
        lease: DeliveryLease,
        recording: impl Future<Output = Option<EndedAttempt>> + Send + 'static,
    ) {
        self.spawn(lease, recording);
    }

    fn spawn(
        &mut self,
        lease: DeliveryLease,
        task: impl Future<Output = Option<EndedAttempt>> + Send + 'static,
    ) {
        let id = self.tasks.spawn(task).id();
        self.leases_of_tasks.insert(id, lease);
    }

    /// Waits until an exchange ends; forever if there is none.
    pub(super) async fn ended(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(ended) => self.note_ended(ended),
            None => std::future::pending().await,
        }
    }

    /// Notes all exchanges that have ended.
    pub(super) fn reap(&mut self) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.note_ended(ended);
        }
    }

    fn note_ended(&mut self, ended: Result<(Id, Option<EndedAttempt>), JoinError>) {
        let (id, ended) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // Nothing is recorded: the lease expires, and the delivery is attempted again.
                tracing::error!(%error, "delivery attempt panicked");
                (error.id(), None)
            }
        };
        let lease = self.leases_of_tasks.remove(&id);
        match (lease, ended) {
            (Some(lease), Some(ended)) => {
                self.counts.note_attempt(&lease, &ended.attempt);
                self.ended.push(ended);
            }
            (Some(lease), None) => self.remove(&lease),
            (None, _) => {}
        }
    }

    /// Returns the attempts to be recorded. They stay in flight until [`Self::take_ended`].
    pub(super) fn ended_attempts(&self) -> &[EndedAttempt] {
        &self.ended
    }

    /// Takes the attempts to be recorded. Each one remains in flight until [`Self::remove`].
    pub(super) fn take_ended(&mut self) -> Vec<EndedAttempt> {
        std::mem::take(&mut self.ended)
    }

    /// Removes a delivery whose outcome is recorded.
    pub(super) fn remove(&mut self, lease: &DeliveryLease) {
        if self.leases.remove(lease).is_some() {
            self.counts.end(lease);
        }
    }

    /// Returns the time of the next renewal.
    pub(super) fn renewal_at(&self) -> Option<Instant> {
        self.leases.values().copied().flatten().min()
    }

    /// Schedules all leases for renewal now: they may have expired by the clock.
    pub(super) fn renew_all(&mut self, now: Instant) {
        for renew_at in self.leases.values_mut() {
            *renew_at = renew_at.map(|at| at.min(now));
        }
    }

    /// Returns the leases to renew; empty if none needs it yet.
    pub(super) fn renewals(&self, now: Instant) -> Vec<DeliveryLease> {
        if self.renewal_at().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let is_due = |at: Instant| at <= now + RENEW_EARLY_MAX;
        let due = self.leases.iter();
        due.filter(|(_, renew_at)| renew_at.is_some_and(is_due))
            .map(|(lease, _)| *lease)
            .collect()
    }

    /// Records which of the requested renewals succeeded, valid from `now`. Returns the number of
    /// lost leases.
    pub(super) fn record_renewals(
        &mut self,
        requested: &[DeliveryLease],
        kept: &[DeliveryLease],
        now: Instant,
    ) -> usize {
        let kept: HashSet<_> = kept.iter().collect();
        let mut lost = 0;
        for lease in requested {
            if let Some(renew_at) = self.leases.get_mut(lease) {
                let is_kept = kept.contains(lease);
                *renew_at = is_kept.then_some(now + RENEW_INTERVAL);
                lost += usize::from(!is_kept);
            }
        }
        lost
    }

    /// Cancels the remaining exchanges.
    pub(super) async fn abort(mut self) {
        self.tasks.shutdown().await;
    }
}
