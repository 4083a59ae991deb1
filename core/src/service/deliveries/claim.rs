//! Claims: whose turn it is, and what it gets.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::exchange::{DELIVERY_TIMEOUT, DeliveryRequest};
use super::history::AnnouncedEvent;
use super::lease::{DELIVERY_LEASE, DeliveryLease};
use super::queue::{EndpointQueue, EndpointState, Waiting};
use super::recipient::Recipient;
use super::record::StoredDelivery;
use super::schedule::RETRY_DELAY_MAX;
use crate::digest::sha256_bytes;
use crate::error::Error;
use crate::model::{
    DeliveryAttempt, DeliveryFailure, DeliveryFailureCode, DeliveryStatus, EndpointId, EventType,
    OrgId, Timestamp,
};
use crate::service::signing::SigningSecret;
use crate::service::{Event, KnowledgeService};
use crate::store::{Direction, Entry, Key, Transaction, decode, keys};

/// How many deliveries to one endpoint may be in flight at once.
pub const IN_FLIGHT_PER_ENDPOINT_MAX: usize = 8;
/// How many turns one reading finds.
const TURNS_PER_SCAN: usize = 64;
/// How many turns one call deals with.
const TURNS_PER_CALL: usize = 512;
/// How many deliveries of an endpoint that is off are given up in one turn.
const GIVEN_UP_PER_TURN: usize = 200;
/// When an endpoint whose turn has come goes on at the earliest: behind the others that are due.
const NEXT_TURN: Duration = Duration::from_millis(1);
/// How long what cannot be dealt with waits, so that it stands in nobody's way.
const DAMAGE_POSTPONED: Duration = Duration::from_secs(5 * 60);
/// A lease that lapses later than this was made before the clock was set back: it counts as lapsed.
const LEASE_AHEAD_MAX: Duration =
    Duration::from_secs(2 * (DELIVERY_LEASE.as_secs() + DELIVERY_TIMEOUT.as_secs()));

/// A delivery to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// The lease, which [`KnowledgeService::finish_delivery`] ends.
    pub lease: DeliveryLease,
    /// What happened.
    pub event_type: EventType,
    /// What to send, signed for now.
    pub request: DeliveryRequest,
}

/// What was claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The deliveries to send.
    pub deliveries: Vec<ClaimedDelivery>,
    /// Deliveries that were given up because their endpoint is switched off.
    pub given_up: u64,
    /// When the next turn of an endpoint is, where nothing more is due to be claimed now.
    pub next_due: Option<Timestamp>,
    /// Whether more is due now than was claimed, for endpoints with room.
    pub has_more: bool,
}

/// The turn of an endpoint.
#[derive(Clone, Copy, Debug)]
struct Turn {
    org: OrgId,
    endpoint: EndpointId,
    /// Where its mark stands.
    at: Timestamp,
    now: Timestamp,
    /// How many exchanges with it the caller has under way.
    in_flight: usize,
    /// How many more it may get.
    room: usize,
    /// How long leases hold.
    lease: Duration,
}

/// What came of a turn.
#[derive(Debug, Default)]
struct Taken {
    deliveries: Vec<ClaimedDelivery>,
    given_up: u64,
    next_due: Option<Timestamp>,
}

/// The body of a request: the same bytes for each attempt.
#[derive(Serialize)]
struct Body<'e> {
    #[serde(rename = "type")]
    event_type: EventType,
    timestamp: Timestamp,
    data: &'e serde_json::Value,
}

impl Claimed {
    fn note(&mut self, due: Option<Timestamp>) {
        let earlier = |found: Timestamp| self.next_due.map_or(found, |next| next.min(found));
        self.next_due = due.map(earlier).or(self.next_due);
    }
}

impl KnowledgeService {
    /// Claims up to `room` deliveries that are due, in fair turns between the endpoints. `in_flight` says how many
    /// exchanges the caller has under way with each: none gets more than [`IN_FLIGHT_PER_ENDPOINT_MAX`], one that has been
    /// failing no second one.
    ///
    /// # Errors
    /// Those of the store; nothing was claimed then, or it comes back when its lease lapses.
    pub async fn claim_deliveries(
        &self,
        now: Timestamp,
        room: usize,
        in_flight: &BTreeMap<EndpointId, usize>,
    ) -> Result<Claimed, Error> {
        self.claim_for(now, room, in_flight, DELIVERY_LEASE).await
    }

    /// The same, for leases of this length.
    pub(super) async fn claim_for(
        &self,
        now: Timestamp,
        room: usize,
        in_flight: &BTreeMap<EndpointId, usize>,
        lease: Duration,
    ) -> Result<Claimed, Error> {
        let mut claimed = Claimed::default();
        match self
            .take_turns(&mut claimed, now, room, in_flight, lease)
            .await
        {
            // What is claimed already is not to wait for its lease to lapse.
            Err(error) if !claimed.deliveries.is_empty() => {
                tracing::warn!(%error, "fewer deliveries were claimed than are due");
                claimed.has_more = true;
            }
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        if claimed.has_more {
            claimed.next_due = None;
        }
        Ok(claimed)
    }

    async fn take_turns(
        &self,
        claimed: &mut Claimed,
        now: Timestamp,
        room: usize,
        in_flight: &BTreeMap<EndpointId, usize>,
        lease: Duration,
    ) -> Result<(), Error> {
        let (mut rest, mut turns) = (keys::endpoints_due(), 0);
        loop {
            let found = self
                .store()
                .scan(&rest, TURNS_PER_SCAN, Direction::Forward)
                .await?;
            for found in &found {
                let Some((at, org, endpoint)) = keys::parse_endpoint_due(&found.key) else {
                    // Verification tells of it; here it is in nobody's way.
                    continue;
                };
                if at > now {
                    claimed.note(Some(at));
                    return Ok(());
                }
                let in_flight = in_flight.get(&endpoint).copied().unwrap_or(0);
                if in_flight >= IN_FLIGHT_PER_ENDPOINT_MAX {
                    continue;
                }
                if claimed.deliveries.len() >= room || turns == TURNS_PER_CALL {
                    claimed.has_more = true;
                    return Ok(());
                }
                turns += 1;
                let room = room - claimed.deliveries.len();
                let turn = Turn {
                    org,
                    endpoint,
                    at,
                    now,
                    in_flight,
                    room: room.min(IN_FLIGHT_PER_ENDPOINT_MAX - in_flight),
                    lease,
                };
                let taken = self.take_turn_or_postpone(turn).await?;
                claimed.deliveries.extend(taken.deliveries);
                claimed.given_up += taken.given_up;
                claimed.note(taken.next_due);
            }
            match found.last() {
                Some(last) if found.len() == TURNS_PER_SCAN => rest = rest.after(&last.key),
                _ => return Ok(()),
            }
        }
    }

    async fn take_turn_or_postpone(&self, turn: Turn) -> Result<Taken, Error> {
        match self.take_turn(turn).await {
            // What is damaged stays for whoever repairs it, and does not hinder the rest.
            Err(Error::Internal { detail }) => {
                let endpoint = turn.endpoint;
                tracing::error!(%endpoint, %detail, "the deliveries to an endpoint cannot be made");
                self.postpone_turn(turn).await
            }
            // Another dispatcher is busy with it.
            Err(Error::Conflict) => Ok(Taken {
                next_due: Some(turn.now.plus(NEXT_TURN)),
                ..Taken::default()
            }),
            taken => taken,
        }
    }

    async fn take_turn(&self, turn: Turn) -> Result<Taken, Error> {
        self.transact(|mut transaction| async move {
            let (org, endpoint) = (turn.org, turn.endpoint);
            let Some(queue) = EndpointQueue::read(&mut transaction, org, endpoint).await? else {
                transaction.delete(turn.mark());
                return transaction.done(Taken::default());
            };
            if queue.state.due != Some(turn.at) {
                return stray(transaction, turn, queue.state.due).await;
            }
            let taken = self.take_from(&mut transaction, queue, turn).await?;
            transaction.done(taken)
        })
        .await
    }

    /// Takes what is due from a queue, and gives the endpoint its next turn.
    async fn take_from(
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
        queue.state.due = work.next.map(|next| next.max(earliest));
        if is_failing && !work.taken.deliveries.is_empty() {
            queue.state.due = Some(turn.until());
        }
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

    /// Has a turn that came to nothing come later.
    async fn postpone_turn(&self, turn: Turn) -> Result<Taken, Error> {
        let later = turn.now.plus(DAMAGE_POSTPONED);
        self.transact(|mut transaction| async move {
            let key = keys::endpoint(turn.org, turn.endpoint);
            let found = transaction.entries(std::slice::from_ref(&key)).await?;
            let state = match found.first() {
                Some(Some(entry)) => decode::<EndpointState>(&key, entry),
                _ => return transaction.done(Taken::default()),
            };
            match state {
                Ok(state) if state.value.due == Some(turn.at) => {
                    let queue = EndpointQueue::of(turn.org, turn.endpoint, state.value);
                    let taken = put_off(&mut transaction, queue, later);
                    transaction.done(taken)
                }
                Ok(state) => transaction.done(Taken {
                    next_due: state.value.due,
                    ..Taken::default()
                }),
                // The state itself: then the mark alone is put off.
                Err(_) => {
                    transaction.delete(turn.mark());
                    transaction.put(keys::endpoint_due(later, turn.org, turn.endpoint), &());
                    transaction.done(Taken {
                        next_due: Some(later),
                        ..Taken::default()
                    })
                }
            }
        })
        .await
    }
}

impl Turn {
    fn mark(&self) -> Key {
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

/// A mark that is not where the turn is: moved meanwhile by somebody else, or left over from damage.
async fn stray(
    mut transaction: Transaction,
    turn: Turn,
    due: Option<Timestamp>,
) -> Result<crate::store::Decided<Taken>, Error> {
    let marks = transaction.entries(&[turn.mark()]).await?;
    if marks.iter().any(Option::is_some) {
        transaction.delete(turn.mark());
        if let Some(due) = due {
            transaction.put(keys::endpoint_due(due, turn.org, turn.endpoint), &());
        }
    }
    transaction.done(Taken {
        next_due: due,
        ..Taken::default()
    })
}

fn put_off(transaction: &mut Transaction, mut queue: EndpointQueue, to: Timestamp) -> Taken {
    queue.state.due = Some(to);
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
                tracing::error!(%key, %error, "a delivery cannot be read");
                self.put_aside(transaction, queue, waiting);
                return true;
            }
            None => {
                transaction.delete(queue.place(waiting));
                return true;
            }
        };
        let is_elsewhere = delivery.due != Some(waiting.at) && delivery.is_leased;
        if !delivery.is_pending() || is_elsewhere {
            transaction.delete(queue.place(waiting));
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
    ) {
        let at = self.turn.now.plus(DAMAGE_POSTPONED);
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
                event: event.id,
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
        let delivery = entry.map(|entry| decode::<StoredDelivery>(key, &entry));
        let is_under_way = |delivery: &StoredDelivery| {
            delivery.is_leased && now < waiting.at && waiting.at.since(now) <= LEASE_AHEAD_MAX
        };
        match delivery {
            Some(Ok(delivery)) if delivery.value.due == Some(waiting.at) => {
                let delivery = delivery.value;
                if is_under_way(&delivery) || (delivery.is_trial && may_be_tried) {
                    left = left.or(Some(waiting));
                    continue;
                }
                let code = DeliveryFailureCode::EndpointOff;
                let message = "the endpoint is switched off";
                abandon(transaction, queue, delivery, (code, message), now);
                work.taken.given_up += 1;
            }
            Some(Err(error)) => {
                tracing::error!(%key, %error, "a delivery cannot be read");
                work.put_aside(transaction, queue, waiting);
            }
            // Nothing waits here.
            _ => transaction.delete(queue.place(waiting)),
        }
    }
    if has_more {
        work.wait_for(Some(now));
    }
    Ok(left)
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
