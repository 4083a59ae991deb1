//! Retention of a workspace as it is stored, and what it keeps.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::new_retention::{MemoryDays, Retention};
use crate::model::{MemoryContent, MemoryLabels, SensitivityLabel, Timestamp};

/// Retention of a workspace as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRetention {
    pub(crate) retention: Retention,
    /// Time up to which chats had expired when the retention was changed; they never come back.
    pub(crate) chats_expired_until: Option<Timestamp>,
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
    pub(super) fn changed_to(&self, retention: &Retention, now: Timestamp) -> Self {
        Self {
            chats_expired_until: self.chats_expired_at(now),
            retention: retention.clone(),
        }
    }

    pub(super) fn has_memory_days(&self) -> bool {
        self.retention.memory_days != MemoryDays::default()
    }

    /// Returns true if a workspace is swept daily even while it has no recalls.
    ///
    /// It is if memories expire, and if the retention has to stay for the recalls to come.
    pub(super) fn is_swept_daily(&self) -> bool {
        let others = Retention {
            chat_days: None,
            ..self.retention.clone()
        };
        others != Retention::default()
    }

    /// Returns true if a recall that was registered at this time has not expired at `now`.
    pub(super) fn keeps_recall(&self, created_at: Timestamp, now: Timestamp) -> bool {
        created_at.plus(period(self.retention.recall_days)) > now
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
