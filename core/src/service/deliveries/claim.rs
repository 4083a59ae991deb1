//! Claims: passes over the ready queue that lease due deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;

use super::claim_builder::{ClaimResult, ClaimedDelivery, EntryClaim};
use super::endpoint_leases::DELIVERY_LEASE;
use super::entry_claim::postpone;
use super::in_flight::{IN_FLIGHT_PER_QUICK_ENDPOINT_MAX, InFlight};
use super::queue::{EndpointQueue, EndpointState};
use super::schedule::{CORRUPT_RETRY_DELAY, REQUEUE_DELAY, RETRY_DELAY_MAX};
use crate::error::Error;
use crate::keys;
use crate::model::{EndpointId, OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::store::{Direction, KeyEntry, Prepared, StoreExt, Transaction, decode};

/// Divisor of the share of all deliveries in flight that one organisation may have.
///
/// The share is exceeded only if nothing of another organisation is due.
const SHARE_OF_ORGANIZATION: usize = 4;
/// Number of entries of the ready queue that one scan reads.
const ENTRIES_PER_SCAN: usize = 64;
/// Maximum number of entries that one call examines, most of them by their key only.
const ENTRIES_PER_CALL: usize = 4_096;
/// Maximum number of endpoints that one call claims from.
///
/// Each claim is a commit, and no lease is renewed in the meantime.
const CLAIMS_PER_CALL: usize = 32;
/// Maximum number of endpoints that are claimed from concurrently, so that their commits share a
/// sync of the store.
///
/// Claims of unconfirmed endpoints of one host conflict; each of them succeeds within the retries.
const CLAIMS_AT_ONCE: usize = 16;
/// Maximum number of deliveries that one call claims.
const DELIVERIES_PER_CALL: usize = 256;
/// Maximum number of entries too far in the future that one call corrects.
const MISPLACED_PER_CALL: usize = 8;
/// Maximum distance of an entry from the present, unless the clock was set back.
const ENTRY_AHEAD_MAX: Duration = RETRY_DELAY_MAX.saturating_add(CORRUPT_RETRY_DELAY);

/// Deliveries that one call claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimBatch {
    /// Deliveries to send.
    pub deliveries: Vec<ClaimedDelivery>,
    /// Number of deliveries dead-lettered: their endpoint is inactive or their event unreadable.
    pub dead_lettered: u64,
    /// Time at which the next endpoint is due, if nothing more can be claimed now.
    pub next_due: Option<Timestamp>,
    /// True if more is due now than was claimed, for endpoints with capacity.
    pub has_more: bool,
}

/// Entry of the ready queue: due time, organisation and endpoint.
type ReadyEntry = (Timestamp, OrgId, EndpointId);

/// Terms of a dispatcher's claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimTerms {
    /// Duration of the leases.
    pub(super) lease: Duration,
    /// Maximum number of deliveries to one endpoint that are in flight at once, if it is less than
    /// [`InFlight::max_with_endpoint`].
    pub(super) per_endpoint_max: usize,
}

/// State of one pass over the ready queue.
struct ClaimPass<'c> {
    now: Timestamp,
    capacity: usize,
    in_flight: &'c InFlight,
    terms: ClaimTerms,
    claims: usize,
    /// Claims to be made concurrently, with the capacity that is reserved for each.
    planned: Vec<EntryClaim>,
    claimed_by_org: BTreeMap<OrgId, usize>,
    /// Entries of organisations that have their share, as many as there may be capacity for.
    deferred: Vec<ReadyEntry>,
    /// Organisations whose writes are held, for which nothing is claimed.
    held: BTreeSet<OrgId>,
    batch: ClaimBatch,
}

impl<'c> ClaimPass<'c> {
    fn new(now: Timestamp, capacity: usize, in_flight: &'c InFlight, terms: ClaimTerms) -> Self {
        Self {
            now,
            capacity,
            in_flight,
            terms,
            claims: 0,
            planned: Vec::new(),
            claimed_by_org: BTreeMap::new(),
            deferred: Vec::new(),
            held: BTreeSet::new(),
            batch: ClaimBatch::default(),
        }
    }

    /// Returns the maximum of deliveries to an endpoint that are in flight at once.
    fn endpoint_max(&self, endpoint: EndpointId) -> usize {
        let max = self.in_flight.max_with_endpoint(endpoint);
        max.min(self.terms.per_endpoint_max)
    }

    /// Returns the number of further deliveries that may be claimed.
    fn capacity_left(&self) -> usize {
        let reserved: usize = self.planned.iter().map(|claim| claim.capacity).sum();
        let capacity = self.capacity.min(DELIVERIES_PER_CALL);
        capacity.saturating_sub(self.batch.deliveries.len() + reserved)
    }

    fn is_over_share(&self, org: OrgId) -> bool {
        let planned = self.planned.iter().filter(|claim| claim.org == org);
        let planned: usize = planned.map(|claim| claim.capacity).sum();
        let claimed = planned + self.claimed_by_org.get(&org).copied().unwrap_or(0);
        let share = (self.capacity + self.in_flight.len()).div_ceil(SHARE_OF_ORGANIZATION);
        self.in_flight.of_organization(org) + claimed >= share
    }

    fn defer(&mut self, entry: ReadyEntry) {
        let has_capacity = self.in_flight.with_endpoint(entry.2) < self.endpoint_max(entry.2);
        if has_capacity && self.deferred.len() <= CLAIMS_PER_CALL {
            self.deferred.push(entry);
        }
    }

    fn absorb(&mut self, org: OrgId, result: ClaimResult) {
        *self.claimed_by_org.entry(org).or_default() += result.deliveries.len();
        self.batch.deliveries.extend(result.deliveries);
        self.batch.dead_lettered += result.dead_lettered;
        self.batch.note_due(result.next_due);
    }
}

impl ClaimBatch {
    fn note_due(&mut self, due: Option<Timestamp>) {
        let earlier = |found: Timestamp| self.next_due.map_or(found, |next| next.min(found));
        self.next_due = due.map(earlier).or(self.next_due);
    }
}

/// # Claims
impl KnowledgeService {
    /// Claims deliveries that are due, scheduling endpoints fairly.
    ///
    /// It claims at most `capacity` deliveries, and at most 256 in one call. `in_flight` counts
    /// the deliveries that the caller has in flight. An endpoint has at most
    /// [`InFlight::max_with_endpoint`] in flight, and only one while it fails. An organisation that
    /// has a quarter of the deliveries that may be in flight (`in_flight` and `capacity` together)
    /// gets more only if nothing of another organisation is due.
    ///
    /// # Errors
    /// Those of the store. Either nothing was claimed, or the claimed deliveries are due again once
    /// their leases have expired.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::service::{AttemptOutcome, InFlight};
    /// # service.create_webhook(&owner, workspace, &new_webhook).await?;
    /// # service.delete_memory(&owner, memories[0]).await?;
    ///
    /// let (now, capacity, in_flight) = (service.env().now(), 8, InFlight::default());
    /// service.fan_out(now).await?;
    /// let batch = service.claim_deliveries(now, capacity, &in_flight).await?;
    /// # assert_eq!(batch.deliveries.len(), 1);
    /// for claimed in &batch.deliveries {
    ///     // A dispatcher sends them concurrently, and calls `renew_leases` for slow exchanges.
    ///     let attempt = sender.send(&claimed.request).await;
    ///     let now = service.env().now();
    ///     let outcome = service.finish_delivery(now, &claimed.lease, &attempt).await?;
    ///     assert_eq!(outcome, AttemptOutcome::Delivered);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn claim_deliveries(
        &self,
        now: Timestamp,
        capacity: usize,
        in_flight: &InFlight,
    ) -> Result<ClaimBatch, Error> {
        let terms = ClaimTerms {
            lease: DELIVERY_LEASE,
            per_endpoint_max: IN_FLIGHT_PER_QUICK_ENDPOINT_MAX,
        };
        self.claim_under(terms, now, capacity, in_flight).await
    }

    /// Claims deliveries under these terms.
    pub(super) async fn claim_under(
        &self,
        terms: ClaimTerms,
        now: Timestamp,
        capacity: usize,
        in_flight: &InFlight,
    ) -> Result<ClaimBatch, Error> {
        let mut pass = ClaimPass::new(now, capacity, in_flight, terms);
        let result = match self.run_pass(&mut pass).await {
            Ok(()) => self.claim_planned(&mut pass).await,
            error => error,
        };
        let mut batch = pass.batch;
        match result {
            // Deliveries that are already claimed must not wait for their leases to expire.
            Err(error) if !batch.deliveries.is_empty() => {
                tracing::warn!(%error, "claim pass failed; keeping the deliveries claimed so far");
                batch.has_more = true;
            }
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        if batch.has_more {
            batch.next_due = None;
        }
        Ok(batch)
    }

    async fn run_pass(&self, pass: &mut ClaimPass<'_>) -> Result<(), Error> {
        let (mut rest, mut entries) = (keys::endpoints_due(), 0);
        while entries < ENTRIES_PER_CALL {
            let found = self
                .store()
                .scan(&rest, ENTRIES_PER_SCAN, Direction::Forward)
                .await?;
            if entries == 0 {
                self.claim_misplaced(pass, &found).await?;
            }
            for found in &found {
                // An unreadable entry is skipped here and reported by verification.
                let Some(entry) = keys::parse_endpoint_due(&found.key) else {
                    continue;
                };
                if entry.0 > pass.now {
                    pass.batch.note_due(Some(entry.0));
                    return self.claim_deferred(pass).await;
                }
                if pass.held.contains(&entry.1) {
                    continue;
                }
                if pass.is_over_share(entry.1) {
                    // Less may be claimed than was reserved.
                    self.claim_planned(pass).await?;
                }
                if pass.is_over_share(entry.1) {
                    pass.defer(entry);
                } else if !self.claim_entry(pass, entry).await? {
                    return Ok(());
                }
            }
            entries += found.len();
            match found.last() {
                Some(last) if found.len() == ENTRIES_PER_SCAN => rest = rest.after(&last.key),
                _ => break,
            }
        }
        self.claim_deferred(pass).await
    }

    /// Claims for organisations over their share, if nothing else is due.
    async fn claim_deferred(&self, pass: &mut ClaimPass<'_>) -> Result<(), Error> {
        for entry in std::mem::take(&mut pass.deferred) {
            if !self.claim_entry(pass, entry).await? {
                break;
            }
        }
        Ok(())
    }

    /// Claims entries that are too far in the future, so that they are rescheduled.
    ///
    /// Only a clock that was ahead can have written them. `first` are the first entries of the
    /// ready queue.
    async fn claim_misplaced(
        &self,
        pass: &mut ClaimPass<'_>,
        first: &[KeyEntry],
    ) -> Result<(), Error> {
        let last = if first.len() < ENTRIES_PER_SCAN {
            first.iter().rev().cloned().collect()
        } else {
            let range = keys::endpoints_due();
            let store = self.store();
            store
                .scan(&range, MISPLACED_PER_CALL, Direction::Reverse)
                .await?
        };
        let entries = last
            .iter()
            .take(MISPLACED_PER_CALL)
            .filter_map(|found| keys::parse_endpoint_due(&found.key));
        let now = pass.now;
        for entry in entries.take_while(|entry| entry.0.since(now) > ENTRY_AHEAD_MAX) {
            if !self.claim_entry(pass, entry).await? {
                break;
            }
        }
        Ok(())
    }

    /// Plans a claim from an endpoint if it has capacity; returns true if the pass continues.
    async fn claim_entry(
        &self,
        pass: &mut ClaimPass<'_>,
        entry: ReadyEntry,
    ) -> Result<bool, Error> {
        let (at, org, endpoint) = entry;
        if pass.held.contains(&org) {
            return Ok(true);
        }
        let in_flight = pass.in_flight.with_endpoint(endpoint);
        let endpoint_max = pass.endpoint_max(endpoint);
        if in_flight >= endpoint_max {
            return Ok(true);
        }
        let is_full = |pass: &ClaimPass<'_>| pass.capacity_left() == 0;
        if is_full(pass) || pass.planned.len() == CLAIMS_AT_ONCE {
            self.claim_planned(pass).await?;
        }
        if is_full(pass) || pass.claims == CLAIMS_PER_CALL {
            pass.batch.has_more = true;
            return Ok(false);
        }
        pass.claims += 1;
        pass.planned.push(EntryClaim {
            org,
            endpoint,
            at,
            now: pass.now,
            in_flight,
            capacity: pass.capacity_left().min(endpoint_max - in_flight),
            lease: pass.terms.lease,
        });
        Ok(true)
    }

    /// Makes the planned claims concurrently. An error leaves the others valid.
    async fn claim_planned(&self, pass: &mut ClaimPass<'_>) -> Result<(), Error> {
        let planned = std::mem::take(&mut pass.planned);
        let claims = planned.iter().map(|claim| self.claim_or_reschedule(*claim));
        let results = join_all(claims).await;
        let mut failed = Ok(());
        for (claim, result) in planned.into_iter().zip(results) {
            match result {
                Ok(result) => pass.absorb(claim.org, result),
                Err(error) => match self.held_orgs(error, [claim.org].into()).await {
                    Ok(held) => pass.held.extend(held),
                    Err(error) => failed = Err(error),
                },
            }
        }
        failed
    }

    async fn claim_or_reschedule(&self, claim: EntryClaim) -> Result<ClaimResult, Error> {
        match self.claim_endpoint(claim).await {
            // Corrupt data are kept for repair and do not hold up the rest.
            Err(Error::Internal { detail }) => {
                let endpoint = claim.endpoint;
                tracing::error!(%endpoint, %detail, "claiming for an endpoint failed; postponing it");
                self.reschedule(claim).await
            }
            // Another dispatcher is claiming from it.
            Err(Error::Conflict) => Ok(ClaimResult {
                next_due: Some(claim.now.plus(REQUEUE_DELAY)),
                ..ClaimResult::default()
            }),
            result => result,
        }
    }

    async fn claim_endpoint(&self, claim: EntryClaim) -> Result<ClaimResult, Error> {
        self.transact(|mut transaction| async move {
            let (org, endpoint) = (claim.org, claim.endpoint);
            let state = keys::endpoint(org, endpoint);
            transaction
                .read_ahead(vec![state], vec![claim.front()])
                .await?;
            let Some(queue) = EndpointQueue::read(&mut transaction, org, endpoint).await? else {
                transaction.delete(claim.entry_key());
                return transaction.done(ClaimResult::default());
            };
            if queue.state.due != Some(claim.at) {
                return stale_entry(transaction, claim, queue.state.due).await;
            }
            let result = self.claim_from(&mut transaction, queue, claim).await?;
            transaction.done(result)
        })
        .await
    }

    /// Reschedules an endpoint whose claim failed.
    async fn reschedule(&self, claim: EntryClaim) -> Result<ClaimResult, Error> {
        let later = claim.now.plus(CORRUPT_RETRY_DELAY);
        self.transact(|mut transaction| async move {
            let key = keys::endpoint(claim.org, claim.endpoint);
            let found = transaction.entries(std::slice::from_ref(&key)).await?;
            let state = match found.first() {
                Some(Some(entry)) => decode::<EndpointState>(&key, entry),
                _ => return transaction.done(ClaimResult::default()),
            };
            match state {
                Ok(state) if state.value.due == Some(claim.at) => {
                    let queue = EndpointQueue::of(claim.org, claim.endpoint, state.value);
                    let result = postpone(&mut transaction, queue, later);
                    transaction.done(result)
                }
                Ok(state) => transaction.done(ClaimResult {
                    next_due: state.value.due,
                    ..ClaimResult::default()
                }),
                // If the state itself is corrupt, only the entry is postponed.
                Err(_) => {
                    transaction.delete(claim.entry_key());
                    transaction.put(keys::endpoint_due(later, claim.org, claim.endpoint), &());
                    transaction.done(ClaimResult {
                        next_due: Some(later),
                        ..ClaimResult::default()
                    })
                }
            }
        })
        .await
    }
}

/// Corrects an entry of the ready queue that differs from the endpoint's due time.
///
/// Another dispatcher has moved it in the meantime, or it is left over from corrupt data.
async fn stale_entry(
    mut transaction: Transaction,
    claim: EntryClaim,
    due: Option<Timestamp>,
) -> Result<Prepared<ClaimResult>, Error> {
    let entries = transaction.entries(&[claim.entry_key()]).await?;
    if entries.iter().any(Option::is_some) {
        transaction.delete(claim.entry_key());
        if let Some(due) = due {
            transaction.put(keys::endpoint_due(due, claim.org, claim.endpoint), &());
        }
    }
    transaction.done(ClaimResult {
        next_due: due,
        ..ClaimResult::default()
    })
}
