//! The end of an attempt: what an answer means for the delivery, and for its endpoint.

use std::time::Duration;

use super::exchange::Attempt;
use super::lease::DeliveryLease;
use super::queue::{EndpointQueue, EndpointState, Waiting};
use super::recipient::Recipient;
use super::record::StoredDelivery;
use super::schedule::{FAILING_MAX, retry_delay};
use crate::digest::sha256_bytes;
use crate::error::Error;
use crate::model::{DeliveryAttempt, DeliveryFailure, DeliveryStatus, DisabledReason, Timestamp};
use crate::service::KnowledgeService;
use crate::store::{Transaction, decode};

/// How much of what went wrong is kept, in characters.
const FAILURE_CHARS_MAX: usize = 160;
/// The status that says that an endpoint does not want to be told any more.
const GONE: u16 = 410;

/// What the end of an attempt led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It is delivered.
    Delivered,
    /// It will be attempted again then.
    Retry(Timestamp),
    /// It was given up, with its endpoint where a reason stands.
    Dead(Option<DisabledReason>),
    /// Somebody else claimed it meanwhile, or it is gone: nothing was changed.
    LeaseLost,
}

/// A failed attempt.
#[derive(Clone, Copy, Debug)]
struct Failure {
    is_gone: bool,
    retry_after: Option<Duration>,
}

impl Attempt {
    /// How it failed, where it did.
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

    /// As it is kept.
    fn record(&self, at: Timestamp) -> DeliveryAttempt {
        let failure = self.outcome.as_ref().err();
        DeliveryAttempt {
            at,
            duration_ms: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            status: self.outcome.as_ref().ok().map(|answer| answer.status),
            error: failure.map(|failure| DeliveryFailure {
                code: failure.code,
                message: shortened(&failure.message),
            }),
        }
    }
}

fn shortened(message: &str) -> String {
    let printable = |character: char| match character.is_control() {
        true => ' ',
        false => character,
    };
    let characters = message.chars().map(printable);
    characters.take(FAILURE_CHARS_MAX).collect()
}

impl KnowledgeService {
    /// Ends an attempt: what came of it decides what becomes of the delivery, and of its endpoint. After an error it may
    /// be called again with the same attempt: where it was recorded after all, the answer is the same.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn finish_delivery(
        &self,
        now: Timestamp,
        lease: &DeliveryLease,
        attempt: &Attempt,
    ) -> Result<Finished, Error> {
        let (state_key, delivery_key) = (&lease.endpoint_key(), &lease.delivery_key());
        let keys = &[state_key.clone(), delivery_key.clone()];
        let made = &attempt.record(lease.at);
        self.transact(|mut transaction| async move {
            let found = transaction.entries(keys).await?;
            let [Some(state), Some(delivery)] = found.as_slice() else {
                return transaction.done(Finished::LeaseLost);
            };
            let state = decode::<EndpointState>(state_key, state)?.value;
            let delivery = decode::<StoredDelivery>(delivery_key, delivery)?.value;
            let queue = EndpointQueue::of(lease.org, lease.endpoint, state);
            let finished = if lease.is_held(&delivery) {
                let ending = Ending {
                    service: self,
                    queue,
                    delivery,
                    lease,
                    now,
                };
                ending.of(&mut transaction, attempt, made).await?
            } else if delivery.epoch == lease.epoch
                && delivery.delivery.attempts.last() == Some(made)
            {
                recorded(&mut transaction, &queue, &delivery).await?
            } else {
                Finished::LeaseLost
            };
            transaction.done(finished)
        })
        .await
    }
}

/// What the end of this attempt led to, when it was recorded.
async fn recorded(
    transaction: &mut Transaction,
    queue: &EndpointQueue,
    delivery: &StoredDelivery,
) -> Result<Finished, Error> {
    Ok(match (delivery.delivery.status, delivery.due) {
        (DeliveryStatus::Delivered, _) => Finished::Delivered,
        (DeliveryStatus::Pending, Some(at)) => Finished::Retry(at),
        _ => {
            let (org, endpoint) = (queue.org, queue.endpoint);
            let place = queue.state.place;
            let recipient = Recipient::read(transaction, org, endpoint, place).await?;
            Finished::Dead(recipient.disabled())
        }
    })
}

/// An attempt that ends under its lease.
struct Ending<'e> {
    service: &'e KnowledgeService,
    queue: EndpointQueue,
    delivery: StoredDelivery,
    lease: &'e DeliveryLease,
    now: Timestamp,
}

impl Ending<'_> {
    async fn of(
        mut self,
        transaction: &mut Transaction,
        attempt: &Attempt,
        made: &DeliveryAttempt,
    ) -> Result<Finished, Error> {
        let (turn, lapses) = (self.queue.state.due, self.delivery.due);
        self.delivery.note(made.clone());
        let finished = match attempt.failure() {
            None => self.delivered(transaction).await?,
            Some(failure) => self.failed(transaction, failure).await?,
        };
        self.delivery.put(transaction, &self.queue);
        self.next_turn(transaction, turn, lapses).await?;
        if matches!(finished, Finished::Dead(Some(_))) && self.queue.state.due.is_some() {
            // The endpoint is off now: what waits for a retry is given up with it.
            self.queue.wake(self.now);
        }
        if matches!(finished, Finished::Retry(_)) || self.queue.is_changed() {
            self.queue.settle(transaction);
        }
        Ok(finished)
    }

    async fn recipient(&self, transaction: &mut Transaction) -> Result<Recipient, Error> {
        let EndpointQueue {
            org,
            endpoint,
            state,
            ..
        } = &self.queue;
        Recipient::read(transaction, *org, *endpoint, state.place).await
    }

    /// Whether the attempt went to where the endpoint is now.
    fn was_sent_to(&self, recipient: &Recipient) -> bool {
        sha256_bytes(recipient.url().as_str()) == self.lease.url
    }

    async fn delivered(&mut self, transaction: &mut Transaction) -> Result<Finished, Error> {
        self.delivery
            .end(transaction, &self.queue, DeliveryStatus::Delivered);
        self.queue.state.failing_since = None;
        if self.delivery.is_trial {
            let recipient = self.recipient(transaction).await?;
            if self.was_sent_to(&recipient) {
                self.service
                    .switch_endpoint(transaction, recipient, None, self.now);
            }
        }
        Ok(Finished::Delivered)
    }

    async fn failed(
        &mut self,
        transaction: &mut Transaction,
        failure: Failure,
    ) -> Result<Finished, Error> {
        let recipient = self.recipient(transaction).await?;
        let is_told = recipient.is_on()
            && self
                .service
                .may_hear(transaction, &recipient, self.now)
                .await?;
        if self.delivery.is_trial || !is_told {
            return Ok(self.dead(transaction, None));
        }
        let mut retry_after = None;
        if self.was_sent_to(&recipient) {
            let failing_since = self.queue.state.failing_since.get_or_insert(self.now);
            let reason = if failure.is_gone {
                Some(DisabledReason::Gone)
            } else if self.now.since(*failing_since) >= FAILING_MAX {
                Some(DisabledReason::Failing)
            } else {
                None
            };
            if reason.is_some() {
                self.service
                    .switch_endpoint(transaction, recipient, reason, self.now);
                return Ok(self.dead(transaction, reason));
            }
            retry_after = failure.retry_after;
        }
        self.delivery.tries += 1;
        let tries = self.delivery.tries;
        match retry_delay(tries, retry_after, self.service.env()) {
            Some(delay) => {
                let at = self.now.plus(delay);
                self.delivery.enqueue(transaction, &mut self.queue, at);
                Ok(Finished::Retry(at))
            }
            None => Ok(self.dead(transaction, None)),
        }
    }

    fn dead(&mut self, transaction: &mut Transaction, reason: Option<DisabledReason>) -> Finished {
        self.delivery
            .end(transaction, &self.queue, DeliveryStatus::Dead);
        if reason.is_some() {
            self.queue.state.failing_since = None;
        }
        Finished::Dead(reason)
    }

    /// Gives the endpoint the turn that what it waits for now needs. One that is earlier stays: it was there before others
    /// came.
    async fn next_turn(
        &mut self,
        transaction: &Transaction,
        turn: Option<Timestamp>,
        lapses: Option<Timestamp>,
    ) -> Result<(), Error> {
        let event = self.lease.event;
        let own = lapses.map(|at| Waiting { at, event });
        let others = self.queue.head(transaction, 2).await?;
        let first = others.into_iter().find(|other| Some(*other) != own);
        let first = first.map(|other| other.at).into_iter();
        let next = first.chain(self.delivery.due).min();
        // A turn at the lapse of this very lease has no other reason.
        let earlier = turn.filter(|turn| Some(*turn) != lapses);
        let earlier = earlier.filter(|turn| next.is_some_and(|next| *turn < next.max(self.now)));
        match earlier {
            Some(turn) => self.queue.state.due = Some(turn),
            None => self.queue.wait_until(next, self.now),
        }
        Ok(())
    }
}
