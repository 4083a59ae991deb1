//! The turn of an endpoint: what of its queue is claimed, what is given up, and when the next turn is.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::claim::{ClaimedDelivery, DAMAGE_POSTPONED, NEXT_TURN};
use super::exchange::{DELIVERY_TIMEOUT, DeliveryRequest};
use super::history::AnnouncedEvent;
use super::lease::{DELIVERY_LEASE, DeliveryLease};
use super::queue::{EndpointQueue, Waiting};
use super::recipient::Recipient;
use super::record::StoredDelivery;
use super::schedule::RETRY_DELAY_MAX;
use crate::digest::sha256_bytes;
use crate::error::Error;
use crate::model::{
    DeliveryAttempt, DeliveryFailure, DeliveryFailureCode, DeliveryStatus, EndpointId, EventId,
    EventType, OrgId, Timestamp,
};
use crate::service::{Event, KnowledgeService, SigningSecret};
use crate::keys;
use crate::store::{Entry, Key, StoreError, Transaction, decode};

/// How many deliveries of an endpoint that is off are given up in one turn.
const GIVEN_UP_PER_TURN: usize = 200;
/// A lease that lapses later than this was made before the clock was set back: it counts as lapsed.
const LEASE_AHEAD_MAX: Duration =
    Duration::from_secs(2 * (DELIVERY_LEASE.as_secs() + DELIVERY_TIMEOUT.as_secs()));

/// The turn of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) org: OrgId,
    pub(super) endpoint: EndpointId,
    /// Where its mark stands.
    pub(super) at: Timestamp,
    pub(super) now: Timestamp,
    /// How many exchanges with it the caller has under way.
    pub(super) in_flight: usize,
    /// How many more it may get.
    pub(super) room: usize,
    /// How long leases hold.
    pub(super) lease: Duration,
}

/// What came of a turn.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) deliveries: Vec<ClaimedDelivery>,
    pub(super) given_up: u64,
    pub(super) next_due: Option<Timestamp>,
}

/// The body of a request: the same bytes for each attempt.
#[derive(Serialize)]
struct Body<'e> {
    #[serde(rename = "type")]
    event_type: EventType,
    timestamp: Timestamp,
    data: &'e serde_json::Value,
}

impl Turn {
    pub(super) fn mark(&self) -> Key {
        keys::endpoint_due(self.at, self.org, self.endpoint)
    }

    fn until(&self) -> Timestamp {
        self.now.plus(self.lease)
    }

    /// What a claim reads: the record of the endpoint, and of each candidate the delivery and the event.
    fn keys(&self, queue: &EndpointQueue, candidates: &[Waiting]) -> Vec<Key> {
        let mut keys = vec![Recipient::key(self.org, self.endpoint, queue.state.place)];
        for waiting in candidates {
            keys.push(keys::delivery(self.org, self.endpoint, waiting.event));
            keys.push(keys::event(self.org, waiting.event));
        }
        keys
    }
}

impl KnowledgeService {
    /// Takes what is due from a queue, and gives the endpoint its next turn.
    pub(super) async fn take_from(
        &self,
        transaction: &mut Transaction,
        mut queue: EndpointQueue,
        turn: Turn,
    ) -> Result<Taken, Error> {
        let is_failing = queue.state.failing_since.is_some();
        if is_failing && turn.in_flight > 0 {
            // Its turn comes when the one that is under way has ended, or its lease lapses.
            return Ok(put_off(transaction, queue, turn.now.plus(DELIVERY_LEASE)));
        }
        let room = if is_failing { 1 } else { turn.room };
        let head = queue.head(transaction, room + 1).await?;
        let candidates = candidates(&head[..head.len().min(room)], turn.now);
        let keys = turn.keys(&queue, &candidates);
        let found = transaction.entries(&keys).await?;
        let mut found = keys.iter().zip(found);
        let (key, record) = found.next().expect("the first key is the record's");
        let record = record.ok_or_else(|| Error::internal(format!("{key} is missing")))?;
        let recipient = Recipient::decode(queue.state.place, key, &record)?;
        let may_hear = self.may_hear(transaction, &recipient, turn.now).await?;

        let is_on = recipient.is_on() && may_hear;
        let may_be_tried = may_hear && !recipient.is_paused();
        let mut work = Work {
            secrets: match candidates.is_empty() || !(is_on || may_be_tried) {
                true => Vec::new(),
                false => self.secrets(&recipient, turn.now)?,
            },
            recipient,
            turn,
            taken: Taken::default(),
            next: None,
        };
        let found: Vec<_> = found.collect();
        let mut dealt_with = Vec::with_capacity(candidates.len());
        for (waiting, found) in candidates.iter().zip(found.chunks(2)) {
            let [(delivery_key, delivery), (event_key, event)] = found else {
                continue;
            };
            let delivery = Found(delivery_key, delivery.as_ref());
            let event = Found(event_key, event.as_ref());
            let is_wanted =
                |delivery: &StoredDelivery| is_on || (delivery.is_trial && may_be_tried);
            if work.take(transaction, &queue, *waiting, delivery, event, is_wanted) {
                dealt_with.push(*waiting);
            }
        }
        let left = if is_on {
            head.into_iter()
                .find(|waiting| !dealt_with.contains(waiting))
        } else {
            give_up(transaction, &queue, &mut work, &dealt_with, may_be_tried).await?
        };
        work.wait_for(left.map(|left| left.at));
        let earliest = turn.now.plus(NEXT_TURN);
        let is_tried = is_failing && !work.taken.deliveries.is_empty();
        let not_before = if is_tried { turn.until() } else { earliest };
        queue.wait_until(work.next, not_before);
        work.taken.next_due = queue.state.due;
        queue.settle(transaction);
        Ok(work.taken)
    }

    /// What is signed with. A secret that cannot be opened is left out, unless it is the only one.
    fn secrets(&self, recipient: &Recipient, now: Timestamp) -> Result<Vec<SigningSecret>, Error> {
        let (mut secrets, mut damaged) = (Vec::new(), None);
        for sealed in recipient.secrets_at(now) {
            match self
                .inner
                .sealer
                .signing_secret(sealed, recipient.endpoint().0)
            {
                Ok(secret) => secrets.push(secret),
                Err(error) => {
                    tracing::error!(endpoint = %recipient.endpoint(), %error, "a secret cannot be opened");
                    damaged = Some(error);
                }
            }
        }
        match damaged {
            Some(error) if secrets.is_empty() => Err(error),
            _ => Ok(secrets),
        }
    }
}

/// Gives an endpoint another turn, and nothing else.
pub(super) fn put_off(
    transaction: &mut Transaction,
    mut queue: EndpointQueue,
    to: Timestamp,
) -> Taken {
    queue.state.due = Some(to);
    queue.state.not_before = Some(to);
    queue.settle(transaction);
    Taken {
        next_due: Some(to),
        ..Taken::default()
    }
}

/// What may be due at the head of a queue: what is by its time, and what stands further ahead than a lease ever should, as
/// the clock may have been set back since.
fn candidates(head: &[Waiting], now: Timestamp) -> Vec<Waiting> {
    let mut found: Vec<Waiting> = Vec::with_capacity(head.len());
    for waiting in head {
        let is_candidate = waiting.at <= now || waiting.at > now.plus(LEASE_AHEAD_MAX);
        // Damage alone has a delivery wait twice.
        let is_new = found.iter().all(|other| other.event != waiting.event);
        if is_candidate && is_new {
            found.push(*waiting);
        }
    }
    found
}

/// An entry that was read, or found missing.
#[derive(Clone, Copy)]
struct Found<'e>(&'e Key, Option<&'e Entry>);

/// What a turn does.
struct Work {
    turn: Turn,
    recipient: Recipient,
    secrets: Vec<SigningSecret>,
    taken: Taken,
    /// The earliest of what the endpoint waits for afterwards.
    next: Option<Timestamp>,
}

impl Work {
    fn wait_for(&mut self, at: Option<Timestamp>) {
        let earlier = |at: Timestamp| self.next.map_or(at, |next| next.min(at));
        self.next = at.map(earlier).or(self.next);
    }

    /// Claims what waits there, if it is wanted. Whether its place in the queue is dealt with.
    fn take(
        &mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        waiting: Waiting,
        delivery: Found<'_>,
        event: Found<'_>,
        is_wanted: impl Fn(&StoredDelivery) -> bool,
    ) -> bool {
        let now = self.turn.now;
        let Found(key, entry) = delivery;
        let mut delivery = match entry.map(|entry| decode::<StoredDelivery>(key, entry)) {
            Some(Ok(delivery)) => delivery.value,
            Some(Err(error)) => {
                self.put_aside(transaction, queue, waiting, &error);
                return true;
            }
            None => {
                transaction.delete(queue.place(waiting));
                return true;
            }
        };
        if !delivery.is_pending() || is_elsewhere(&delivery, waiting) {
            transaction.delete(queue.place(waiting));
            self.wait_for(delivery.due);
            return true;
        }
        let ahead = waiting.at.since(now);
        let is_due = ahead.is_zero() || delivery.is_leased || ahead > RETRY_DELAY_MAX;
        if !is_due || !is_wanted(&delivery) {
            return false;
        }
        delivery.due = Some(waiting.at);
        let Found(key, entry) = event;
        match entry.map(|entry| decode::<AnnouncedEvent>(key, entry)) {
            Some(Ok(announced)) => self.claim(transaction, queue, delivery, &announced.value.event),
            unreadable => {
                let error = unreadable.and_then(Result::err);
                tracing::error!(%key, ?error, "an event cannot be read: its delivery is given up");
                let code = DeliveryFailureCode::EventUnreadable;
                let message = "the event cannot be read any more";
                abandon(transaction, queue, delivery, (code, message), now);
                self.taken.given_up += 1;
            }
        }
        true
    }

    /// Has what cannot be read wait for whoever repairs it: it is not for this program to write over it.
    fn put_aside(
        &mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        waiting: Waiting,
        error: &StoreError,
    ) {
        let now = self.turn.now;
        if waiting.at > now && waiting.at.since(now) <= RETRY_DELAY_MAX {
            self.wait_for(Some(waiting.at));
            return;
        }
        let event = waiting.event;
        tracing::error!(endpoint = %queue.endpoint, %event, %error, "a delivery cannot be read");
        let at = now.plus(DAMAGE_POSTPONED);
        transaction.delete(queue.place(waiting));
        transaction.put(queue.place(Waiting { at, ..waiting }), &());
        self.wait_for(Some(at));
    }

    fn claim(
        &mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        mut delivery: StoredDelivery,
        event: &Event,
    ) {
        let (turn, url) = (self.turn, self.recipient.url().clone());
        let body = Body {
            event_type: event.event_type,
            timestamp: event.timestamp,
            data: &event.data,
        };
        let body = serde_json::to_vec(&body);
        let body = body.expect("records serialise: string keys, no fallible implementations");
        let id = delivery.delivery.id;
        let signatures: Vec<_> = self
            .secrets
            .iter()
            .map(|secret| secret.sign(&id.to_string(), turn.now, &body))
            .collect();
        delivery.lease(transaction, queue, turn.until());
        delivery.put(transaction, queue);
        self.wait_for(delivery.due);
        self.taken.deliveries.push(ClaimedDelivery {
            lease: DeliveryLease {
                org: turn.org,
                endpoint: turn.endpoint,
                event: delivery.delivery.event_id,
                epoch: delivery.epoch,
                at: turn.now,
                url: sha256_bytes(url.as_str().as_bytes()),
            },
            event_type: event.event_type,
            request: DeliveryRequest {
                url,
                id,
                timestamp: turn.now,
                signature: signatures.join(" "),
                body: Bytes::from(body),
            },
        });
    }
}

/// Gives up what an endpoint waits for that is off, but for attempts under way and for trials that may be made. The
/// first that is left.
async fn give_up(
    transaction: &mut Transaction,
    queue: &EndpointQueue,
    work: &mut Work,
    dealt_with: &[Waiting],
    may_be_tried: bool,
) -> Result<Option<Waiting>, Error> {
    let now = work.turn.now;
    let waiting = queue.head(transaction, GIVEN_UP_PER_TURN + 1).await?;
    let has_more = waiting.len() > GIVEN_UP_PER_TURN;
    // Damage alone has a delivery wait twice: the other place has its turn another time.
    let mut known: BTreeSet<EventId> = dealt_with.iter().map(|waiting| waiting.event).collect();
    let waiting: Vec<_> = waiting
        .into_iter()
        .take(GIVEN_UP_PER_TURN)
        .filter(|waiting| !dealt_with.contains(waiting))
        .collect();
    let key = |waiting: &Waiting| keys::delivery(queue.org, queue.endpoint, waiting.event);
    let keys: Vec<Key> = waiting.iter().map(key).collect();
    let found = transaction.entries(&keys).await?;
    let mut left = None;
    for ((waiting, key), entry) in waiting.into_iter().zip(&keys).zip(found) {
        if !known.insert(waiting.event) {
            left = left.or(Some(waiting));
            continue;
        }
        let delivery = match entry.map(|entry| decode::<StoredDelivery>(key, &entry)) {
            Some(Ok(delivery)) => delivery.value,
            Some(Err(error)) => {
                work.put_aside(transaction, queue, waiting, &error);
                continue;
            }
            None => {
                transaction.delete(queue.place(waiting));
                continue;
            }
        };
        if !delivery.is_pending() || is_elsewhere(&delivery, waiting) {
            transaction.delete(queue.place(waiting));
            work.wait_for(delivery.due);
            continue;
        }
        let ahead = waiting.at.since(now);
        let is_under_way = delivery.is_leased && !ahead.is_zero() && ahead <= LEASE_AHEAD_MAX;
        if is_under_way || (delivery.is_trial && may_be_tried) {
            left = left.or(Some(waiting));
            continue;
        }
        if delivery.due != Some(waiting.at) {
            transaction.delete(queue.place(waiting));
        }
        let code = DeliveryFailureCode::EndpointOff;
        let message = "the endpoint is switched off";
        abandon(transaction, queue, delivery, (code, message), now);
        work.taken.given_up += 1;
    }
    if has_more {
        work.wait_for(Some(now));
    }
    Ok(left)
}

/// Whether a lease was renewed since its place was found: then it waits at another one. An entry that was put aside is
/// not where its delivery says either, and counts.
fn is_elsewhere(delivery: &StoredDelivery, waiting: Waiting) -> bool {
    delivery.is_leased && delivery.due != Some(waiting.at)
}

/// Gives a delivery up that is not attempted.
fn abandon(
    transaction: &mut Transaction,
    queue: &EndpointQueue,
    mut delivery: StoredDelivery,
    (code, message): (DeliveryFailureCode, &str),
    now: Timestamp,
) {
    delivery.note(DeliveryAttempt {
        at: now,
        duration_ms: 0,
        status: None,
        error: Some(DeliveryFailure {
            code,
            message: message.to_owned(),
        }),
    });
    delivery.end(transaction, queue, DeliveryStatus::Dead);
    delivery.put(transaction, queue);
}
