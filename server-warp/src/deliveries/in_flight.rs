//! Exchanges in flight, with the leases that protect them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use knowledge_core::service::{DELIVERY_LEASE, DeliveryLease, InFlight};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

/// Age at which a lease is renewed: most exchanges end sooner.
const RENEW_INTERVAL: Duration = DELIVERY_LEASE.checked_div(2).expect("2 is not 0");
/// Age by which a lease may be younger to be renewed together with one that needs it.
const RENEW_EARLY_MAX: Duration = RENEW_INTERVAL.checked_div(2).expect("2 is not 0");

/// Exchanges in flight with their leases.
#[derive(Debug, Default)]
pub(super) struct LeasedAttempts {
    exchanges: JoinSet<()>,
    leases: HashMap<Id, HeldLease>,
    counts: InFlight,
}

/// Lease of one exchange.
#[derive(Debug)]
struct HeldLease {
    lease: DeliveryLease,
    /// Time of the next renewal; `None` once the lease is lost. The exchange continues, because its
    /// receiver may already have the request.
    renew_at: Option<Instant>,
}

impl LeasedAttempts {
    pub(super) fn len(&self) -> usize {
        self.exchanges.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// Returns the number of exchanges per endpoint and per organisation.
    pub(super) fn counts(&self) -> &InFlight {
        &self.counts
    }

    /// Starts an exchange under a lease acquired at `since`.
    pub(super) fn start(
        &mut self,
        lease: DeliveryLease,
        since: Instant,
        exchange: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = self.exchanges.spawn(exchange).id();
        let renew_at = Some(since + RENEW_INTERVAL);
        self.leases.insert(id, HeldLease { lease, renew_at });
        self.counts.begin(&lease);
    }

    /// Waits until an exchange ends; forever if there is none.
    pub(super) async fn ended(&mut self) {
        match self.exchanges.join_next_with_id().await {
            Some(ended) => self.remove(ended),
            None => std::future::pending().await,
        }
    }

    /// Removes all exchanges that have ended.
    pub(super) fn reap(&mut self) {
        while let Some(ended) = self.exchanges.try_join_next_with_id() {
            self.remove(ended);
        }
    }

    fn remove(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                // Nothing is recorded: the lease expires, and the delivery is attempted again.
                tracing::error!(%error, "delivery attempt panicked");
                error.id()
            }
        };
        if let Some(held) = self.leases.remove(&id) {
            self.counts.end(&held.lease);
        }
    }

    /// Returns the time of the next renewal.
    pub(super) fn renewal_at(&self) -> Option<Instant> {
        self.leases.values().filter_map(|held| held.renew_at).min()
    }

    /// Schedules all leases for renewal now: they may have expired by the clock.
    pub(super) fn renew_all(&mut self, now: Instant) {
        for held in self.leases.values_mut() {
            held.renew_at = held.renew_at.map(|at| at.min(now));
        }
    }

    /// Returns the leases to renew; empty if none needs it yet.
    pub(super) fn renewals(&self, now: Instant) -> Vec<DeliveryLease> {
        if self.renewal_at().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let is_due = |at: Instant| at <= now + RENEW_EARLY_MAX;
        let due = self.leases.values();
        due.filter(|held| held.renew_at.is_some_and(is_due))
            .map(|held| held.lease)
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
        let requested: HashSet<_> = requested.iter().collect();
        let kept: HashSet<_> = kept.iter().collect();
        let mut lost = 0;
        for held in self.leases.values_mut() {
            if !requested.contains(&held.lease) {
                continue;
            }
            let is_kept = kept.contains(&held.lease);
            held.renew_at = is_kept.then_some(now + RENEW_INTERVAL);
            lost += usize::from(!is_kept);
        }
        lost
    }

    /// Cancels the remaining exchanges.
    pub(super) async fn abort(mut self) {
        self.exchanges.shutdown().await;
    }
}
