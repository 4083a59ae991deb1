//! Claims from endpoints whose URL is unconfirmed, or has been confirmed in the meantime.

use std::time::Duration;

use super::QueueClaim;
use crate::error::Error;
use crate::keys;
use crate::model::{ConfirmationReason, EndpointId, OrgId, Timestamp, WebhookUrl};
use crate::service::deliveries::dispatch::retry::{CORRUPT_RETRY_DELAY, RETRY_DELAY_MAX};
use crate::service::deliveries::queue::{EndpointState, NextPing, UrlConfirmation};
use crate::service::endpoints::EndpointRecord;
use crate::store::{Entry, Transaction, decode};

/// Minimum and maximum delay until an endpoint looks again whether its URL is confirmed.
///
/// It looks again after a part of the time that it has waited, so that many waiting endpoints cost
/// little. The commit that confirms the URL, or an event, makes it look earlier.
const LOOK_DELAY_MIN: Duration = Duration::from_secs(5);
const LOOK_DELAY_MAX: Duration = Duration::from_secs(5 * 60);
/// Divisor of the time that an endpoint has waited, after which it looks again.
const LOOKS_WHILE_WAITING: u32 = 4;
/// Time after which another endpoint sends a ping in place of one that is overdue.
const OVERDUE_MAX: Duration = CORRUPT_RETRY_DELAY.saturating_mul(2);

impl QueueClaim<'_> {
    /// Returns the time until which the endpoint waits, if another one asks its URL.
    ///
    /// An endpoint that was deleted, deactivated or moved no longer asks, nor does one whose ping
    /// is long overdue, because its data are corrupt.
    pub(super) async fn waits_for_another(&mut self) -> Result<Option<Timestamp>, Error> {
        let (org, now) = (self.claim.org, self.claim.now);
        let next = self.next_ping();
        let next = next.filter(|next| {
            let is_overdue = now.since(next.at) > OVERDUE_MAX;
            // The clock may have been set back since.
            let is_ahead = next.at.since(now) > RETRY_DELAY_MAX;
            next.by != self.claim.endpoint && !is_overdue && !is_ahead
        });
        let Some(next) = next else {
            return Ok(None);
        };
        if !is_asking(self.transaction, org, next.by, self.record.url()).await? {
            return Ok(None);
        }
        if let Some(mut confirmation) = self.confirmation.take()
            && confirmation.note_waiting(self.claim.endpoint)
        {
            self.write_next_ping(Some(confirmation), next);
        }
        let since = self.queue.state.failing_since.unwrap_or(now);
        let delay = now.since(since) / LOOKS_WHILE_WAITING;
        let delay = delay.clamp(LOOK_DELAY_MIN, LOOK_DELAY_MAX);
        Ok(Some(now.plus(delay)))
    }

    /// Writes when the endpoint asks its URL, unless another one asks it.
    pub(super) fn note_next_ping(&mut self, at: Timestamp, reason: Option<ConfirmationReason>) {
        let (by, now) = (self.claim.endpoint, self.claim.now);
        let is_own = |next: NextPing| next.by == by || next.at < now;
        if self.is_queue_empty || self.next_ping().is_none_or(is_own) {
            let confirmation = self.confirmation.take();
            self.write_next_ping(confirmation, NextPing { by, at, reason });
        }
    }

    fn next_ping(&self) -> Option<NextPing> {
        let confirmation = self.confirmation.as_ref();
        confirmation.and_then(UrlConfirmation::next_ping)
    }

    fn write_next_ping(&mut self, found: Option<UrlConfirmation>, next: NextPing) {
        let (org, now) = (self.claim.org, self.claim.now);
        let of = (org, self.record.url());
        self.service
            .note_next_ping(self.transaction, of, found, next, now);
    }
}

/// Returns true if an endpoint still asks a URL for its confirmation: while it is active and has
/// that URL, it is due for its next ping.
async fn is_asking(
    transaction: &mut Transaction,
    org: OrgId,
    endpoint: EndpointId,
    url: &WebhookUrl,
) -> Result<bool, Error> {
    let key = keys::endpoint(org, endpoint);
    let state = transaction.get::<Entry>(&key).await?;
    // Corrupt data hold up no other endpoint.
    let state = state.and_then(|state| decode::<EndpointState>(&key, &state).ok());
    let Some(state) = state.filter(|state| state.value.due.is_some()) else {
        return Ok(false);
    };
    let parent = state.value.parent;
    let key = EndpointRecord::key(org, endpoint, parent);
    let record = transaction.get::<Entry>(&key).await?;
    let record = record.and_then(|record| EndpointRecord::decode(parent, &key, &record).ok());
    Ok(record.is_some_and(|record| record.is_active() && record.url() == url))
}
