//! The exchanges that are under way, with the leases that they are made under.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use knowledge_core::service::{DELIVERY_LEASE, DeliveryLease, InFlight as Counted};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

/// How old a lease becomes before it is renewed: most exchanges end sooner.
const RENEW_INTERVAL: Duration = DELIVERY_LEASE.checked_div(2).expect("2 is not 0");
/// How much younger a lease may be that is renewed together with one that has to be.
const RENEW_EARLIER: Duration = RENEW_INTERVAL.checked_div(2).expect("2 is not 0");

/// The exchanges under way.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    exchanges: JoinSet<()>,
    leases: HashMap<Id, Held>,
    counted: Counted,
}

/// The lease of one exchange.
#[derive(Debug)]
struct Held {
    lease: DeliveryLease,
    /// When it has to be renewed; `None` once it is lost. The exchange goes on: its receiver may have it already.
    renew_at: Option<Instant>,
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.exchanges.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// How many there are with each endpoint, and for each organisation.
    pub(super) fn counted(&self) -> &Counted {
        &self.counted
    }

    /// Begins an exchange under a lease that holds since then.
    pub(super) fn begin(
        &mut self,
        lease: DeliveryLease,
        since: Instant,
        exchange: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = self.exchanges.spawn(exchange).id();
        let renew_at = Some(since + RENEW_INTERVAL);
        self.leases.insert(id, Held { lease, renew_at });
        self.counted.begin(&lease);
    }

    /// Waits until one ends, and for ever where there is none.
    pub(super) async fn ended(&mut self) {
        match self.exchanges.join_next_with_id().await {
            Some(ended) => self.forget(ended),
            None => std::future::pending().await,
        }
    }

    /// Forgets all that have ended.
    pub(super) fn forget_ended(&mut self) {
        while let Some(ended) = self.exchanges.try_join_next_with_id() {
            self.forget(ended);
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                // Nothing is recorded: the lease lapses, and the delivery is attempted again.
                tracing::error!(%error, "an exchange with an endpoint panicked");
                error.id()
            }
        };
        if let Some(held) = self.leases.remove(&id) {
            self.counted.end(&held.lease);
        }
    }

    /// When the next lease has to be renewed.
    pub(super) fn renewal_at(&self) -> Option<Instant> {
        self.leases.values().filter_map(|held| held.renew_at).min()
    }

    /// Has all leases renewed now: they may have lapsed by the clock that they are kept by.
    pub(super) fn renew_all(&mut self, now: Instant) {
        for held in self.leases.values_mut() {
            held.renew_at = held.renew_at.map(|at| at.min(now));
        }
    }

    /// The leases to renew, where one has to be.
    pub(super) fn renewals(&self, now: Instant) -> Vec<DeliveryLease> {
        if self.renewal_at().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let is_due = |at: Instant| at <= now + RENEW_EARLIER;
        let due = self.leases.values();
        due.filter(|held| held.renew_at.is_some_and(is_due))
            .map(|held| held.lease)
            .collect()
    }

    /// Notes which of the leases that were to be renewed still hold, since `now`. Says how many were lost.
    pub(super) fn renewed(
        &mut self,
        asked: &[DeliveryLease],
        kept: &[DeliveryLease],
        now: Instant,
    ) -> usize {
        let asked: HashSet<_> = asked.iter().collect();
        let kept: HashSet<_> = kept.iter().collect();
        let mut lost = 0;
        for held in self.leases.values_mut() {
            if !asked.contains(&held.lease) {
                continue;
            }
            let is_kept = kept.contains(&held.lease);
            held.renew_at = is_kept.then_some(now + RENEW_INTERVAL);
            lost += usize::from(!is_kept);
        }
        lost
    }

    /// Breaks off all that are left.
    pub(super) async fn abort(mut self) {
        self.exchanges.shutdown().await;
    }
}
