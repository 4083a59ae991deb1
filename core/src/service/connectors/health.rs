//! Health of a connector, derived from its sync reports and the time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{ConnectorHealth, ConnectorStatus, Timestamp};
use crate::service::connectors::types::{Connector, ConnectorDetails, SyncOutcome, SyncReport};

/// Length of a bucket of the error window.
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Minimum time for which an error counts.
const ERROR_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
/// Minimum number of consecutive failures of a failing connector.
const FAILING_FAILURES_MIN: u32 = 3;
/// Maximum length of an error text, in characters; a longer one is truncated.
const ERROR_CHARS_MAX: usize = 500;

/// State of a connector, from its sync reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectorState {
    last_sync: Option<Timestamp>,
    last_error: Option<String>,
    is_auth_error: bool,
    last_success_at: Option<Timestamp>,
    next_sync_at: Option<Timestamp>,
    failures_in_a_row: u32,
    /// Errors by the hour in which they occurred, at most 25 buckets, oldest first.
    errors: Vec<ErrorBucket>,
    /// Status that was published last.
    pub(crate) announced: Option<ConnectorStatus>,
    /// Time of the next scheduled check of the status.
    pub(crate) look_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ErrorBucket {
    hour: Timestamp,
    count: u32,
}

impl ErrorBucket {
    /// Returns the time from which the bucket no longer counts.
    ///
    /// An error counts for at least 24 hours.
    fn ends(self) -> Timestamp {
        self.hour.plus(HOUR + ERROR_WINDOW)
    }
}

/// The health of a connector at some time, and the time at which it changes without a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) status: ConnectorStatus,
    error_count_24h: u32,
    pub(crate) changes_at: Option<Timestamp>,
}

impl ConnectorState {
    pub(crate) fn health(&self, connector: &Connector, now: Timestamp) -> Health {
        let live = || self.errors.iter().filter(|bucket| now < bucket.ends());
        let error_count_24h = live().map(|bucket| bucket.count).sum();
        let patience = Duration::from_secs(connector.sync_interval_seconds).saturating_mul(2);
        let stale_at = self
            .last_success_at
            .unwrap_or(connector.created_at)
            .plus(patience);
        let status = if connector.is_paused {
            ConnectorStatus::Paused
        } else if self.is_auth_error {
            ConnectorStatus::AuthRequired
        } else if self.last_sync.is_none() {
            ConnectorStatus::Pending
        } else if self.failures_in_a_row >= FAILING_FAILURES_MIN {
            ConnectorStatus::Failing
        } else if now >= stale_at {
            ConnectorStatus::Stale
        } else if error_count_24h > 0 {
            ConnectorStatus::Degraded
        } else {
            ConnectorStatus::Healthy
        };
        let window_slides = live().map(|bucket| bucket.ends()).min();
        let goes_stale = (now < stale_at).then_some(stale_at);
        Health {
            status,
            error_count_24h,
            changes_at: [window_slides, goes_stale].into_iter().flatten().min(),
        }
    }

    pub(crate) fn note(&mut self, connector: &Connector, report: &SyncReport, now: Timestamp) {
        self.last_sync = Some(now);
        let interval = Duration::from_secs(connector.sync_interval_seconds);
        self.next_sync_at = Some(report.next_sync_at.unwrap_or_else(|| now.plus(interval)));
        self.errors.retain(|bucket| now < bucket.ends());
        match &report.outcome {
            SyncOutcome::Success => {
                self.last_success_at = Some(now);
                self.last_error = None;
                self.is_auth_error = false;
                self.failures_in_a_row = 0;
            }
            SyncOutcome::Failure {
                error,
                is_authentication,
            } => {
                self.last_error = Some(error.chars().take(ERROR_CHARS_MAX).collect());
                self.is_auth_error = *is_authentication;
                self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
                self.count_error(now);
            }
        }
    }

    fn count_error(&mut self, now: Timestamp) {
        let hour_millis = i64::try_from(HOUR.as_millis()).unwrap_or(i64::MAX);
        let hour = Timestamp::from_millis(now.as_millis().div_euclid(hour_millis) * hour_millis);
        match self.errors.iter_mut().find(|bucket| bucket.hour == hour) {
            Some(bucket) => bucket.count = bucket.count.saturating_add(1),
            None => self.errors.push(ErrorBucket { hour, count: 1 }),
        }
    }

    /// Returns the connector with its current health.
    pub(crate) fn details(&self, connector: Connector, now: Timestamp) -> ConnectorDetails {
        let health = self.health(&connector, now);
        ConnectorDetails {
            connector,
            status: health.status,
            last_sync: self.last_sync,
            last_error: self.last_error.clone(),
            last_success_at: self.last_success_at,
            next_sync_at: self.next_sync_at,
            error_count_24h: health.error_count_24h,
        }
    }

    pub(crate) fn summary(
        &self,
        connector: &Connector,
        workspace_slug: &str,
        health: Health,
    ) -> ConnectorHealth {
        ConnectorHealth {
            service_account_id: connector.id,
            kind: connector.kind.clone(),
            account_label: connector.account_label.clone(),
            scope: connector.scope,
            workspace_slug: workspace_slug.to_owned(),
            status: health.status,
            last_sync: self.last_sync,
            last_error: self.last_error.clone(),
            last_success_at: self.last_success_at,
            next_sync_at: self.next_sync_at,
            error_count_24h: health.error_count_24h,
        }
    }
}

impl ConnectorDetails {
    /// Returns the details of a new connector.
    pub(crate) fn of_new(connector: Connector) -> Self {
        let now = connector.created_at;
        ConnectorState::default().details(connector, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    use crate::model::{ConnectorId, ConnectorScope, WorkspaceId};

    const INTERVAL: Duration = Duration::from_secs(60 * 60);
    const NOON: Timestamp = Timestamp::UNIX_EPOCH;

    fn connector() -> Connector {
        Connector {
            id: ConnectorId(Uuid::nil()),
            workspace_id: WorkspaceId(Uuid::nil()),
            kind: "wiki".to_owned(),
            account_label: "team".to_owned(),
            scope: ConnectorScope::Workspace,
            sync_interval_seconds: INTERVAL.as_secs(),
            is_paused: false,
            created_at: NOON,
        }
    }

    fn failure(is_authentication: bool) -> SyncReport {
        let outcome = SyncOutcome::Failure {
            error: "no answer".to_owned(),
            is_authentication,
        };
        SyncReport {
            outcome,
            next_sync_at: None,
        }
    }

    const SUCCESS: SyncReport = SyncReport {
        outcome: SyncOutcome::Success,
        next_sync_at: None,
    };

    fn status_after(reports: &[SyncReport], now: Timestamp) -> ConnectorStatus {
        let mut state = ConnectorState::default();
        reports
            .iter()
            .for_each(|report| state.note(&connector(), report, NOON));
        state.health(&connector(), now).status
    }

    #[test]
    fn connector_status_is_first_that_applies() {
        assert_eq!(status_after(&[], NOON), ConnectorStatus::Pending);
        assert_eq!(status_after(&[SUCCESS], NOON), ConnectorStatus::Healthy);
        assert_eq!(
            status_after(&[SUCCESS], NOON.plus(2 * INTERVAL)),
            ConnectorStatus::Stale
        );
        assert_eq!(
            status_after(&[failure(false), SUCCESS], NOON),
            ConnectorStatus::Degraded
        );
        assert_eq!(
            status_after(&[failure(false)], NOON),
            ConnectorStatus::Degraded
        );
        assert_eq!(
            status_after(&[failure(false), failure(false), failure(false)], NOON),
            ConnectorStatus::Failing
        );
        assert_eq!(
            status_after(&[failure(true)], NOON),
            ConnectorStatus::AuthRequired
        );
        let paused = Connector {
            is_paused: true,
            ..connector()
        };
        assert_eq!(
            ConnectorState::default().health(&paused, NOON).status,
            ConnectorStatus::Paused
        );
    }

    #[test]
    fn connector_error_expires_a_day_later_with_its_hour() {
        let mut state = ConnectorState::default();
        state.note(
            &connector(),
            &failure(false),
            NOON.plus(Duration::from_secs(59 * 60)),
        );
        state.note(
            &connector(),
            &SUCCESS,
            NOON.plus(Duration::from_secs(24 * 60 * 60)),
        );
        let leaves = NOON.plus(ERROR_WINDOW + HOUR);
        let before = state.health(&connector(), leaves.minus(Duration::from_millis(1)));
        assert_eq!(
            (before.status, before.error_count_24h),
            (ConnectorStatus::Degraded, 1)
        );
        assert_eq!(before.changes_at, Some(leaves));
        let after = state.health(&connector(), leaves);
        assert_eq!(
            (after.status, after.error_count_24h),
            (ConnectorStatus::Healthy, 0)
        );
    }
}
