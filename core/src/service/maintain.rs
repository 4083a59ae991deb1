//! Maintenance: purges expired records, settles deleted roles and publishes status changes.
//!
//! A record that has expired is treated as absent from that moment on, purged or not. An index
//! ordered by due time leads to it.

use std::slice;

use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::error::Error;
use crate::keys;
use crate::model::{
    ChatId, ConnectorId, CredentialId, EndpointId, ErasureId, EventId, MemberId, OrgId, Timestamp,
    WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::store::{Direction, Key, KeyEntry, StoreExt, Transaction, decode_value};

/// Maximum number of tasks that one call runs, which bounds its work.
const TASKS_PER_CALL: usize = 500;
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

/// A task that is due at some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "StoredTask")]
pub(crate) enum ScheduledTask {
    /// Deletes records, if the `expires_at` of the first one has passed.
    Expire {
        /// Keys of the records.
        records: Vec<String>,
        /// Key of a counter that includes the first record.
        counter: Option<String>,
    },
    /// Publishes a status of a connector that results only from the passage of time.
    Connector {
        org: OrgId,
        workspace: WorkspaceId,
        connector: ConnectorId,
    },
    /// Settles the deleted roles of an organisation: rewrites their holders.
    Redirects(OrgId),
    /// Purges the audit log of an organisation. Each organisation always has one such task.
    Audit(OrgId),
    /// Purges an event and its deliveries at the end of their retention.
    Event { org: OrgId, event: EventId },
    /// Deletes some of the deliveries of a deleted endpoint.
    FormerEndpoint { org: OrgId, endpoint: EndpointId },
    /// Deletes some of the records that a removed member left.
    FormerMember {
        org: OrgId,
        member: MemberId,
        /// Last credential of the organisation that was examined.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<CredentialId>,
    },
    /// Deletes some of the messages of a deleted chat.
    FormerChat { org: OrgId, chat: ChatId },
    /// Takes a step of an erasure.
    Erasure { org: OrgId, erasure: ErasureId },
    /// Takes a step of the removal of a workspace.
    FormerWorkspace {
        org: OrgId,
        workspace: WorkspaceId,
        /// Key of the last role in a workspace that was examined.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Takes a step of the removal of an organisation.
    FormerOrg {
        org: OrgId,
        /// Key of the last scheduled task that was examined.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Erases some of what has expired in a workspace.
    Retention { org: OrgId, workspace: WorkspaceId },
}

/// A task as it is read from the store.
///
/// The variants share the type of their fields, because a decoder for each would be several times
/// as large.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredTask {
    Expire(TaskFields),
    Connector(TaskFields),
    Redirects(OrgId),
    Audit(OrgId),
    Event(TaskFields),
    FormerEndpoint(TaskFields),
    FormerMember(TaskFields),
    FormerChat(TaskFields),
    Erasure(TaskFields),
    FormerWorkspace(TaskFields),
    FormerOrg(TaskFields),
    Retention(TaskFields),
}

#[derive(Deserialize)]
struct TaskFields {
    records: Option<Vec<String>>,
    counter: Option<String>,
    org: Option<OrgId>,
    workspace: Option<WorkspaceId>,
    connector: Option<ConnectorId>,
    event: Option<EventId>,
    endpoint: Option<EndpointId>,
    member: Option<MemberId>,
    after: Option<CredentialId>,
    chat: Option<ChatId>,
    erasure: Option<ErasureId>,
    key: Option<String>,
}

impl TryFrom<StoredTask> for ScheduledTask {
    type Error = &'static str;

    fn try_from(stored: StoredTask) -> Result<Self, Self::Error> {
        let task = match stored {
            StoredTask::Redirects(org) => return Ok(Self::Redirects(org)),
            StoredTask::Audit(org) => return Ok(Self::Audit(org)),
            StoredTask::Expire(task) => task.records.map(|records| Self::Expire {
                records,
                counter: task.counter,
            }),
            StoredTask::Connector(task) => task.org.zip(task.workspace).zip(task.connector).map(
                |((org, workspace), connector)| Self::Connector {
                    org,
                    workspace,
                    connector,
                },
            ),
            StoredTask::Event(TaskFields { org, event, .. }) => org
                .zip(event)
                .map(|(org, event)| Self::Event { org, event }),
            StoredTask::FormerEndpoint(task) => {
                let fields = task.org.zip(task.endpoint);
                fields.map(|(org, endpoint)| Self::FormerEndpoint { org, endpoint })
            }
            StoredTask::FormerMember(task) => {
                let fields = task.org.zip(task.member);
                fields.map(|(org, member)| Self::FormerMember {
                    org,
                    member,
                    after: task.after,
                })
            }
            StoredTask::FormerChat(TaskFields { org, chat, .. }) => org
                .zip(chat)
                .map(|(org, chat)| Self::FormerChat { org, chat }),
            StoredTask::Erasure(task) => {
                let fields = task.org.zip(task.erasure);
                fields.map(|(org, erasure)| Self::Erasure { org, erasure })
            }
            StoredTask::FormerWorkspace(task) => {
                let fields = task.org.zip(task.workspace);
                fields.map(|(org, workspace)| Self::FormerWorkspace {
                    org,
                    workspace,
                    key: task.key,
                })
            }
            StoredTask::FormerOrg(TaskFields { org, key, .. }) => {
                org.map(|org| Self::FormerOrg { org, key })
            }
            StoredTask::Retention(task) => {
                let fields = task.org.zip(task.workspace);
                fields.map(|(org, workspace)| Self::Retention { org, workspace })
            }
        };
        task.ok_or("a field of the task is missing")
    }
}

/// The field that all records with an expiry share.
#[derive(Deserialize)]
struct Expiring {
    expires_at: Timestamp,
}

impl ScheduledTask {
    /// Creates the expiry of the record under `key`.
    pub(super) fn record(key: Key) -> Self {
        Self::Expire {
            records: vec![key.to_string()],
            counter: None,
        }
    }

    /// Adds a record that is deleted together with the first.
    pub(super) fn and(mut self, key: Key) -> Self {
        if let Self::Expire { records, .. } = &mut self {
            records.push(key.to_string());
        }
        self
    }

    /// Adds a counter that is decremented with the deletion.
    pub(super) fn counted_by(mut self, key: Key) -> Self {
        if let Self::Expire { counter, .. } = &mut self {
            *counter = Some(key.to_string());
        }
        self
    }

    /// Returns the organisation that the task belongs to.
    pub(super) fn org(&self) -> Option<OrgId> {
        match self {
            Self::Expire { records, .. } => {
                let keys = records.iter().map(|record| Key::new(record.clone()));
                keys.flatten().find_map(|key| keys::org_of(&key))
            }
            Self::Redirects(org)
            | Self::Audit(org)
            | Self::Connector { org, .. }
            | Self::Event { org, .. }
            | Self::FormerEndpoint { org, .. }
            | Self::FormerMember { org, .. }
            | Self::FormerChat { org, .. }
            | Self::Erasure { org, .. }
            | Self::FormerWorkspace { org, .. }
            | Self::FormerOrg { org, .. }
            | Self::Retention { org, .. } => Some(*org),
        }
    }

    /// Adds the task to the index.
    pub(super) fn schedule(&self, transaction: &mut Transaction, at: Timestamp, env: &Env) {
        transaction.put(keys::due(at, env.uuid()), self);
    }
}

/// # Maintenance
impl KnowledgeService {
    /// Runs a bounded number of the tasks that are due at `now`.
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
        let due = self
            .store()
            .scan(&keys::due_until(now), TASKS_PER_CALL, Direction::Forward)
            .await?;
        report.oldest_due = due.first().and_then(|found| keys::due_at(&found.key));
        for found in &due {
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
                Err(error) => return Err(error),
            }
        }
        for batch in expiries.chunks(EXPIRIES_PER_COMMIT) {
            let expired = self.expire_all(batch).await?;
            completed += expired;
            report.purged += u64::try_from(expired).unwrap_or(u64::MAX);
        }
        report.has_more |= due.len() == TASKS_PER_CALL && completed > 0;
        Ok(report)
    }

    async fn run_task(
        &self,
        found: &KeyEntry,
        now: Timestamp,
        report: &mut MaintenanceReport,
    ) -> Result<(), Error> {
        match decode_value::<ScheduledTask>(found)? {
            ScheduledTask::Expire { records, counter } => {
                let expiry = Expiry::new(&found.key, now, &records, counter.as_ref())?;
                self.expire(&[expiry]).await
            }
            ScheduledTask::Connector {
                org,
                workspace,
                connector,
            } => {
                self.announce_status(&found.key, org, workspace, connector, now)
                    .await
            }
            ScheduledTask::Audit(org) => {
                let (purged, has_more) = self.purge_audit(&found.key, org, now).await?;
                report.audit_pages_purged += purged;
                report.has_more |= has_more;
                Ok(())
            }
            ScheduledTask::Redirects(org) => {
                let (rewritten, has_more) = self.settle_redirects(org).await?;
                report.holders_rewritten += rewritten;
                report.has_more |= has_more;
                let rest = has_more.then_some(ScheduledTask::Redirects(org));
                self.requeue(found, rest.as_ref(), now).await
            }
            ScheduledTask::Event { org, event } => self.purge_event(found, org, event, now).await,
            ScheduledTask::FormerEndpoint { org, endpoint } => {
                let has_more = self.clear_former_endpoint(org, endpoint).await?;
                report.has_more |= has_more;
                let rest = has_more.then_some(ScheduledTask::FormerEndpoint { org, endpoint });
                self.requeue(found, rest.as_ref(), now).await
            }
            ScheduledTask::FormerMember { org, member, after } => {
                let rest = self.clear_former_member(org, member, after).await?;
                report.has_more |= rest.is_some();
                self.requeue(found, rest.as_ref(), now).await
            }
            ScheduledTask::FormerChat { org, chat } => {
                let has_more = self.clear_former_chat(org, chat).await?;
                report.has_more |= has_more;
                let rest = has_more.then_some(ScheduledTask::FormerChat { org, chat });
                self.requeue(found, rest.as_ref(), now).await
            }
            ScheduledTask::Erasure { org, erasure } => {
                let has_more = self.continue_erasure(org, erasure).await?;
                report.has_more |= has_more;
                let rest = has_more.then_some(ScheduledTask::Erasure { org, erasure });
                self.requeue(found, rest.as_ref(), now).await
            }
            ScheduledTask::FormerWorkspace {
                org,
                workspace,
                key,
            } => {
                let rest = self.clear_former_workspace(org, workspace, key).await?;
                report.has_more |= rest.is_some();
                self.requeue(found, rest.as_ref(), now).await
            }
            ScheduledTask::FormerOrg { org, key } => {
                let rest = self.clear_former_org(org, key).await?;
                report.has_more |= rest.is_some();
                self.requeue(found, rest.as_ref(), now).await
            }
            ScheduledTask::Retention { org, workspace } => {
                let place = (org, workspace);
                report.has_more |= self.erase_expired(&found.key, place, now).await?;
                Ok(())
            }
        }
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
                .read::<ScheduledTask>(&found.key)
                .await?
                .is_some()
            {
                transaction.delete(found.key.clone());
                if let Some(rest) = rest {
                    rest.schedule(&mut transaction, now, self.env());
                }
            }
            transaction.done(())
        })
        .await
    }

    /// Deletes expired records in one commit. If one of them is corrupt, the others are deleted one
    /// by one.
    ///
    /// Returns the number of completed tasks.
    async fn expire_all(&self, expiries: &[Expiry]) -> Result<usize, Error> {
        match self.expire(expiries).await {
            Ok(()) => return Ok(expiries.len()),
            Err(Error::Internal { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut completed = 0;
        for expiry in expiries {
            match self.expire(slice::from_ref(expiry)).await {
                Ok(()) => completed += 1,
                Err(Error::Internal { detail }) => log_skipped(&expiry.due, &detail),
                Err(error) => return Err(error),
            }
        }
        Ok(completed)
    }

    /// Deletes records, except where the first one was rewritten meanwhile and expires later.
    async fn expire(&self, expiries: &[Expiry]) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let firsts = expiries.iter().filter_map(|expiry| expiry.records.first());
            transaction
                .read_ahead(firsts.cloned().collect(), Vec::new())
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
                let found = transaction.read::<Expiring>(first).await?;
                if found.is_none_or(|record| record.expires_at > expiry.now) {
                    continue;
                }
                deleted.push(first);
                for record in &expiry.records {
                    transaction.delete(record.clone());
                }
                if let Some(counter) = &expiry.counter {
                    transaction.add(counter.clone(), -1);
                }
            }
            transaction.done(())
        })
        .await
    }
}

/// Logs a task with corrupt data, which stays for repair and does not block the others.
fn log_skipped(key: &Key, detail: &str) {
    tracing::error!(%key, %detail, "scheduled task failed; skipped");
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
        let key = |text: &String| {
            Key::new(text.clone()).map_err(|error| Error::internal(error.to_string()))
        };
        Ok(Self {
            due: due.clone(),
            now,
            records: records.iter().map(key).collect::<Result<_, _>>()?,
            counter: counter.map(key).transpose()?,
        })
    }
}
