//! One round of everything, for hosts that have no process of their own for it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;

use super::claim::ClaimedDelivery;
use super::exchange::{DELIVERY_TIMEOUT, DeliverySender};
use super::finish::Finished;
use super::lease::DELIVERY_LEASE;
use crate::error::Error;
use crate::model::Timestamp;
use crate::service::KnowledgeService;

/// How many exchanges are under way at once.
const AT_ONCE_MAX: usize = 64;
/// How many times one call expands, claims and sends.
const ROUNDS_MAX: usize = 16;
/// How long the leases hold: nobody renews them meanwhile.
const LEASE: Duration = DELIVERY_TIMEOUT.saturating_add(DELIVERY_LEASE);

/// What one round of [`KnowledgeService::dispatch`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatched {
    /// Attempts that were made.
    pub attempts: u64,
    /// Those that succeeded.
    pub delivered: u64,
    /// Whether there is more to do now: call again.
    pub has_more: bool,
    /// When something is due next, where nothing is now.
    pub next_due: Option<Timestamp>,
}

impl KnowledgeService {
    /// One whole round: expands what is in the outbox, and makes what is due, with this sender. For hosts without a
    /// process of their own to do so all the time.
    ///
    /// The sender has to keep to [`DELIVERY_TIMEOUT`]: the leases hold for little longer.
    ///
    /// # Errors
    /// Those of the store; what was done before stays done.
    pub async fn dispatch(
        &self,
        sender: &dyn DeliverySender,
        now: Timestamp,
    ) -> Result<Dispatched, Error> {
        let mut done = Dispatched::default();
        for _ in 0..ROUNDS_MAX {
            let now = now.max(self.env().now());
            let expanded = self.expand_events(now).await?;
            let nobody = BTreeMap::new();
            let claimed = self.claim_for(now, AT_ONCE_MAX, &nobody, LEASE).await?;
            let exchanges = claimed
                .deliveries
                .iter()
                .map(|delivery| self.exchange(sender, delivery, now));
            let mut failed = None;
            for finished in join_all(exchanges).await {
                done.attempts += 1;
                match finished {
                    Ok(Finished::Delivered) => done.delivered += 1,
                    Ok(_) => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
            done.has_more = expanded.has_more || claimed.has_more;
            done.next_due = claimed.next_due;
            if !done.has_more && claimed.deliveries.is_empty() {
                break;
            }
            // The ends of exchanges may have given their endpoints other turns.
            done.has_more = true;
        }
        if done.has_more {
            done.next_due = None;
        }
        Ok(done)
    }

    async fn exchange(
        &self,
        sender: &dyn DeliverySender,
        delivery: &ClaimedDelivery,
        now: Timestamp,
    ) -> Result<Finished, Error> {
        let attempt = sender.send(&delivery.request).await;
        let now = now.max(self.env().now());
        self.finish_delivery(now, &delivery.lease, &attempt).await
    }
}
