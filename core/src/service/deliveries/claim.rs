//! Claims: whose turn it is, and what it gets.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exchange::DeliveryRequest;
use super::in_flight::InFlight;
use super::lease::{DELIVERY_LEASE, DeliveryLease};
use super::queue::{EndpointQueue, EndpointState};
use super::schedule::RETRY_DELAY_MAX;
use super::turn::{Taken, Turn, put_off};
use crate::error::Error;
use crate::model::{EndpointId, EventType, OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::keys;
use crate::store::{Decided, Direction, KeyEntry, StoreExt, Transaction, decode};

/// How many deliveries to one endpoint may be in flight at once.
pub const IN_FLIGHT_PER_ENDPOINT_MAX: usize = 8;
/// The part of all exchanges that are under way which one organisation may have while others are due.
const SHARE_OF_ORGANIZATION: usize = 4;
/// How many marks one reading finds.
const MARKS_PER_SCAN: usize = 64;
/// How many marks one call looks at: of most of them it sees no more than the key.
const MARKS_PER_CALL: usize = 4_096;
/// How many turns one call deals with. Each is a commit, and meanwhile no lease is renewed.
const TURNS_PER_CALL: usize = 32;
/// How many deliveries one call claims.
const DELIVERIES_PER_CALL: usize = 64;
/// How many turns that are too far ahead one call deals with.
const MISPLACED_PER_CALL: usize = 8;
/// No turn is further ahead than this, unless the clock was set back since.
const TURN_AHEAD_MAX: Duration = RETRY_DELAY_MAX.saturating_add(DAMAGE_POSTPONED);
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

/// Where the mark of a turn stands, and whose it is.
type Mark = (Timestamp, OrgId, EndpointId);

/// What a dispatcher claims under.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimTerms {
    /// How long the leases are.
    pub(super) lease: Duration,
    /// How many deliveries to one endpoint may be in flight at once.
    pub(super) per_endpoint_max: usize,
}

/// One call.
struct Round<'c> {
    now: Timestamp,
    room: usize,
    in_flight: &'c InFlight,
    terms: ClaimTerms,
    turns: usize,
    taken_by_org: BTreeMap<OrgId, usize>,
    /// Turns of those who have their share, as many as there can be room for.
    passed_over: Vec<Mark>,
    claimed: Claimed,
}

impl<'c> Round<'c> {
    fn new(now: Timestamp, room: usize, in_flight: &'c InFlight, terms: ClaimTerms) -> Self {
        Self {
            now,
            room,
            in_flight,
            terms,
            turns: 0,
            taken_by_org: BTreeMap::new(),
            passed_over: Vec::new(),
            claimed: Claimed::default(),
        }
    }

    fn has_its_share(&self, org: OrgId) -> bool {
        let taken = self.taken_by_org.get(&org).copied().unwrap_or(0);
        let share = (self.room + self.in_flight.len()).div_ceil(SHARE_OF_ORGANIZATION);
        self.in_flight.of_organization(org) + taken >= share
    }

    fn pass_over(&mut self, mark: Mark) {
        let has_room = self.in_flight.with_endpoint(mark.2) < self.terms.per_endpoint_max;
        if has_room && self.passed_over.len() <= TURNS_PER_CALL {
            self.passed_over.push(mark);
        }
    }
}

impl Claimed {
    fn note(&mut self, due: Option<Timestamp>) {
        let earlier = |found: Timestamp| self.next_due.map_or(found, |next| next.min(found));
        self.next_due = due.map(earlier).or(self.next_due);
    }
}

impl KnowledgeService {
    /// Claims deliveries that are due, in fair turns between the endpoints: up to `room`, and up to 64 in one call.
    /// `in_flight` says which exchanges the caller has under way. No endpoint gets more than
    /// [`IN_FLIGHT_PER_ENDPOINT_MAX`], one that has been failing no second one. An organisation that has a quarter of all
    /// exchanges that there may be (those under way, and `room`) gets more only where nobody else is due.
    ///
    /// # Errors
    /// Those of the store; nothing was claimed then, or it comes back when its lease lapses.
    pub async fn claim_deliveries(
        &self,
        now: Timestamp,
        room: usize,
        in_flight: &InFlight,
    ) -> Result<Claimed, Error> {
        let terms = ClaimTerms {
            lease: DELIVERY_LEASE,
            per_endpoint_max: IN_FLIGHT_PER_ENDPOINT_MAX,
        };
        self.claim_under(terms, now, room, in_flight).await
    }

    /// The same, under these terms.
    pub(super) async fn claim_under(
        &self,
        terms: ClaimTerms,
        now: Timestamp,
        room: usize,
        in_flight: &InFlight,
    ) -> Result<Claimed, Error> {
        let mut round = Round::new(now, room, in_flight, terms);
        let taken = self.take_turns(&mut round).await;
        let mut claimed = round.claimed;
        match taken {
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

    async fn take_turns(&self, round: &mut Round<'_>) -> Result<(), Error> {
        let (mut rest, mut marks) = (keys::endpoints_due(), 0);
        while marks < MARKS_PER_CALL {
            let found = self
                .store()
                .scan(&rest, MARKS_PER_SCAN, Direction::Forward)
                .await?;
            if marks == 0 {
                self.take_misplaced(round, &found).await?;
            }
            for found in &found {
                // Verification tells of one that cannot be read; here it is in nobody's way.
                let Some(mark) = keys::parse_endpoint_due(&found.key) else {
                    continue;
                };
                if mark.0 > round.now {
                    round.claimed.note(Some(mark.0));
                    return self.take_passed_over(round).await;
                }
                if round.has_its_share(mark.1) {
                    round.pass_over(mark);
                } else if !self.take_mark(round, mark).await? {
                    return Ok(());
                }
            }
            marks += found.len();
            match found.last() {
                Some(last) if found.len() == MARKS_PER_SCAN => rest = rest.after(&last.key),
                _ => break,
            }
        }
        self.take_passed_over(round).await
    }

    /// What nobody else was due for is for those who have their share already.
    async fn take_passed_over(&self, round: &mut Round<'_>) -> Result<(), Error> {
        for mark in std::mem::take(&mut round.passed_over) {
            if !self.take_mark(round, mark).await? {
                break;
            }
        }
        Ok(())
    }

    /// What was queued while the clock was far ahead does not wait until then: no turn is as late as that.
    /// `first` are the first marks.
    async fn take_misplaced(&self, round: &mut Round<'_>, first: &[KeyEntry]) -> Result<(), Error> {
        let last = if first.len() < MARKS_PER_SCAN {
            first.iter().rev().cloned().collect()
        } else {
            let range = keys::endpoints_due();
            let store = self.store();
            store
                .scan(&range, MISPLACED_PER_CALL, Direction::Reverse)
                .await?
        };
        let marks = last
            .iter()
            .take(MISPLACED_PER_CALL)
            .filter_map(|found| keys::parse_endpoint_due(&found.key));
        let now = round.now;
        for mark in marks.take_while(|mark| mark.0.since(now) > TURN_AHEAD_MAX) {
            if !self.take_mark(round, mark).await? {
                break;
            }
        }
        Ok(())
    }

    /// Gives an endpoint its turn, where it has room. Whether the call goes on.
    async fn take_mark(&self, round: &mut Round<'_>, mark: Mark) -> Result<bool, Error> {
        let (at, org, endpoint) = mark;
        let in_flight = round.in_flight.with_endpoint(endpoint);
        let terms = round.terms;
        if in_flight >= terms.per_endpoint_max {
            return Ok(true);
        }
        let room = round.room.min(DELIVERIES_PER_CALL);
        let room = room.saturating_sub(round.claimed.deliveries.len());
        if room == 0 || round.turns == TURNS_PER_CALL {
            round.claimed.has_more = true;
            return Ok(false);
        }
        round.turns += 1;
        let turn = Turn {
            org,
            endpoint,
            at,
            now: round.now,
            in_flight,
            room: room.min(terms.per_endpoint_max - in_flight),
            lease: terms.lease,
        };
        let taken = self.take_turn_or_postpone(turn).await?;
        *round.taken_by_org.entry(org).or_default() += taken.deliveries.len();
        round.claimed.deliveries.extend(taken.deliveries);
        round.claimed.given_up += taken.given_up;
        round.claimed.note(taken.next_due);
        Ok(true)
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
