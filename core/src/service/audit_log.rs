//! Listing, reading and purging of the audit log.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use crate::access::{Credential, CredentialKind, permissions};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::PAGE_RECORDS_MAX;
use crate::model::{AuditLogId, MemberId, OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::service::kit::audit_entry::{AuditAction, AuditEntry, ENTRY_BITS, ResourceKind};
use crate::service::kit::audit_pages::AuditPage;
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::Principal;
use crate::service::kit::validate::Problems;
use crate::service::maintain::ScheduledTask;
use crate::store::{Direction, Key, KeyRange, Store, StoreExt, decode_value};

/// Maximum number of pages, or of operations of one actor, in one read.
const BATCH: usize = 16;
/// Maximum difference between the time in an operation's identifier and the time of its entries.
///
/// Entries whose identifiers are further from a requested time are not scanned.
const CLOCK_SLACK: Duration = Duration::from_secs(60 * 60);
/// Interval between two purges of an organisation's audit log.
pub(super) const AUDIT_PURGE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of pages that one commit purges.
const PURGED_PAGES_MAX: usize = 200;

/// A filter of the audit log. An entry matches if it matches every field that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditFilter {
    /// Member that acted.
    pub actor_id: Option<MemberId>,
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
            && self.action.is_none_or(|action| page.action == action)
            && self.since.is_none_or(|since| since <= page.at)
            && self.until.is_none_or(|until| page.at < until)
    }

    fn admits(&self, entry: &AuditEntry) -> bool {
        let resource = entry.resource;
        self.resource_kind.is_none_or(|kind| resource.kind == kind)
            && self.resource_id.is_none_or(|id| resource.id == id)
    }
}

/// Returns the lowest identifier with this time.
fn least_id(at: Timestamp) -> AuditLogId {
    let millis = u128::try_from(at.as_millis()).unwrap_or(0);
    AuditLogId(Uuid::from_u128(millis << 80))
}

/// Returns the first identifier of the operation that an entry belongs to.
fn first_of_operation(entry: AuditLogId) -> AuditLogId {
    let first = entry.0.as_u128() >> ENTRY_BITS << ENTRY_BITS;
    AuditLogId(Uuid::from_u128(first))
}

impl KnowledgeService {
    /// Returns the entry of the audit log with this identifier.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::Forbidden`] without `audit:read`; [`Error::NotFound`]
    /// for an unknown or expired entry.
    pub async fn audit_entry(
        &self,
        credential: &Credential,
        id: AuditLogId,
    ) -> Result<AuditEntry, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            caller.require(permissions::READ_AUDIT)?;
            let found = self.find_audit_entry(caller.org_id(), id).await?;
            let found = found.filter(|entry| !self.is_audit_expired(entry.at, now));
            let missing = Error::NotFound {
                what: "audit entry",
            };
            reading.done(found.ok_or(missing)?)
        })
        .await
    }

    async fn find_audit_entry(
        &self,
        org: OrgId,
        id: AuditLogId,
    ) -> Result<Option<AuditEntry>, Error> {
        let up_to_id = KeyRange::new(keys::audits(org).start, keys::audit(org, id).successor());
        let found = self
            .store()
            .scan_as::<AuditPage>(&up_to_id, 1, Direction::Reverse)
            .await?;
        let Some((key, page)) = found.into_iter().next() else {
            return Ok(None);
        };
        let first = keys::last_id(&key)
            .ok_or_else(|| Error::internal(format!("{key} is not an audit page")))?;
        let offset = id.0.as_u128() - first.as_u128();
        let index = usize::try_from(offset).ok();
        Ok(index.and_then(|index| page.value.entry(id, index)))
    }

    /// Returns true if an entry of this time has expired and is treated as absent.
    pub(super) fn is_audit_expired(&self, at: Timestamp, now: Timestamp) -> bool {
        at.plus(self.limits().audit_retention) <= now
    }

    /// Lists the entries of the audit log that match `filter`, newest first.
    ///
    /// A page scans a bounded number of entries. It may be short or even empty and still have a
    /// next cursor. Filters by actor and time are indexed; filters by action and resource are
    /// applied to the scanned entries.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page request, or a resource identifier without its
    /// kind; [`Error::Unauthenticated`]; [`Error::Forbidden`] without `audit:read`.
    pub async fn list_audit_entries(
        &self,
        credential: &Credential,
        filter: &AuditFilter,
        page: &PageRequest,
    ) -> Result<Page<AuditEntry>, Error> {
        let mut problems = Problems::default();
        filter.check(&mut problems);
        problems.into_result()?;
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            caller.require(permissions::LIST_AUDIT)?;
            reading.done(self.audit_page(caller.org_id(), filter, page, now).await?)
        })
        .await
    }

    async fn audit_page(
        &self,
        org: OrgId,
        filter: &AuditFilter,
        request: &PageRequest,
        now: Timestamp,
    ) -> Result<Page<AuditEntry>, Error> {
        let items_max = request.items_max()?;
        let listing = Listing::new("audit", filter, keys::audits(org), Direction::Reverse);
        let mut rest = listing.rest(request.cursor.as_ref())?;
        let kept = now.minus(self.limits().audit_retention);
        let since = filter.since.map_or(kept, |since| since.max(kept));
        let oldest = least_id(since.minus(CLOCK_SLACK));
        rest = rest.after(&keys::audit(org, oldest));
        if let Some(until) = filter.until {
            rest = rest.before(&keys::audit(org, least_id(until.plus(CLOCK_SLACK))));
        }
        let cursor = |id| listing.cursor(&keys::audit(org, id)).map(Some);
        let mut scan = AuditScan::new(self.store(), org, rest.clone(), filter.actor_id, oldest);
        let (mut data, mut looked_at) = (Vec::<AuditEntry>::new(), 0);
        loop {
            let pages = scan.next().await?;
            if pages.is_empty() {
                let next_cursor = None;
                return Ok(Page { data, next_cursor });
            }
            for (first, page) in pages {
                let is_admitted = filter.admits_page(&page) && !self.is_audit_expired(page.at, now);
                for index in (0..page.len()).rev() {
                    let id = first.plus(index as u128);
                    if !rest.contains(&keys::audit(org, id)) {
                        continue;
                    }
                    let entry = page.entry(id, index).filter(|_| is_admitted);
                    if let Some(entry) = entry.filter(|entry| filter.admits(entry)) {
                        if data.len() == items_max {
                            let last = data.last().map_or(id, |entry| entry.id);
                            let next_cursor = cursor(last)?;
                            return Ok(Page { data, next_cursor });
                        }
                        data.push(entry);
                    }
                    looked_at += 1;
                    if looked_at >= PAGE_RECORDS_MAX {
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
    pub(super) async fn purge_audit(
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
            if transaction.read::<ScheduledTask>(due).await?.is_none() {
                return transaction.done((0, false));
            }
            let store = transaction.unchecked();
            let found = store
                .scan(old, PURGED_PAGES_MAX + 1, Direction::Forward)
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
            transaction.done((purged, has_more))
        })
        .await
    }
}

/// A scan of audit pages, newest first: of all actors, or of one actor by the index.
struct AuditScan<'w> {
    store: &'w Arc<dyn Store>,
    org: OrgId,
    /// Range of the pages that have not been read.
    pages: KeyRange,
    /// Range of the operations of the actor that have not been read; `None` for all actors.
    operations: Option<KeyRange>,
}

impl<'w> AuditScan<'w> {
    fn new(
        store: &'w Arc<dyn Store>,
        org: OrgId,
        pages: KeyRange,
        actor: Option<MemberId>,
        oldest: AuditLogId,
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
        Self {
            store,
            org,
            pages,
            operations,
        }
    }

    /// Returns the next pages; none at the end.
    async fn next(&mut self) -> Result<Vec<(AuditLogId, AuditPage)>, Error> {
        let Some(operations) = &mut self.operations else {
            let found = read(self.store, &self.pages).await?;
            if let Some((oldest, _)) = found.last() {
                self.pages = self.pages.before(&keys::audit(self.org, *oldest));
            }
            return Ok(found);
        };
        loop {
            let found = self
                .store
                .scan(operations, BATCH, Direction::Reverse)
                .await?;
            let Some(oldest) = found.last() else {
                return Ok(Vec::new());
            };
            *operations = operations.before(&oldest.key);
            let mut pages = Vec::new();
            for operation in &found {
                let first = AuditLogId(keys::last_id(&operation.key).unwrap_or_default());
                let behind = first.plus(1 << ENTRY_BITS);
                let its_own =
                    KeyRange::new(keys::audit(self.org, first), keys::audit(self.org, behind));
                pages.extend(read(self.store, &its_own).await?);
            }
            if !pages.is_empty() {
                return Ok(pages);
            }
        }
    }
}

/// Returns the last pages of a range, newest first.
async fn read(
    store: &Arc<dyn Store>,
    range: &KeyRange,
) -> Result<Vec<(AuditLogId, AuditPage)>, Error> {
    let found = store
        .scan_as::<AuditPage>(range, BATCH, Direction::Reverse)
        .await?;
    let pages = found.into_iter().map(|(key, page)| {
        let first = keys::last_id(&key);
        let first = first.ok_or_else(|| Error::internal(format!("{key} is not an audit page")))?;
        Ok((AuditLogId(first), page.value))
    });
    pages.collect()
}
