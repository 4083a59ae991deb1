//! Maintenance: purges expired records, settles deleted roles and publishes status changes.
//!
//! A record that has expired is treated as absent from that moment on, purged or not. An index
//! ordered by due time leads to it. The organisations take turns (`turns`).

mod task_turns;
mod turns;

use std::collections::BTreeSet;
use std::slice;

use serde::Deserialize;

use crate::error::Error;
use crate::keys;
use crate::model::{CredentialId, OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::service::tasks::ScheduledTask;
use crate::store::{Key, KeyEntry, decode_value};

pub(super) use self::task_turns::TaskTurns;

/// Maximum number of expired records that one commit deletes, with those that go with each.
const EXPIRIES_PER_COMMIT: usize = 100;
/// Maximum number of steps of settling deleted roles in one call.
const SETTLEMENTS_PER_CALL: u32 = 4;

/// Result of one call of [`KnowledgeService::maintain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// Number of tasks that were run, without the daily purges of audit logs.
    pub purged: u64,
    /// Number of purged pages of audit logs.
    pub audit_pages_purged: u64,
    /// Due time of the oldest task; `None` if none was due.
    pub oldest_due: Option<Timestamp>,
    /// Number of holders of deleted roles that were moved to the replacing role.
    pub holders_rewritten: u64,
    /// True if there is more to do now: call again.
    pub has_more: bool,
}

/// The field that all records with an expiry share, and what indexes MCP keys and tokens.
#[derive(Deserialize)]
struct Expiring {
    expires_at: Timestamp,
    #[serde(default)]
    created_with: Option<CredentialId>,
    #[serde(default)]
    created_through: Option<CredentialId>,
}

impl Expiring {
    /// Returns the keys of an MCP key or a token in the index of what credentials created.
    ///
    /// The scheduled task cannot name them: a rotation that moves them leaves the task of before.
    fn index_entries(&self, record: &Key) -> Vec<Key> {
        let record_text = record.to_string();
        let is_indexed = ["mcp_key", "token"].contains(&keys::family_name(&record_text));
        let place = keys::org_of(record).zip(keys::last_id(record));
        let Some((org, id)) = place.filter(|_| is_indexed) else {
            return Vec::new();
        };
        let creators = [self.created_with, self.created_through];
        let creators = creators.into_iter().flatten();
        creators
            .map(|creator| keys::created_with(org, creator, id))
            .collect()
    }
}

/// # Maintenance
impl KnowledgeService {
    /// Runs a bounded number of the tasks that are due at `now`. Organisations take turns.
    ///
    /// Call it again while the report says that there is more. Concurrent callers do no harm: every
    /// step is a commit with checks.
    ///
    /// # Errors
    /// Those of the store; the tasks completed before remain done.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::time::Duration;
    ///
    /// // A real host passes the current time, every minute or so.
    /// let year = Duration::from_secs(366 * 24 * 60 * 60);
    /// let now = service.env().now().plus(2 * year);
    /// loop {
    ///     let report = service.maintain(now).await?;
    ///     println!("{} tasks, {} audit pages", report.purged, report.audit_pages_purged);
    ///     if !report.has_more {
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn maintain(&self, now: Timestamp) -> Result<MaintenanceReport, Error> {
        let mut report = MaintenanceReport::default();
        let (mut settlements, mut completed) = (0, 0);
        let mut expiries = Vec::new();
        let due = self.next_tasks(now).await?;
        report.oldest_due = due.oldest;
        for found in &due.tasks {
            let kind = decode_value(found);
            if let Ok(ScheduledTask::Expire { records, counter }) = &kind
                && let Ok(expiry) = Expiry::new(&found.key, now, records, counter.as_ref())
            {
                expiries.push(expiry);
                continue;
            }
            let is_settlement = matches!(kind, Ok(ScheduledTask::Redirects(_)));
            let is_look = matches!(kind, Ok(ScheduledTask::Audit(_)));
            if is_settlement && settlements == SETTLEMENTS_PER_CALL {
                report.has_more = true;
                continue;
            }
            match self.run_task(found, now, &mut report).await {
                Ok(()) => {
                    completed += 1;
                    report.purged += u64::from(!is_look);
                    settlements += u32::from(is_settlement);
                }
                Err(Error::Internal { detail }) => log_skipped(&found.key, &detail),
                Err(error) => {
                    let org = kind.ok().and_then(|task| task.org()).into_iter().collect();
                    self.fenced_orgs(error, org).await?;
                }
            }
        }
        for batch in expiries.chunks(EXPIRIES_PER_COMMIT) {
            let expired = self.expire_all(batch).await?;
            completed += expired;
            report.purged += u64::try_from(expired).unwrap_or(u64::MAX);
        }
        report.has_more |= self.end_turn(due, completed);
        Ok(report)
    }

    async fn run_task(
        &self,
        entry: &KeyEntry,
        now: Timestamp,
        report: &mut MaintenanceReport,
    ) -> Result<(), Error> {
        let task = decode_value::<ScheduledTask>(entry)?;
        let rest = match task {
            ScheduledTask::Expire { records, counter } => {
                let expiry = Expiry::new(&entry.key, now, &records, counter.as_ref())?;
                return self.expire(&[expiry]).await;
            }
            ScheduledTask::Connector {
                org,
                workspace,
                connector,
            } => {
                return self
                    .announce_status(&entry.key, org, workspace, connector, now)
                    .await;
            }
            ScheduledTask::Audit(org) => {
                let (purged, has_more) = self.purge_audit(&entry.key, org, now).await?;
                report.audit_pages_purged += purged;
                report.has_more |= has_more;
                if !has_more {
                    self.purge_activity(org, now).await?;
                    self.purge_memory_changes(org, now).await?;
                    self.purge_unused_labels(org).await?;
                }
                return Ok(());
            }
            ScheduledTask::Event { org, event } => {
                return self.purge_event(entry, org, event, now).await;
            }
            ScheduledTask::Retention { org, workspace } => {
                let workspace = (org, workspace);
                report.has_more |= self.erase_expired(&entry.key, workspace, now).await?;
                return Ok(());
            }
            ScheduledTask::Redirects(org) => {
                let (rewritten, has_more) = self.settle_redirects(org).await?;
                report.holders_rewritten += rewritten;
                has_more.then_some(task)
            }
            ScheduledTask::FormerEndpoint { org, endpoint } => {
                let has_more = self.clear_former_endpoint(org, endpoint).await?;
                has_more.then_some(task)
            }
            ScheduledTask::FormerChat { org, chat } => {
                let has_more = self.clear_former_chat(org, chat).await?;
                has_more.then_some(task)
            }
            ScheduledTask::Erasure { org, erasure } => {
                let has_more = self.continue_erasure(org, erasure).await?;
                has_more.then_some(task)
            }
            ScheduledTask::FormerMember { org, member, after } => {
                self.clear_former_member(org, member, after).await?
            }
            ScheduledTask::FormerWorkspace {
                org,
                workspace,
                key,
            } => self.clear_former_workspace(org, workspace, key).await?,
            ScheduledTask::FormerOrg { org, key } => self.clear_former_org(org, key).await?,
        };
        report.has_more |= rest.is_some();
        self.requeue(entry, rest.as_ref(), now).await
    }

    /// Deletes a task and schedules what is left of it behind the other due tasks.
    async fn requeue(
        &self,
        found: &KeyEntry,
        rest: Option<&ScheduledTask>,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            // Of several concurrent callers, only one finds the task and reschedules it.
            if transaction
                .get::<ScheduledTask>(&found.key)
                .await?
                .is_some()
            {
                transaction.delete(found.key.clone());
                if let Some(rest) = rest {
                    rest.schedule(&mut transaction, now, self.env());
                }
            }
            Ok(transaction.done(()))
        })
        .await
    }

    /// Deletes expired records in one commit. If one of them is corrupt, or of an organisation whose
    /// writes are held, the others are deleted one by one.
    ///
    /// Returns the number of completed tasks.
    async fn expire_all(&self, expiries: &[Expiry]) -> Result<usize, Error> {
        match self.expire(expiries).await {
            Ok(()) => return Ok(expiries.len()),
            Err(Error::Internal { .. }) => {}
            Err(error) => drop(self.fenced_orgs(error, orgs_of(expiries)).await?),
        }
        let mut completed = 0;
        for expiry in expiries {
            match self.expire(slice::from_ref(expiry)).await {
                Ok(()) => completed += 1,
                Err(Error::Internal { detail }) => log_skipped(&expiry.due, &detail),
                Err(error) => {
                    let org = orgs_of(slice::from_ref(expiry));
                    self.fenced_orgs(error, org).await?;
                }
            }
        }
        Ok(completed)
    }

    /// Deletes records, except where the first one is gone or was rewritten and expires later.
    ///
    /// Records that go with a first one that is gone may belong to its successor by now.
    async fn expire(&self, expiries: &[Expiry]) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let firsts = expiries.iter().filter_map(|expiry| expiry.records.first());
            transaction
                .prefetch(firsts.cloned().collect(), Vec::new())
                .await?;
            let mut deleted = Vec::new();
            for expiry in expiries {
                transaction.delete(expiry.due.clone());
                let Some(first) = expiry.records.first() else {
                    continue;
                };
                // A record that was renewed has several tasks.
                if deleted.contains(&first) {
                    continue;
                }
                let found = transaction.get::<Expiring>(first).await?;
                let Some(found) = found.filter(|found| found.expires_at <= expiry.now) else {
                    continue;
                };
                deleted.push(first);
                for entry in found.index_entries(first) {
                    transaction.delete(entry);
                }
                for record in &expiry.records {
                    transaction.delete(record.clone());
                }
                if let Some(counter) = &expiry.counter {
                    transaction.add(counter.clone(), -1);
                }
            }
            Ok(transaction.done(()))
        })
        .await
    }
}

/// Logs a task with corrupt data, which stays for repair and does not block the others.
fn log_skipped(key: &Key, detail: &str) {
    tracing::error!(%key, %detail, "scheduled task failed; skipped");
}

/// Returns the organisations whose records have expired.
fn orgs_of(expiries: &[Expiry]) -> BTreeSet<OrgId> {
    let records = expiries.iter().flat_map(|expiry| &expiry.records);
    records.filter_map(keys::org_of).collect()
}

/// Records that have expired, with the key of their task.
struct Expiry {
    due: Key,
    now: Timestamp,
    records: Vec<Key>,
    counter: Option<Key>,
}

impl Expiry {
    fn new(
        due: &Key,
        now: Timestamp,
        records: &[String],
        counter: Option<&String>,
    ) -> Result<Self, Error> {
        let key =
            |text: &String| Key::new(text).map_err(|error| Error::internal(error.to_string()));
        Ok(Self {
            due: due.clone(),
            now,
            records: records.iter().map(key).collect::<Result<_, _>>()?,
            counter: counter.map(key).transpose()?,
        })
    }
}
