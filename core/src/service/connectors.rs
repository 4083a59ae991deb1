//! Connectors: made, paused, and what their syncs report.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::events::Occasion;
use super::maintain::Due;
use super::validate::{Problems, take_place};
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::{Error, ProblemCode};
use crate::model::{
    ConnectorHealth, ConnectorId, ConnectorScope, ConnectorStatus, EventType, OrgId, Timestamp,
    WorkspaceId,
};
use crate::store::{Key, Transaction, keys};

/// One bucket of the error window.
const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long an error counts.
const ERROR_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
/// How many failures in a row make a connector failing.
const FAILING_FAILURES_MIN: u32 = 3;
/// The shortest and the longest sync interval.
const SYNC_INTERVAL_MIN: Duration = Duration::from_secs(60);
const SYNC_INTERVAL_MAX: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// The longest error text, in characters; what is longer is cut.
const ERROR_CHARS_MAX: usize = 500;

/// A connector as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connector {
    /// The identifier, of the service account that it runs as.
    pub id: ConnectorId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// What it connects to.
    pub kind: String,
    /// The account at the other end.
    pub account_label: String,
    /// Whose knowledge it brings.
    pub scope: ConnectorScope,
    /// How often it syncs, in seconds.
    pub sync_interval_seconds: u64,
    /// Whether it is switched off.
    pub is_paused: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A new connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConnector {
    /// What it connects to: 1 to 128 characters.
    pub kind: String,
    /// The account at the other end: 1 to 128 characters.
    pub account_label: String,
    /// Whose knowledge it brings.
    pub scope: ConnectorScope,
    /// How often it syncs: a minute to 31 days.
    pub sync_interval: Duration,
}

/// What a sync came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncReport {
    /// Success or failure.
    pub outcome: SyncOutcome,
    /// When the next one is planned; without it, one interval from now.
    pub next_sync_at: Option<Timestamp>,
}

/// Success or failure of a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// It went well.
    Success,
    /// It failed.
    Failure {
        /// Why, for people; cut at 500 characters.
        error: String,
        /// Whether the account at the other end was refused.
        is_authentication: bool,
    },
}

/// What the syncs of a connector reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConnectorState {
    last_sync: Option<Timestamp>,
    last_error: Option<String>,
    is_auth_error: bool,
    last_success_at: Option<Timestamp>,
    next_sync_at: Option<Timestamp>,
    failures_in_a_row: u32,
    /// Errors by the hour they fell into, at most 25 of them, oldest first.
    errors: Vec<ErrorBucket>,
    /// The status that was last announced.
    announced: Option<ConnectorStatus>,
    /// When the next look is planned.
    look_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ErrorBucket {
    hour: Timestamp,
    count: u32,
}

impl ErrorBucket {
    /// From when on the bucket no longer counts: an error counts for 24 hours at least.
    fn ends(self) -> Timestamp {
        self.hour.plus(HOUR + ERROR_WINDOW)
    }
}

/// How a connector is at some time, and when time alone changes that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Health {
    status: ConnectorStatus,
    error_count_24h: u32,
    pub(super) changes_at: Option<Timestamp>,
}

impl ConnectorState {
    pub(super) fn health(&self, connector: &Connector, now: Timestamp) -> Health {
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

    fn note(&mut self, connector: &Connector, report: &SyncReport, now: Timestamp) {
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

    pub(super) fn summary(
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

/// A connector in its workspace.
#[derive(Clone, Copy)]
struct Place {
    org: OrgId,
    workspace: WorkspaceId,
    connector: ConnectorId,
}

impl Place {
    fn key(self) -> Key {
        keys::connector(self.org, self.workspace, self.connector)
    }

    fn state_key(self) -> Key {
        keys::connector_state(self.org, self.workspace, self.connector)
    }
}

impl KnowledgeService {
    /// Makes a connector.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values or a workspace with as many connectors as it may have;
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without
    /// `connector:manage` there.
    pub async fn create_connector(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        new: &NewConnector,
    ) -> Result<Connector, Error> {
        let mut problems = Problems::default();
        problems.name("kind", &new.kind);
        problems.name("account_label", &new.account_label);
        if !(SYNC_INTERVAL_MIN..=SYNC_INTERVAL_MAX).contains(&new.sync_interval) {
            problems.push(
                "sync_interval_seconds",
                ProblemCode::InvalidValue,
                "must be between a minute and 31 days",
            );
        }
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let org = caller.org_id();
            caller
                .enter(&mut transaction, workspace, needs::CREATE_CONNECTOR)
                .await?;
            let limit = self.limits().connectors_per_workspace_max;
            let counter = keys::connector_count(org, workspace);
            let what = ("workspace", "connectors");
            take_place(&mut transaction, counter, limit, "body", what).await?;
            let connector = Connector {
                id: ConnectorId(self.env().uuid_at(now)),
                workspace_id: workspace,
                kind: new.kind.clone(),
                account_label: new.account_label.clone(),
                scope: new.scope,
                sync_interval_seconds: new.sync_interval.as_secs(),
                is_paused: false,
                created_at: now,
            };
            let state = ConnectorState {
                announced: Some(ConnectorStatus::Pending),
                ..ConnectorState::default()
            };
            let place = Place {
                org,
                workspace,
                connector: connector.id,
            };
            transaction.create(place.key(), &connector);
            transaction.create(place.state_key(), &state);
            Operation::begin(self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::ConnectorCreate,
                (ResourceKind::Connector, connector.id.0),
                &connector,
            );
            transaction.done(connector)
        })
        .await
    }

    /// Takes the report of a sync. A status that it changes is announced.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or connector; [`Error::Forbidden`]
    /// without `connector:report` there.
    pub async fn report_sync(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        connector: ConnectorId,
        report: &SyncReport,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            caller
                .enter(&mut transaction, workspace, needs::REPORT_SYNC)
                .await?;
            let place = Place {
                org: caller.org_id(),
                workspace,
                connector,
            };
            let (connector, mut state) = read_connector(&mut transaction, place).await?;
            state.note(&connector, report, now);
            self.write_state(&mut transaction, place, &connector, state, now);
            transaction.done(())
        })
        .await
    }

    /// Pauses a connector or lets it go on. A status that this changes is announced.
    ///
    /// # Errors
    /// As [`KnowledgeService::report_sync`], with the action `connector:manage`.
    pub async fn pause_connector(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        connector: ConnectorId,
        is_paused: bool,
    ) -> Result<Connector, Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            caller
                .enter(&mut transaction, workspace, needs::PAUSE_CONNECTOR)
                .await?;
            let place = Place {
                org: caller.org_id(),
                workspace,
                connector,
            };
            let (before, state) = read_connector(&mut transaction, place).await?;
            if before.is_paused == is_paused {
                return transaction.done(before);
            }
            let after = Connector {
                is_paused,
                ..before.clone()
            };
            transaction.put(place.key(), &after);
            self.write_state(&mut transaction, place, &after, state, now);
            Operation::begin(self.env(), now).changed(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::ConnectorPause,
                (ResourceKind::Connector, connector.0),
                &before,
                &after,
            );
            transaction.done(after)
        })
        .await
    }

    /// Announces the status of a connector that time alone changed, and plans the next look.
    pub(super) async fn announce_status(
        &self,
        due: &Key,
        org: OrgId,
        workspace: WorkspaceId,
        connector: ConnectorId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let place = Place {
            org,
            workspace,
            connector,
        };
        self.transact(|mut transaction| async move {
            transaction.delete(due.clone());
            match read_connector(&mut transaction, place).await {
                Ok((connector, state)) => {
                    // Each report plans a look of its own: only the last one planned goes on.
                    if state.look_at.is_none_or(|planned| planned <= now) {
                        self.write_state(&mut transaction, place, &connector, state, now);
                    }
                }
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
            transaction.done(())
        })
        .await
    }

    /// Writes the state, announces a status that is not the one announced last, and plans when to look again.
    fn write_state(
        &self,
        transaction: &mut Transaction,
        place: Place,
        connector: &Connector,
        mut state: ConnectorState,
        now: Timestamp,
    ) {
        let health = state.health(connector, now);
        if state.announced != Some(health.status) {
            let data = json!({
                "workspace_id": place.workspace,
                "service_account_id": place.connector,
                "from": state.announced,
                "to": health.status,
            });
            let occasion = Occasion {
                org: place.org,
                workspace: place.workspace,
                at: now,
            };
            occasion.emit(
                transaction,
                self.env(),
                EventType::ConnectorStatusChanged,
                data,
            );
            state.announced = Some(health.status);
        }
        state.look_at = health.changes_at;
        transaction.put(place.state_key(), &state);
        if let Some(at) = health.changes_at {
            let due = Due::Connector {
                org: place.org,
                workspace: place.workspace,
                connector: place.connector,
            };
            due.schedule(transaction, at, self.env());
        }
    }
}

async fn read_connector(
    transaction: &mut Transaction,
    place: Place,
) -> Result<(Connector, ConnectorState), Error> {
    let connector = transaction.read::<Connector>(&place.key()).await?;
    let connector = connector.ok_or(Error::NotFound { what: "connector" })?;
    let state = transaction
        .read::<ConnectorState>(&place.state_key())
        .await?
        .unwrap_or_default();
    Ok((connector, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

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
    fn the_first_status_that_applies_stands() {
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
    fn an_error_counts_for_a_day_and_leaves_with_its_hour() {
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
