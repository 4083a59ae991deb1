//! Claims: whose turn it is, and what it gets.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exchange::DeliveryRequest;
use super::lease::{DELIVERY_LEASE, DeliveryLease};
use super::queue::{EndpointQueue, EndpointState};
use super::turn::{Taken, Turn, put_off};
use crate::error::Error;
use crate::model::{EndpointId, EventType, Timestamp};
use crate::service::KnowledgeService;
use crate::store::{Decided, Direction, Transaction, decode, keys};

/// How many deliveries to one endpoint may be in flight at once.
pub const IN_FLIGHT_PER_ENDPOINT_MAX: usize = 8;
/// How many turns one reading finds.
const TURNS_PER_SCAN: usize = 64;
/// How many turns one call deals with.
const TURNS_PER_CALL: usize = 512;
/// When an endpoint whose turn has come goes on at the earliest: behind the others that are due.
pub(super) const NEXT_TURN: Duration = Duration::from_millis(1);
/// How long what cannot be dealt with waits, so that it stands in nobody's way.
pub(super) const DAMAGE_POSTPONED: Duration = Duration::from_secs(5 * 60);

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

/// A mark that is not where the turn is: moved meanwhile by somebody else, or left over from damage.
async fn stray(
    mut transaction: Transaction,
    turn: Turn,
    due: Option<Timestamp>,
) -> Result<Decided<Taken>, Error> {
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
