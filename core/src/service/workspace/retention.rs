//! Retention of what a workspace keeps.
//!
//! Chats that have expired count as absent from that moment on. Maintenance erases them, led by one
//! scheduled task per workspace, which is due no later than the first chat expires: the index of
//! the chats by their newest message then begins with those to erase.
//!
//! Memories expire by their sensitivity, which their labels have, and by the time of their last
//! change, which their content has. A daily sweep of the workspace deletes those that have expired;
//! until then they remain.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::retention_sweep::{RetentionState, RetentionSweep};
use crate::access::Credential;
use crate::error::Error;
use crate::keys;
use crate::model::{
    AuditAction, MemoryContent, MemoryLabels, ResourceKind, SensitivityLabel, Timestamp,
    WorkspaceId,
};
use crate::operation::Operation;
use crate::request::request;
use crate::request::rules::{Object, RetentionDays};
use crate::service::KnowledgeService;
use crate::service::erasures::work::ErasureWork;
use crate::service::kit::act::{Act, Wants};
use crate::service::kit::principal::Denial;

request! {
    /// Days without a change of its title or text after which a memory is deleted, by its
    /// sensitivity label. Memories with a label that is not named are kept.
    #[derive(Default)]
    pub struct MemoryDays {
        /// Days for public memories, 1 to 36,500.
        #[schemars(skip_serializing_if = "Option::is_none")]
        public: Option<u64> as Option<RetentionDays>,
        /// Days for internal memories, 1 to 36,500.
        #[schemars(skip_serializing_if = "Option::is_none")]
        internal: Option<u64> as Option<RetentionDays>,
        /// Days for confidential memories, 1 to 36,500.
        #[schemars(skip_serializing_if = "Option::is_none")]
        confidential: Option<u64> as Option<RetentionDays>,
        /// Days for restricted memories, 1 to 36,500.
        #[schemars(skip_serializing_if = "Option::is_none")]
        restricted: Option<u64> as Option<RetentionDays>,
    }
}

request! {
    /// New retention of a workspace. What it does not name is kept.
    #[derive(Default)]
    pub struct NewRetention {
        /// Days without a new message after which a chat is erased, 1 to 36,500.
        chat_days: Option<u64> as Option<RetentionDays>,
        /// Days without a change after which a memory is deleted, by its sensitivity label.
        memory_days: Option<MemoryDays> as Option<Object<MemoryDays>>,
    }
}

/// Retention of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Retention {
    /// Days without a new message after which a chat is erased; `null` if chats are kept.
    pub chat_days: Option<u64>,
    /// Days without a change after which a memory is deleted, by its sensitivity label.
    #[serde(default)]
    pub memory_days: MemoryDays,
}

impl From<&NewRetention> for Retention {
    fn from(new: &NewRetention) -> Self {
        Self {
            chat_days: new.chat_days,
            memory_days: new.memory_days.clone().unwrap_or_default(),
        }
    }
}

/// Retention of a workspace as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRetention {
    pub(crate) retention: Retention,
    /// Time up to which chats had expired when the retention was changed; they never come back.
    pub(crate) chats_expired_until: Option<Timestamp>,
    /// Due time of the next sweep, in a store of an earlier version, as are the fields below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    work: Option<ErasureWork>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memories_next: Option<Timestamp>,
}

/// Returns the period of this number of days.
fn period(days: u64) -> Duration {
    Duration::from_secs(days * 24 * 60 * 60)
}

impl StoredRetention {
    pub(super) fn chat_period(&self) -> Option<Duration> {
        self.retention.chat_days.map(period)
    }

    /// Returns this retention after a change at `now`. Chats that have expired stay so.
    pub(super) fn changed_to(self, retention: &Retention, now: Timestamp) -> Self {
        Self {
            chats_expired_until: self.chats_expired_at(now),
            retention: retention.clone(),
            ..self
        }
    }

    pub(super) fn has_memory_days(&self) -> bool {
        self.retention.memory_days != MemoryDays::default()
    }

    /// Takes the progress of the sweeps, if an earlier version stored it here.
    pub(super) fn take_sweep(&mut self) -> Option<RetentionSweep> {
        let next = self.next.take()?;
        Some(RetentionSweep {
            next: Some(next),
            work: self.work.take(),
            memories_next: self.memories_next.take(),
        })
    }

    /// Returns true if a memory has expired at `now`. Without its content it counts as expired if
    /// it can be.
    pub(crate) fn is_expired(
        &self,
        labels: &MemoryLabels,
        content: Option<&MemoryContent>,
        now: Timestamp,
    ) -> bool {
        let days = &self.retention.memory_days;
        let days = match labels.sensitivity {
            SensitivityLabel::Public => days.public,
            SensitivityLabel::Internal => days.internal,
            SensitivityLabel::Confidential => days.confidential,
            SensitivityLabel::Restricted => days.restricted,
        };
        days.is_some_and(|days| {
            content.is_none_or(|content| content.updated_at.plus(period(days)) <= now)
        })
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

    /// Returns the time at which a chat with a newest message of this time expires, if it does.
    pub(crate) fn chat_expires_at(&self, last_message_at: Timestamp) -> Option<Timestamp> {
        let period = self.chat_period();
        period.map(|period| last_message_at.plus(period))
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
    /// Memories that have expired remain until [`maintain`](Self::maintain) deletes them: at once
    /// after a change of the retention, and within a day and the time of a sweep after they expire.
    /// It judges each by its present label and time of change. With them go the recalls that cite no
    /// other stored memory.
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
            let wanted = |org| Wants::keys(RetentionState::keys(org, workspace));
            let mut act = caller.in_workspace(workspace, &wanted).await?;
            // It erases chats of all members, and memories for anybody.
            if act.caller.has_audience_list() {
                return Err(Denial::OutOfScope.into());
            }
            let (org, now) = (act.org(), act.now);
            let state = RetentionState::read(&mut act.transaction, org, workspace).await?;
            let (before, retention) = (&state.stored.retention, Retention::from(new));
            if *before == retention {
                return act.done(retention);
            }
            let resource = (ResourceKind::Workspace, workspace.0);
            let action = AuditAction::RetentionUpdate;
            act.changed(action, resource, before, &retention);
            let after = state.changed_to(&retention, now);
            after.schedule(&mut act.transaction, Some(now));
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
