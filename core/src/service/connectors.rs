//! Connectors: made, paused, and what their syncs report.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::connector_health::ConnectorState;
use super::events::Occasion;
use super::maintain::Due;
use super::validate::{Problems, take_place};
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::{Error, ProblemCode};
use crate::model::{
    ConnectorId, ConnectorScope, ConnectorStatus, EventType, OrgId, Timestamp, WorkspaceId,
};
use crate::store::{Key, Transaction, keys};

/// The shortest and the longest sync interval.
const SYNC_INTERVAL_MIN: Duration = Duration::from_secs(60);
const SYNC_INTERVAL_MAX: Duration = Duration::from_secs(31 * 24 * 60 * 60);

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
        problems.name("kind", &new.kind, self.limits());
        problems.name("account_label", &new.account_label, self.limits());
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
            let mut state = ConnectorState::default();
            state.announced = Some(ConnectorStatus::Pending);
            let place = Place {
                org,
                workspace,
                connector: connector.id,
            };
            transaction.create(place.key(), &connector);
            transaction.create(place.state_key(), &state);
            Operation::begin(&transaction, self.env(), now).created(
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
            Operation::begin(&transaction, self.env(), now).changed(
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
