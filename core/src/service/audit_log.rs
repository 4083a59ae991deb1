//! The audit log as it is read and swept: listed, the newest entries first, and kept for a time.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use super::KnowledgeService;
use super::audit::{AuditAction, AuditEntry, ENTRY_BITS, ResourceKind};
use super::audit_pages::AuditPage;
use super::maintain::Due;
use super::page::{Listing, Page, PageRequest};
use super::validate::Problems;
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::{Error, ProblemCode};
use crate::limits::PAGE_RECORDS_MAX;
use crate::model::{AuditLogId, MemberId, OrgId, Timestamp};
use crate::keys;
use crate::store::{Direction, Key, KeyRange, Store, StoreExt, decode_value};

/// How many pages of entries, or operations of one actor, are read at once.
const BATCH: usize = 16;
/// How far the identifier of an operation, made when it began, may be from the time that its entries say: an identifier
/// further from the time that is asked for is not looked at.
const CLOCK_SLACK: Duration = Duration::from_secs(60 * 60);
/// How long after one sweep of an organisation's audit log the next one is due.
pub(super) const AUDIT_SWEEP_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// How many pages one commit sweeps, at most.
const SWEPT_PAGES_MAX: usize = 200;

/// Which entries of the audit log a list shows: those for which everything holds that is set here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditFilter {
    /// Who acted.
    pub actor_id: Option<MemberId>,
    /// What was done.
    pub action: Option<AuditAction>,
    /// The kind of what it was done to.
    pub resource_kind: Option<ResourceKind>,
    /// The identifier of what it was done to, with its kind.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::Identifier>")
    )]
    pub resource_id: Option<Uuid>,
    /// The earliest time, itself included.
    pub since: Option<Timestamp>,
    /// The latest time, itself excluded.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Notes what is wrong with the filter.
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

/// The least identifier that is made at a time.
fn least_id(at: Timestamp) -> AuditLogId {
    let millis = u128::try_from(at.as_millis()).unwrap_or(0);
    AuditLogId(Uuid::from_u128(millis << 80))
}

/// The first identifier of the operation that an entry belongs to.
fn first_of_operation(entry: AuditLogId) -> AuditLogId {
    let first = entry.0.as_u128() >> ENTRY_BITS << ENTRY_BITS;
    AuditLogId(Uuid::from_u128(first))
}

impl KnowledgeService {
    /// Whether an entry of this time counts as absent.
    pub(super) fn is_audit_expired(&self, at: Timestamp, now: Timestamp) -> bool {
        at.plus(self.limits().audit_retention) <= now
    }

    /// The entries of the audit log that `filter` admits, the newest first.
    ///
    /// A page looks through a bounded number of entries, so that it may have fewer than asked for, also none, and go on
    /// all the same. By actor and by time the log is read where the entries are; by action and by resource it is looked
    /// through.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page, or a resource without its kind; [`Error::Unauthenticated`];
    /// [`Error::Forbidden`] without `audit:read`.
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
                Principal::recognise(&mut reading, credential, CredentialKind::Bearer, now).await?;
            caller.require(needs::LIST_AUDIT)?;
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
        let mut walk = Walk::new(self.store(), org, rest.clone(), filter.actor_id, oldest);
        let (mut data, mut looked_at) = (Vec::<AuditEntry>::new(), 0);
        loop {
            let pages = walk.next().await?;
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
                        // Behind a full page nothing was found yet: it is looked through again.
                        let full = data.last().filter(|_| data.len() == items_max);
                        let next_cursor = cursor(full.map_or(id, |entry| entry.id))?;
                        return Ok(Page { data, next_cursor });
                    }
                }
            }
        }
    }

    /// Sweeps what is over of an organisation's audit log, and says when to look again. How many pages went, and
    /// whether there is more to do now.
    ///
    /// What counts is the time at which the sweep was due: whatever else was due by then, and refers to what goes, was
    /// dealt with before.
    pub(super) async fn sweep_audit(
        &self,
        due: &Key,
        org: OrgId,
        now: Timestamp,
    ) -> Result<(u64, bool), Error> {
        let due_at =
            keys::due_at(due).ok_or_else(|| Error::internal(format!("{due} is no due entry")))?;
        let kept = due_at.minus(self.limits().audit_retention);
        let old = &keys::audits(org).before(&keys::audit(org, least_id(kept)));
        self.transact(|mut transaction| async move {
            // Of several callers one sweeps: there is never more than the one entry.
            if transaction.read::<Due>(due).await?.is_none() {
                return transaction.done((0, false));
            }
            let store = transaction.unchecked();
            let found = store
                .scan(old, SWEPT_PAGES_MAX + 1, Direction::Forward)
                .await?;
            let is_all = found.len() <= SWEPT_PAGES_MAX;
            let mut pages = Vec::with_capacity(found.len());
            for found in &found {
                let id = AuditLogId(keys::last_id(&found.key).unwrap_or_default());
                pages.push((id, decode_value::<AuditPage>(found)?));
            }
            if !is_all && let Some((last, _)) = pages.last() {
                // The pages of one operation go together.
                let unfinished = first_of_operation(*last);
                pages.retain(|(id, _)| first_of_operation(*id) != unfinished);
            }
            let mut swept = 0;
            for (id, page) in pages.iter().filter(|(_, page)| page.at < kept) {
                transaction.delete(keys::audit(org, *id));
                if let Some(actor) = page.actor_id.filter(|_| first_of_operation(*id) == *id) {
                    transaction.delete(keys::audit_actor(org, actor, *id));
                }
                swept += 1;
            }
            transaction.delete(due.clone());
            let next = due_at.plus(AUDIT_SWEEP_INTERVAL);
            let again = if !is_all && swept > 0 {
                // The rest of what was over then.
                due_at
            } else if next <= now {
                // After a time without maintenance: behind everything else that is due.
                now
            } else {
                next
            };
            let has_more = again <= now && (again > due_at || swept > 0);
            Due::Audit(org).schedule(&mut transaction, again, self.env());
            transaction.done((swept, has_more))
        })
        .await
    }
}

/// The pages of the audit log from the newest to the oldest: of everybody, or of one actor by the index.
struct Walk<'w> {
    store: &'w Arc<dyn Store>,
    org: OrgId,
    /// Where the pages stand that were not read yet.
    pages: KeyRange,
    /// Where the operations of the actor stand that were not read yet.
    operations: Option<KeyRange>,
}

impl<'w> Walk<'w> {
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
            // The operation that the end is within is one of them.
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

    /// Some pages; none at the end.
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

/// The last pages in a range, the newest first.
async fn read(
    store: &Arc<dyn Store>,
    range: &KeyRange,
) -> Result<Vec<(AuditLogId, AuditPage)>, Error> {
    let found = store
        .scan_as::<AuditPage>(range, BATCH, Direction::Reverse)
        .await?;
    let pages = found.into_iter().map(|(key, page)| {
        let first = keys::last_id(&key);
        let first = first.ok_or_else(|| Error::internal(format!("{key} is no audit page")))?;
        Ok((AuditLogId(first), page.value))
    });
    pages.collect()
}
