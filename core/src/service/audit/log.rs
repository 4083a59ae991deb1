//! Listing, reading and purging of the audit log.

use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::limits::PAGE_RECORDS_MAX;
use crate::model::{
    AuditAction, AuditLogId, MemberId, OrgId, Organization, OutcomeKind, ResourceKind, Timestamp,
};
use crate::operation::Operation;
use crate::request::Problems;
use crate::service::audit::entry::{AuditEntry, ENTRY_BITS, first_of_operation, least_id};
use crate::service::audit::pages::AuditPage;
use crate::service::operation::{Authorized, Prefetch};
use crate::service::page::{Listing, Page, PageRequest, SearchTime};
use crate::service::quota::audit_counter;
use crate::service::tasks::ScheduledTask;
use crate::service::{AuditLog, Caller, KnowledgeService};
use crate::store::{
    Direction, Key, KeyEntry, KeyRange, RangeRead, StoreExt, Transaction, decode_value,
};

/// Maximum number of pages of all actors in one read.
const PAGES_PER_READ: usize = 64;
/// Maximum number of operations of one actor in one read, and of pages of one operation.
const BATCH: usize = 16;
/// Maximum difference between the time in an operation's identifier and the time of its entries.
///
/// Entries whose identifiers are further from a requested time are not scanned.
const CLOCK_SLACK: Duration = Duration::from_secs(60 * 60);
/// Interval between two purges of an organisation's audit log.
pub(in crate::service) const AUDIT_PURGE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of pages that one commit purges.
const PURGED_PAGES_MAX: usize = 200;
/// Maximum number of counters of past days that one step deletes.
const PURGED_DAYS_MAX: usize = 100;

/// A filter of the audit log. An entry matches if it matches every field that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, bon::Builder)]
#[builder(on(String, into))]
#[non_exhaustive]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditFilter {
    /// Member that acted.
    pub actor_id: Option<MemberId>,
    /// Service account that acted for the actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via_id: Option<MemberId>,
    /// Action of the entry.
    pub action: Option<AuditAction>,
    /// Kind of the resource.
    pub resource_kind: Option<ResourceKind>,
    /// Identifier of the resource. Requires `resource_kind`.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::Identifier>")
    )]
    pub resource_id: Option<Uuid>,
    /// Outcome of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeKind>,
    /// Earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// Latest time, exclusive.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Reports the problems of the filter.
    pub(crate) fn check(&self, problems: &mut Problems) {
        if self.resource_id.is_some() && self.resource_kind.is_none() {
            let message = "is required with resource_id";
            problems.push("resource_kind", ProblemCode::Required, message);
        }
    }

    fn admits_page(&self, page: &AuditPage) -> bool {
        self.actor_id.is_none_or(|id| page.actor_id == Some(id))
            && self.via_id.is_none_or(|id| page.via_id == Some(id))
            && self.action.is_none_or(|action| page.action == action)
            && self.since.is_none_or(|since| since <= page.at)
            && self.until.is_none_or(|until| page.at < until)
    }

    fn admits(&self, entry: &AuditEntry) -> bool {
        let resource = entry.resource;
        self.resource_kind.is_none_or(|kind| resource.kind == kind)
            && self.resource_id.is_none_or(|id| resource.id == id)
            && self
                .outcome
                .is_none_or(|kind| entry.outcome.as_str() == kind.as_str())
    }
}

impl AuditLog<'_> {
    /// Returns the entry of the audit log with this identifier.
    ///
    /// # Errors
    /// Those of [`Operation::GetAuditEntry`].
    pub async fn get(self, caller: &Caller, id: AuditLogId) -> Result<AuditEntry, Error> {
        self.service
            .perform(Operation::GetAuditEntry, caller, |caller| async move {
                let org = caller.org();
                let up_to_id = keys::audit(org, id).successor();
                let page = newest(KeyRange::new(keys::audits(org).start, up_to_id), 1);
                let prefetch = Prefetch::none().and_range(page.clone());
                let mut op = caller.in_organization(None, prefetch).await?;
                let found = decode_pages(&op.transaction.scan(&page).await?)?;
                let found = found
                    .first()
                    .filter(|(_, page)| !page.is_hidden_from(&op.principal));
                let found = found.and_then(|(first, page)| {
                    let offset = id.0.as_u128() - first.0.as_u128();
                    page.entry(id, usize::try_from(offset).ok()?)
                });
                let found = found.filter(|entry| !self.service.is_audit_expired(entry.at, op.now));
                let found = found.filter(|entry| !entry.is_hidden_from(&op.principal));
                op.done(found.ok_or(Error::not_found(EntityKind::AuditEntry))?)
            })
            .await
    }

    /// Lists the entries of the audit log that match `filter`, newest first.
    ///
    /// Filters by actor and time are indexed; filters by service account, action, resource and
    /// outcome are applied to the scanned entries. A page with an entry that has scanned many may
    /// be short and still have a next cursor. It is empty only at the end, or if it found none for
    /// [`PAGE_SEARCH_TIME_MAX`](crate::limits::PAGE_SEARCH_TIME_MAX).
    ///
    /// # Errors
    /// Those of [`Operation::ListAuditEntries`]; [`Error::InvalidRequest`] for a resource
    /// identifier without its kind.
    pub async fn list(
        self,
        caller: &Caller,
        filter: &AuditFilter,
        page: &PageRequest,
    ) -> Result<Page<AuditEntry>, Error> {
        let mut problems = Problems::default();
        filter.check(&mut problems);
        problems.into_result()?;
        self.service
            .perform(Operation::ListAuditEntries, caller, |caller| async move {
                // An invalid request is only rejected once the caller is authorised.
                let scan = self
                    .service
                    .audit_scan(caller.org(), filter, page, caller.now);
                let prefetch = scan.as_ref().map_or(Prefetch::none(), AuditScan::prefetch);
                let mut caller = caller.authenticate(prefetch).await?;
                if let Ok(scan) = &scan {
                    let pages = scan.pages_of_first(caller.transaction());
                    if !pages.is_empty() {
                        caller.prefetch(Prefetch::none().and_ranges(pages)).await?;
                    }
                }
                let mut op = caller.in_organization(None).await?;
                let found = self
                    .service
                    .audit_page(&mut op, scan?, filter, page)
                    .await?;
                op.done(found)
            })
            .await
    }
}

impl KnowledgeService {
    /// Returns true if an entry of this time has expired and is treated as absent.
    pub(in crate::service) fn is_audit_expired(&self, at: Timestamp, now: Timestamp) -> bool {
        at.plus(self.limits().audit_retention) <= now
    }

    fn audit_scan(
        &self,
        org: OrgId,
        filter: &AuditFilter,
        request: &PageRequest,
        now: Timestamp,
    ) -> Result<AuditScan, Error> {
        let items_max = request.items_max()?;
        let mut rest = audit_listing(org, filter).rest(request.cursor.as_ref())?;
        let kept = now.minus(self.limits().audit_retention);
        let since = filter.since.map_or(kept, |since| since.max(kept));
        let oldest = least_id(since.minus(CLOCK_SLACK));
        rest = rest.after(&keys::audit(org, oldest));
        if let Some(until) = filter.until {
            rest = rest.before(&keys::audit(org, least_id(until.plus(CLOCK_SLACK))));
        }
        Ok(AuditScan::new(
            org,
            rest,
            filter.actor_id,
            oldest,
            items_max,
        ))
    }

    async fn audit_page(
        &self,
        op: &mut Authorized<'_>,
        mut scan: AuditScan,
        filter: &AuditFilter,
        request: &PageRequest,
    ) -> Result<Page<AuditEntry>, Error> {
        let (org, now) = (op.org(), op.now);
        let items_max = request.items_max()?;
        let listing = audit_listing(org, filter);
        let cursor = |id| listing.cursor(&keys::audit(org, id)).map(Some);
        let (mut data, mut looked_at) = (Vec::<AuditEntry>::new(), 0);
        let search = SearchTime::begin(self.env());
        loop {
            let pages = scan.next(&mut op.transaction).await?;
            let is_late = looked_at >= PAGE_RECORDS_MAX && search.is_over();
            if pages.is_empty() {
                let next_cursor = None;
                return Ok(Page { data, next_cursor });
            }
            for (first, page) in pages {
                // What is hidden is not counted: where a page ends must not tell of it.
                if page.is_hidden_from(&op.principal) {
                    continue;
                }
                let is_admitted = filter.admits_page(&page) && !self.is_audit_expired(page.at, now);
                for index in (0..page.len()).rev() {
                    let id = first.plus(index as u128);
                    if !scan.pages.contains(&keys::audit(org, id)) {
                        continue;
                    }
                    let entry = page.entry(id, index);
                    let known = entry.filter(|entry| !entry.is_hidden_from(&op.principal));
                    let Some(entry) = known else {
                        continue;
                    };
                    if is_admitted && filter.admits(&entry) {
                        if data.len() == items_max {
                            let last = data.last().map_or(id, |entry| entry.id);
                            let next_cursor = cursor(last)?;
                            return Ok(Page { data, next_cursor });
                        }
                        data.push(entry);
                    }
                    looked_at += 1;
                    if looked_at >= PAGE_RECORDS_MAX && (is_late || !data.is_empty()) {
                        // If the page is full, the next one scans the rest again.
                        let full = data.last().filter(|_| data.len() == items_max);
                        let next_cursor = cursor(full.map_or(id, |entry| entry.id))?;
                        return Ok(Page { data, next_cursor });
                    }
                }
            }
        }
    }

    /// Purges expired pages of an organisation's audit log and schedules the next purge.
    ///
    /// Returns the number of purged pages, and true if there is more to do now.
    ///
    /// Entries expire relative to the time for which the purge was scheduled. Every other task due
    /// by then has been run, so that no expired record still refers to a purged entry.
    pub(in crate::service) async fn purge_audit(
        &self,
        due: &Key,
        org: OrgId,
        now: Timestamp,
    ) -> Result<(u64, bool), Error> {
        let due_at = keys::due_at(due)
            .ok_or_else(|| Error::internal(format!("{due} is not a scheduled task")))?;
        let kept = due_at.minus(self.limits().audit_retention);
        let old = &keys::audits(org).before(&keys::audit(org, least_id(kept)));
        self.transact(|mut transaction| async move {
            // Of several concurrent callers, only one finds the task: each organisation has one.
            if transaction.get::<ScheduledTask>(due).await?.is_none() {
                return Ok(transaction.done((0, false)));
            }
            let owner = keys::org(org);
            let owner = transaction.unchecked().get::<Organization>(&owner).await?;
            if owner.is_none() {
                transaction.delete(due.clone());
                return Ok(transaction.done((0, false)));
            }
            let store = transaction.unchecked().store();
            let found = store
                .scan(old, PURGED_PAGES_MAX + 1, Direction::Forward)
                .await?;
            let today = audit_counter(org, now);
            let past = keys::audit_days(org).before(&today);
            let past = store
                .scan(&past, PURGED_DAYS_MAX, Direction::Forward)
                .await?;
            let is_all = found.len() <= PURGED_PAGES_MAX;
            let mut pages = Vec::with_capacity(found.len());
            for found in &found {
                let id = AuditLogId(keys::last_id(&found.key).unwrap_or_default());
                pages.push((id, decode_value::<AuditPage>(found)?));
            }
            if !is_all && let Some((last, _)) = pages.last() {
                // The pages of one operation are purged together.
                let unfinished = first_of_operation(*last);
                pages.retain(|(id, _)| first_of_operation(*id) != unfinished);
            }
            let mut purged = 0;
            for (id, page) in pages.iter().filter(|(_, page)| page.at < kept) {
                transaction.delete(keys::audit(org, *id));
                if let Some(actor) = page.actor_id.filter(|_| first_of_operation(*id) == *id) {
                    transaction.delete(keys::audit_actor(org, actor, *id));
                }
                purged += 1;
            }
            past.into_iter().for_each(|day| transaction.delete(day.key));
            transaction.delete(due.clone());
            let next = due_at.plus(AUDIT_PURGE_INTERVAL);
            let again = if !is_all && purged > 0 {
                // The rest of the same purge.
                due_at
            } else if next <= now {
                // After a time without maintenance: behind all other tasks that are due.
                now
            } else {
                next
            };
            let has_more = again <= now && (again > due_at || purged > 0);
            ScheduledTask::Audit(org).schedule(&mut transaction, again, self.env());
            Ok(transaction.done((purged, has_more)))
        })
        .await
    }
}

fn audit_listing(org: OrgId, filter: &AuditFilter) -> Listing {
    Listing::new("audit", filter, keys::audits(org), Direction::Reverse)
}

/// A scan of audit pages, newest first: of all actors, or of one actor by the index.
struct AuditScan {
    org: OrgId,
    /// Range of the entries to scan.
    pages: KeyRange,
    /// True if it reads operations of one actor first, false if it only reads pages.
    is_of_one_actor: bool,
    /// Next read of pages, or of operations of the actor; `None` at the end.
    next: Option<RangeRead>,
    /// True before the first step, whose reads were prefetched.
    is_prefetched: bool,
}

impl AuditScan {
    fn new(
        org: OrgId,
        pages: KeyRange,
        actor: Option<MemberId>,
        oldest: AuditLogId,
        items_max: usize,
    ) -> Self {
        let operations = actor.map(|actor| {
            let place = |entry| keys::audit_actor(org, actor, first_of_operation(entry));
            let operations = keys::audits_of(org, actor).after(&place(oldest));
            // The range includes the operation that contains its end.
            let newest = pages.end.as_ref().and_then(keys::last_id);
            match newest {
                Some(newest) => operations.before(&place(AuditLogId(newest)).successor()),
                None => operations,
            }
        });
        let is_of_one_actor = operations.is_some();
        let limit = if is_of_one_actor {
            BATCH
        } else {
            // One entry more than the page takes shows if others follow.
            (items_max + 1).clamp(BATCH, PAGES_PER_READ)
        };
        Self {
            org,
            next: Some(newest(operations.unwrap_or_else(|| pages.clone()), limit)),
            pages,
            is_of_one_actor,
            is_prefetched: true,
        }
    }

    /// Returns the first read, to be prefetched.
    fn prefetch(&self) -> Prefetch {
        Prefetch::none().and_ranges(self.next.clone())
    }

    /// Returns the reads of the pages of the operations that were prefetched.
    fn pages_of_first(&self, transaction: &Transaction) -> Vec<RangeRead> {
        let found = self
            .next
            .as_ref()
            .and_then(|next| transaction.prefetched().scan(next));
        found.map_or_else(Vec::new, |found| self.pages_of(found))
    }

    /// Returns the reads of the pages of operations; none if the scan is of all actors.
    fn pages_of(&self, operations: &[KeyEntry]) -> Vec<RangeRead> {
        let operations = operations.iter().filter(|_| self.is_of_one_actor);
        let reads = operations.map(|operation| {
            let first = AuditLogId(keys::last_id(&operation.key).unwrap_or_default());
            let behind = keys::audit(self.org, first.plus(1 << ENTRY_BITS));
            newest(KeyRange::new(keys::audit(self.org, first), behind), BATCH)
        });
        reads.collect()
    }

    /// Returns the next pages; none at the end.
    async fn next(
        &mut self,
        transaction: &mut Transaction,
    ) -> Result<Vec<(AuditLogId, AuditPage)>, Error> {
        while let Some(next) = self.next.take() {
            let is_prefetched = std::mem::take(&mut self.is_prefetched);
            if !is_prefetched {
                transaction.prefetch(Vec::new(), vec![next.clone()]).await?;
            }
            let found = transaction.scan(&next).await?;
            if let Some(last) = found.get(next.limit - 1) {
                self.next = Some(newest(next.range.before(&last.key), next.limit));
            }
            if !self.is_of_one_actor {
                return decode_pages(&found);
            }
            let reads = self.pages_of(&found);
            if !is_prefetched && !reads.is_empty() {
                transaction.prefetch(Vec::new(), reads.clone()).await?;
            }
            let mut pages = Vec::new();
            for read in &reads {
                pages.extend(decode_pages(&transaction.scan(read).await?)?);
            }
            if !pages.is_empty() {
                return Ok(pages);
            }
        }
        Ok(Vec::new())
    }
}

/// Returns the read of the last entries of a range, newest first.
fn newest(range: KeyRange, limit: usize) -> RangeRead {
    RangeRead {
        range,
        limit,
        direction: Direction::Reverse,
    }
}

fn decode_pages(found: &[KeyEntry]) -> Result<Vec<(AuditLogId, AuditPage)>, Error> {
    let pages = found.iter().map(|found| {
        let first = keys::last_id(&found.key);
        let first =
            first.ok_or_else(|| Error::internal(format!("{} is not an audit page", found.key)))?;
        Ok((AuditLogId(first), decode_value(found)?))
    });
    pages.collect()
}
