//! Completion of attempts, with its effects on the delivery and its endpoint.

use std::time::Duration;

use super::delivery_lease::DeliveryLease;
use super::exchange::Attempt;
use super::retry::{FAILING_MAX, retry_delay};
use crate::digest::sha256_bytes;
use crate::error::Error;
use crate::model::{
    ConfirmationReason, DeliveryAttempt, DeliveryFailure, DeliveryFailureCode, DeliveryStatus,
    DisabledReason, Timestamp,
};
use crate::service::deliveries::queue::{
    EndpointQueue, EndpointState, NextPing, StoredDelivery, UrlConfirmation,
};
use crate::service::endpoints::EndpointRecord;
use crate::service::operation::Prefetch;
use crate::service::{Dispatcher, KnowledgeService};
use crate::store::{Entry, Transaction, decode};

/// Number of failed attempts of a ping after which an unconfirmed endpoint is disabled.
///
/// The attempts take about two and a half hours.
const PING_ATTEMPTS_MAX: u32 = 5;
/// Maximum length of a stored failure message, in characters.
const FAILURE_CHARS_MAX: usize = 160;
/// Message about a host that the sender did not connect to.
const UNREACHABLE: &str = "the host is unknown, or deliveries may not be sent to its address";
/// Status of an endpoint that wants no further deliveries.
const GONE: u16 = 410;

/// Outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// Delivered.
    Delivered,
    /// Failed, to be retried at this time.
    Retry(Timestamp),
    /// Dead-lettered. The reason is set if the endpoint was disabled too.
    Dead(Option<DisabledReason>),
    /// The lease was lost to another claim, or the delivery was deleted. Nothing was changed.
    LeaseLost,
}

/// A failed attempt.
#[derive(Clone, Copy, Debug)]
struct Failure {
    is_gone: bool,
    retry_after: Option<Duration>,
}

impl Attempt {
    /// Returns the failure, if the attempt failed.
    fn failure(&self) -> Option<Failure> {
        match &self.outcome {
            Ok(answer) if (200..300).contains(&answer.status) => None,
            Ok(answer) => Some(Failure {
                is_gone: answer.status == GONE,
                retry_after: answer.retry_after,
            }),
            Err(_) => Some(Failure {
                is_gone: false,
                retry_after: None,
            }),
        }
    }

    /// Returns true if there was a response with a status of 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failure().is_none()
    }

    /// Returns the attempt as it is stored.
    pub(super) fn record(&self, at: Timestamp) -> DeliveryAttempt {
        let failure = self.outcome.as_ref().err();
        DeliveryAttempt {
            at,
            duration_ms: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            status: self.outcome.as_ref().ok().map(|answer| answer.status),
            error: failure.map(shown),
        }
    }
}

/// Returns a failure as its endpoint's owner sees it.
///
/// A name that does not resolve and one that resolves to a refused address look the same, because
/// the difference would show which names a private network has.
fn shown(failure: &DeliveryFailure) -> DeliveryFailure {
    use DeliveryFailureCode::{AddressRefused, DnsFailed};
    let (code, message) = match failure.code {
        AddressRefused | DnsFailed => (AddressRefused, UNREACHABLE),
        code => (code, failure.message.as_str()),
    };
    let message = shortened(message);
    DeliveryFailure { code, message }
}

fn shortened(message: &str) -> String {
    let printable = |character: char| {
        if character.is_control() {
            ' '
        } else {
            character
        }
    };
    let characters = message.chars().map(printable);
    characters.take(FAILURE_CHARS_MAX).collect()
}

/// # Results of attempts
impl Dispatcher<'_> {
    /// Completes an attempt and updates the delivery and its endpoint.
    ///
    /// It is idempotent: after an error, call it again with the same attempt. If that was recorded
    /// after all, the outcome is the same.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn finish(
        self,
        now: Timestamp,
        lease: &DeliveryLease,
        attempt: &Attempt,
    ) -> Result<AttemptOutcome, Error> {
        let (state_key, delivery_key) = (&lease.endpoint_key(), &lease.delivery_key());
        let keys = &[state_key.clone(), delivery_key.clone()];
        let recorded = &attempt.record(lease.at);
        self.service
            .transact(|mut transaction| async move {
                let found = transaction.get_many::<Entry>(keys).await?;
                let [Some(state), Some(delivery)] = found.as_slice() else {
                    return Ok(transaction.done(AttemptOutcome::LeaseLost));
                };
                let state = decode::<EndpointState>(state_key, state)?.value;
                let delivery = decode::<StoredDelivery>(delivery_key, delivery)?.value;
                let queue = EndpointQueue::of(lease.org, lease.endpoint, state);
                let outcome = if let Some(lease_end) = lease.held_until(&queue, &delivery) {
                    let completion = AttemptCompletion {
                        service: self.service,
                        queue,
                        delivery,
                        lease,
                        lease_end,
                        now,
                    };
                    completion
                        .apply(&mut transaction, attempt, recorded)
                        .await?
                } else if delivery.epoch == lease.epoch
                    && delivery.delivery.attempts.last() == Some(recorded)
                {
                    recorded_outcome(&mut transaction, &queue, &delivery).await?
                } else {
                    AttemptOutcome::LeaseLost
                };
                Ok(transaction.done(outcome))
            })
            .await
    }
}

/// Returns the outcome of an attempt that is already recorded.
async fn recorded_outcome(
    transaction: &mut Transaction,
    queue: &EndpointQueue,
    delivery: &StoredDelivery,
) -> Result<AttemptOutcome, Error> {
    Ok(match (delivery.delivery.status, delivery.due) {
        (DeliveryStatus::Delivered, _) => AttemptOutcome::Delivered,
        (DeliveryStatus::Pending, Some(at)) => AttemptOutcome::Retry(at),
        _ => {
            let (org, endpoint) = (queue.org, queue.endpoint);
            let parent = queue.state.parent;
            let record = EndpointRecord::read(transaction, org, endpoint, parent).await?;
            AttemptOutcome::Dead(record.disabled())
        }
    })
}

/// Completion of an attempt whose lease is held.
struct AttemptCompletion<'e> {
    service: &'e KnowledgeService,
    queue: EndpointQueue,
    delivery: StoredDelivery,
    lease: &'e DeliveryLease,
    /// Expiry of the lease.
    lease_end: Timestamp,
    now: Timestamp,
}

impl AttemptCompletion<'_> {
    async fn apply(
        mut self,
        transaction: &mut Transaction,
        attempt: &Attempt,
        recorded: &DeliveryAttempt,
    ) -> Result<AttemptOutcome, Error> {
        let due = self.queue.state.due;
        self.queue.forget_lease(self.lease.event);
        self.delivery
            .record_leased(self.lease.epoch, recorded.clone());
        let outcome = match attempt.failure() {
            None => self.delivered(transaction).await?,
            Some(failure) => self.failed(transaction, failure).await?,
        };
        self.delivery.put(transaction, &self.queue);
        self.reschedule(transaction, due).await?;
        if matches!(outcome, AttemptOutcome::Dead(Some(_))) && self.queue.state.due.is_some() {
            // The endpoint is disabled now, so its pending retries are dead-lettered too.
            self.queue.schedule_by(self.now);
        }
        // The lease of a delivery that stays pending would accept the attempt again.
        if matches!(outcome, AttemptOutcome::Retry(_)) || self.queue.is_changed() {
            self.queue.save(transaction);
        }
        Ok(outcome)
    }

    async fn record(&self, transaction: &mut Transaction) -> Result<EndpointRecord, Error> {
        let EndpointQueue {
            org,
            endpoint,
            state,
            ..
        } = &self.queue;
        EndpointRecord::read(transaction, *org, *endpoint, state.parent).await
    }

    /// Returns true for a ping that confirms the endpoint if it succeeds.
    fn asks_for_consent(&self) -> bool {
        self.queue.state.pings.contains(&self.lease.event)
    }

    /// Returns true if the attempt was sent to the current URL of the endpoint.
    fn was_sent_to(&self, record: &EndpointRecord) -> bool {
        sha256_bytes(record.url().as_str()) == self.lease.url
    }

    async fn delivered(&mut self, transaction: &mut Transaction) -> Result<AttemptOutcome, Error> {
        self.delivery
            .end(transaction, &self.queue, DeliveryStatus::Delivered);
        self.queue.state.failing_since = None;
        if self.delivery.is_ping || self.asks_for_consent() {
            let record = self.record(transaction).await?;
            if self.was_sent_to(&record) && !record.is_disabled_by_owner() {
                self.queue.state.pings.clear();
                let record = self
                    .service
                    .set_disabled(transaction, record, None, self.now);
                let of = (record.org(), record.url());
                self.service
                    .confirm_url(transaction, of, self.lease.endpoint, self.now)
                    .await?;
            }
        }
        Ok(AttemptOutcome::Delivered)
    }

    async fn failed(
        &mut self,
        transaction: &mut Transaction,
        failure: Failure,
    ) -> Result<AttemptOutcome, Error> {
        let record = self.record(transaction).await?;
        let is_deliverable = record.is_active()
            && self
                .service
                .is_authorized(transaction, &record, Prefetch::none(), self.now)
                .await?;
        if self.delivery.is_ping || !is_deliverable {
            return Ok(self.dead(transaction, None));
        }
        let mut retry_after = None;
        if self.was_sent_to(&record) {
            let failing_since = self.queue.state.failing_since.get_or_insert(self.now);
            let is_failing = self.now.since(*failing_since) >= FAILING_MAX;
            let is_unconfirmed =
                self.asks_for_consent() && self.delivery.attempt_count + 1 >= PING_ATTEMPTS_MAX;
            let reason = if failure.is_gone {
                Some(DisabledReason::Gone)
            } else if is_failing || is_unconfirmed {
                Some(DisabledReason::Failing)
            } else {
                None
            };
            if reason.is_some() {
                self.service
                    .set_disabled(transaction, record, reason, self.now);
                return Ok(self.dead(transaction, reason));
            }
            retry_after = failure.retry_after;
        }
        self.delivery.attempt_count += 1;
        let attempt_count = self.delivery.attempt_count;
        match retry_delay(attempt_count, retry_after, self.service.env()) {
            Some(delay) => {
                let at = self.now.plus(delay);
                if self.asks_for_consent() && self.was_sent_to(&record) {
                    self.note_retry(transaction, &record, at).await?;
                }
                self.delivery.enqueue(transaction, &mut self.queue, at);
                Ok(AttemptOutcome::Retry(at))
            }
            None => Ok(self.dead(transaction, None)),
        }
    }

    /// Notes when the URL is asked again, unless another endpoint asks it, or has confirmed it.
    async fn note_retry(
        &self,
        transaction: &mut Transaction,
        record: &EndpointRecord,
        at: Timestamp,
    ) -> Result<(), Error> {
        let (org, url, by) = (record.org(), record.url(), record.endpoint());
        let found = UrlConfirmation::read(transaction, org, url, self.now).await?;
        let is_own = |found: &UrlConfirmation| found.next_ping().is_some_and(|next| next.by == by);
        if found.as_ref().is_none_or(is_own) {
            let reason = Some(ConfirmationReason::NoAnswer);
            let next = NextPing { by, at, reason };
            self.service
                .note_next_ping(transaction, (org, url), found, next, self.now);
        }
        Ok(())
    }

    fn dead(
        &mut self,
        transaction: &mut Transaction,
        reason: Option<DisabledReason>,
    ) -> AttemptOutcome {
        self.delivery
            .end(transaction, &self.queue, DeliveryStatus::Dead);
        if reason.is_some() {
            self.queue.state.failing_since = None;
        }
        AttemptOutcome::Dead(reason)
    }

    /// Schedules the endpoint for the deliveries that it has pending now.
    ///
    /// An earlier due time is kept, so that the endpoint does not fall behind others.
    async fn reschedule(
        &mut self,
        transaction: &mut Transaction,
        due: Option<Timestamp>,
    ) -> Result<(), Error> {
        let event = self.lease.event;
        let own = |queued| queued == event;
        let first = self.queue.earliest(transaction, 1, own).await?;
        let next = first.into_iter().chain(self.delivery.due).min();
        // A due time at the expiry of this lease has no other reason.
        let earlier = due
            .filter(|due| *due != self.lease_end)
            .filter(|due| next.is_some_and(|next| *due < next.max(self.now)));
        match earlier {
            Some(due) => self.queue.state.due = Some(due),
            None => self.queue.schedule(next, self.now),
        }
        Ok(())
    }
}
