//! Passes over the ready queue, which claim from the endpoints that are due.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;

use super::claim_batch::{ClaimBatch, EndpointClaimResult};
use super::endpoint_claim::EndpointClaim;
use crate::error::Error;
use crate::keys;
use crate::model::{EndpointId, OrgId, Timestamp};
use crate::service::deliveries::dispatch::retry::{CORRUPT_RETRY_DELAY, RETRY_DELAY_MAX};
use crate::service::deliveries::dispatch::{IN_FLIGHT_PER_QUICK_ENDPOINT_MAX, InFlight};
use crate::service::deliveries::queue::DELIVERY_LEASE;
use crate::service::{Dispatcher, KnowledgeService};
use crate::store::{Direction, KeyEntry, StoreExt};

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

/// Terms of a dispatcher's claims.
#[derive(Clone, Copy, Debug)]
pub(in crate::service) struct ClaimTerms {
    /// Duration of the leases.
    pub(in crate::service) lease: Duration,
    /// Maximum number of deliveries to one endpoint that are in flight at once, if it is less than
    /// [`InFlight::max_with_endpoint`].
    pub(in crate::service) per_endpoint_max: usize,
}

/// Entry of the ready queue.
#[derive(Clone, Copy)]
struct ReadyEntry {
    /// Due time of the endpoint.
    at: Timestamp,
    org: OrgId,
    endpoint: EndpointId,
}

impl ReadyEntry {
    /// Parses an entry; `None` if it is unreadable, which verification reports.
    fn parse(entry: &KeyEntry) -> Option<Self> {
        let (at, org, endpoint) = keys::parse_endpoint_due(&entry.key)?;
        Some(Self { at, org, endpoint })
    }
}

/// One pass over the ready queue.
pub(in crate::service) struct ClaimPass<'c> {
    service: &'c KnowledgeService,
    now: Timestamp,
    capacity: usize,
    in_flight: &'c InFlight,
    terms: ClaimTerms,
    claims: usize,
    /// Claims to be made concurrently, with the capacity that is reserved for each.
    planned: Vec<EndpointClaim>,
    claimed_by_org: BTreeMap<OrgId, usize>,
    /// Entries of organisations that have their share, as many as there may be capacity for.
    deferred: Vec<ReadyEntry>,
    /// Organisations whose writes are held, for which nothing is claimed.
    held: BTreeSet<OrgId>,
    batch: ClaimBatch,
}

/// # Claims
impl Dispatcher<'_> {
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
    #[doc = include_str!("../../../example.txt")]
    /// use knowledge_core::service::{AttemptOutcome, InFlight};
    /// # service.webhooks().create(&owner, workspace, &new_webhook).await?;
    /// # service.memories().delete(&owner, memories[0]).await?;
    ///
    /// let (now, capacity, in_flight) = (service.env().now(), 8, InFlight::default());
    /// service.dispatcher().fan_out(now).await?;
    /// let batch = service.dispatcher().claim(now, capacity, &in_flight).await?;
    /// # assert_eq!(batch.deliveries.len(), 1);
    /// for claimed in &batch.deliveries {
    ///     // A dispatcher sends them concurrently, and calls `renew_leases` for slow exchanges.
    ///     let attempt = sender.send(&claimed.request).await;
    ///     let now = service.env().now();
    ///     let outcome = service.dispatcher().finish(now, &claimed.lease, &attempt).await?;
    ///     assert_eq!(outcome, AttemptOutcome::Delivered);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn claim(
        self,
        now: Timestamp,
        capacity: usize,
        in_flight: &InFlight,
    ) -> Result<ClaimBatch, Error> {
        let terms = ClaimTerms {
            lease: DELIVERY_LEASE,
            per_endpoint_max: IN_FLIGHT_PER_QUICK_ENDPOINT_MAX,
        };
        let pass = ClaimPass::new(self.service, terms, now, capacity, in_flight);
        pass.run().await
    }
}

impl<'c> ClaimPass<'c> {
    pub(in crate::service) fn new(
        service: &'c KnowledgeService,
        terms: ClaimTerms,
        now: Timestamp,
        capacity: usize,
        in_flight: &'c InFlight,
    ) -> Self {
        Self {
            service,
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

    /// Claims what is due.
    pub(in crate::service) async fn run(mut self) -> Result<ClaimBatch, Error> {
        let result = match self.plan_all().await {
            Ok(()) => self.claim_planned().await,
            error => error,
        };
        match result {
            // Deliveries that are already claimed must not wait for their leases to expire.
            Err(error) if !self.batch.deliveries.is_empty() => {
                tracing::warn!(%error, "claim pass failed; keeping the deliveries claimed so far");
                self.batch.has_more = true;
            }
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        if self.batch.has_more {
            self.batch.next_due = None;
        }
        Ok(self.batch)
    }

    /// Plans claims for all entries that are due, and makes them when there are enough.
    async fn plan_all(&mut self) -> Result<(), Error> {
        let (mut rest, mut examined) = (keys::endpoints_due(), 0);
        while examined < ENTRIES_PER_CALL {
            let entries = self
                .service
                .store()
                .scan(&rest, ENTRIES_PER_SCAN, Direction::Forward)
                .await?;
            if examined == 0 {
                self.plan_misplaced(&entries).await?;
            }
            for entry in entries.iter().filter_map(ReadyEntry::parse) {
                if entry.at > self.now {
                    self.batch.note_due(Some(entry.at));
                    return self.plan_deferred().await;
                }
                if !self.plan_fairly(entry).await? {
                    return Ok(());
                }
            }
            examined += entries.len();
            match entries.last() {
                Some(last) if entries.len() == ENTRIES_PER_SCAN => rest = rest.after(&last.key),
                _ => break,
            }
        }
        self.plan_deferred().await
    }

    /// Plans a claim, or defers it if its organisation is over its share; returns true if the pass
    /// continues.
    async fn plan_fairly(&mut self, entry: ReadyEntry) -> Result<bool, Error> {
        if self.held.contains(&entry.org) {
            return Ok(true);
        }
        if self.is_over_share(entry.org) {
            // Less may be claimed than was reserved.
            self.claim_planned().await?;
        }
        if self.is_over_share(entry.org) {
            self.defer(entry);
            return Ok(true);
        }
        self.plan(entry).await
    }

    /// Plans claims for organisations over their share, if nothing else is due.
    async fn plan_deferred(&mut self) -> Result<(), Error> {
        for entry in std::mem::take(&mut self.deferred) {
            if !self.plan(entry).await? {
                break;
            }
        }
        Ok(())
    }

    /// Plans claims for entries that are too far in the future, so that they are rescheduled.
    ///
    /// Only a clock that was ahead can have written them. `first` are the first entries of the
    /// ready queue.
    async fn plan_misplaced(&mut self, first: &[KeyEntry]) -> Result<(), Error> {
        let last: Vec<KeyEntry> = if first.len() < ENTRIES_PER_SCAN {
            first.iter().rev().cloned().collect()
        } else {
            let range = keys::endpoints_due();
            let store = self.service.store();
            store
                .scan(&range, MISPLACED_PER_CALL, Direction::Reverse)
                .await?
        };
        let entries = last
            .iter()
            .take(MISPLACED_PER_CALL)
            .filter_map(ReadyEntry::parse);
        let now = self.now;
        for entry in entries.take_while(|entry| entry.at.since(now) > ENTRY_AHEAD_MAX) {
            if !self.plan(entry).await? {
                break;
            }
        }
        Ok(())
    }

    /// Plans a claim from an endpoint if it has capacity; returns true if the pass continues.
    async fn plan(&mut self, entry: ReadyEntry) -> Result<bool, Error> {
        let ReadyEntry { at, org, endpoint } = entry;
        let in_flight = self.in_flight.with_endpoint(endpoint);
        let endpoint_max = self.endpoint_max(endpoint);
        if self.held.contains(&org) || in_flight >= endpoint_max {
            return Ok(true);
        }
        if self.capacity_left() == 0 || self.planned.len() == CLAIMS_AT_ONCE {
            self.claim_planned().await?;
        }
        if self.capacity_left() == 0 || self.claims == CLAIMS_PER_CALL {
            self.batch.has_more = true;
            return Ok(false);
        }
        self.claims += 1;
        self.planned.push(EndpointClaim {
            org,
            endpoint,
            at,
            now: self.now,
            in_flight,
            capacity: self.capacity_left().min(endpoint_max - in_flight),
            lease: self.terms.lease,
        });
        Ok(true)
    }

    /// Makes the planned claims concurrently. An error leaves the others valid.
    async fn claim_planned(&mut self) -> Result<(), Error> {
        let planned = std::mem::take(&mut self.planned);
        let results = join_all(planned.iter().map(|claim| claim.run(self.service))).await;
        let mut failed = Ok(());
        for (claim, result) in planned.into_iter().zip(results) {
            match result {
                Ok(result) => self.add(claim.org, result),
                Err(error) => match self.service.fenced_orgs(error, [claim.org].into()).await {
                    Ok(held) => self.held.extend(held),
                    Err(error) => failed = Err(error),
                },
            }
        }
        failed
    }

    fn add(&mut self, org: OrgId, result: EndpointClaimResult) {
        *self.claimed_by_org.entry(org).or_default() += result.deliveries.len();
        self.batch.add(result);
    }

    fn defer(&mut self, entry: ReadyEntry) {
        let in_flight = self.in_flight.with_endpoint(entry.endpoint);
        let has_capacity = in_flight < self.endpoint_max(entry.endpoint);
        if has_capacity && self.deferred.len() <= CLAIMS_PER_CALL {
            self.deferred.push(entry);
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
        let of_org = self.planned.iter().filter(|claim| claim.org == org);
        let reserved: usize = of_org.map(|claim| claim.capacity).sum();
        let claimed = self.claimed_by_org.get(&org).copied().unwrap_or(0);
        let share = (self.capacity + self.in_flight.len()).div_ceil(SHARE_OF_ORGANIZATION);
        self.in_flight.of_organization(org) + reserved + claimed >= share
    }
}
