//! Retention of what a workspace keeps.
//!
//! Chats that have expired count as absent from that moment on. Maintenance erases them, led by one
//! scheduled task per workspace, which is due no later than the first chat expires: the index of
//! the chats by their newest message then begins with those to erase.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::Credential;
use crate::error::Error;
use crate::keys;
use crate::model::{AuditAction, ResourceKind, Timestamp, WorkspaceId};
use crate::operation::Operation;
use crate::request::request;
use crate::request::rules::RetentionDays;
use crate::service::KnowledgeService;
use crate::service::kit::act::{Act, Wants};
use crate::service::kit::principal::Denial;
use crate::service::tasks::ScheduledTask;
use crate::store::Transaction;

request! {
    /// New retention of a workspace. What it does not name is kept.
    #[derive(Default)]
    pub struct NewRetention {
        /// Days without a new message after which a chat is erased, 1 to 36,500.
        chat_days: Option<u64> as Option<RetentionDays>,
    }
}

/// Retention of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Retention {
    /// Days without a new message after which a chat is erased; `null` if chats are kept.
    pub chat_days: Option<u64>,
}

/// Retention of a workspace as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRetention {
    pub(crate) retention: Retention,
    /// Time up to which chats had expired when the retention was changed; they never come back.
    pub(crate) chats_expired_until: Option<Timestamp>,
    /// Due time of the task that erases what has expired.
    pub(crate) next: Option<Timestamp>,
}

impl StoredRetention {
    fn chat_period(&self) -> Option<Duration> {
        let days = self.retention.chat_days?;
        Some(Duration::from_secs(days * 24 * 60 * 60))
    }

    /// Returns the time of the newest message of the newest chat that has expired at `now`.
    fn chats_expired_at(&self, now: Timestamp) -> Option<Timestamp> {
        let period = self.chat_period().map(|period| now.minus(period));
        period.max(self.chats_expired_until)
    }

    /// Returns true if a chat with a newest message of this time has not expired at `now`.
    pub(crate) fn keeps_chat(&self, last_message_at: Timestamp, now: Timestamp) -> bool {
        let expired = self.chats_expired_at(now);
        expired.is_none_or(|expired| last_message_at > expired)
    }

    /// Moves the task that erases what has expired to `next`, and stores the retention.
    ///
    /// Without a time nothing remains to be erased, and what is left of the retention is removed.
    pub(crate) fn schedule(
        mut self,
        transaction: &mut Transaction,
        task: ScheduledTask,
        next: Option<Timestamp>,
    ) {
        let ScheduledTask::Retention { org, workspace } = task else {
            return;
        };
        let due = |at| keys::due(at, workspace.0);
        let key = keys::retention(org, workspace);
        if let Some(before) = self.next.filter(|before| Some(*before) != next) {
            transaction.delete(due(before));
        }
        self.next = next;
        match next {
            Some(at) => {
                transaction.put(due(at), &task);
                transaction.put(key, &self);
            }
            None => transaction.delete(key),
        }
    }

    /// Returns the time at which the next sweep is due, if `oldest` is the time of the newest
    /// message of the chat that expires first.
    pub(crate) fn next_sweep(
        &self,
        oldest: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let period = self.chat_period()?;
        Some(oldest.unwrap_or(now).plus(period))
    }
}

/// # Retention
impl KnowledgeService {
    /// Reads the retention of a workspace.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace;
    /// [`Error::Forbidden`] without `dashboard:read` there.
    pub async fn get_retention(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
    ) -> Result<Retention, Error> {
        self.act(Operation::GetRetention, credential, |caller| async move {
            let wanted = |org| Wants::keys([keys::retention(org, workspace)]);
            let mut act = caller.in_workspace(workspace, &wanted).await?;
            let found = act.retention(workspace).await?;
            act.done(found.retention)
        })
        .await
    }

    /// Sets the retention of a workspace, at once for everything that it has.
    ///
    /// Chats that have expired are absent from that moment on, and [`maintain`](Self::maintain)
    /// erases them. A longer retention never brings them back, erased or not.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a number of days outside its range;
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace;
    /// [`Error::Forbidden`] without `erasure:manage` there, and for a credential with a list of
    /// audience labels.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::service::NewRetention;
    ///
    /// let new = NewRetention::builder().chat_days(90).build();
    /// let retention = service.set_retention(&owner, workspace, &new).await?;
    /// assert_eq!(retention.chat_days, Some(90));
    /// assert_eq!(service.get_retention(&viewer, workspace).await?, retention);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_retention(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        new: &NewRetention,
    ) -> Result<Retention, Error> {
        self.checks().check(new)?;
        self.act(Operation::SetRetention, credential, |caller| async move {
            let wanted = |org| Wants::keys([keys::retention(org, workspace)]);
            let mut act = caller.in_workspace(workspace, &wanted).await?;
            // It erases chats of all members.
            if act.caller.has_audience_list() {
                return Err(Denial::OutOfScope.into());
            }
            let (org, now) = (act.org(), act.now);
            let before = act.retention(workspace).await?;
            let retention = Retention {
                chat_days: new.chat_days,
            };
            if before.retention == retention {
                return act.done(retention);
            }
            let after = StoredRetention {
                retention: retention.clone(),
                chats_expired_until: before.chats_expired_at(now),
                next: before.next,
            };
            let task = ScheduledTask::Retention { org, workspace };
            after.schedule(&mut act.transaction, task, Some(now));
            let resource = (ResourceKind::Workspace, workspace.0);
            let action = AuditAction::RetentionUpdate;
            act.changed(action, resource, &before.retention, &retention);
            act.done(retention)
        })
        .await
    }
}

impl Act<'_> {
    /// Returns the retention of a workspace; the commit checks it.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn retention(
        &mut self,
        workspace: WorkspaceId,
    ) -> Result<StoredRetention, Error> {
        let key = keys::retention(self.org(), workspace);
        let found = self.transaction.read::<StoredRetention>(&key).await?;
        Ok(found.unwrap_or_default())
    }
}
