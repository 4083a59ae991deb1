//! Connectors: made, listed, read, changed and deleted. What their syncs report has a file of its own.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind, state};
use super::connector_health::ConnectorState;
use super::page::{Listing, Page, PageRequest};
use super::validate::{Problems, take_place};
use crate::access::{Credential, Need, needs};
use crate::error::{Error, ProblemCode};
use crate::limits::Limits;
use crate::model::{ConnectorId, ConnectorScope, ConnectorStatus, OrgId, Timestamp, WorkspaceId};
use crate::keys;
use crate::store::{Direction, Key, KeyEntry, StoreExt, Transaction, decode_value};

/// The shortest and the longest sync interval.
pub(crate) const SYNC_INTERVAL_MIN: Duration = Duration::from_secs(60);
pub(crate) const SYNC_INTERVAL_MAX: Duration = Duration::from_secs(31 * 24 * 60 * 60);

/// A connector as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Connector {
    /// The identifier, of the service account that it runs as.
    pub id: ConnectorId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// What it connects to.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub kind: String,
    /// The account at the other end.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
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
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewConnector {
    /// What it connects to: 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub kind: String,
    /// The account at the other end: 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub account_label: String,
    /// Whose knowledge it brings.
    pub scope: ConnectorScope,
    /// How often it syncs: a minute to 31 days.
    #[cfg_attr(
        feature = "openapi",
        schemars(
            rename = "sync_interval_seconds",
            with = "crate::schema::SyncIntervalSeconds"
        )
    )]
    pub sync_interval: Duration,
}

/// A connector with how it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ConnectorDetails {
    /// As it is configured.
    #[serde(flatten)]
    pub connector: Connector,
    /// How it is, derived from its reports and the time.
    pub status: ConnectorStatus,
    /// When it last tried; `null` before the first time.
    pub last_sync: Option<Timestamp>,
    /// What went wrong at the last try; `null` after a success.
    pub last_error: Option<String>,
    /// When it last succeeded.
    pub last_success_at: Option<Timestamp>,
    /// When it tries next.
    pub next_sync_at: Option<Timestamp>,
    /// The failures of the last 24 hours, in a sliding window of hourly buckets.
    pub error_count_24h: u32,
}

impl ConnectorDetails {
    /// One that was just made.
    pub(crate) fn of_new(connector: Connector) -> Self {
        let now = connector.created_at;
        ConnectorState::default().details(connector, now)
    }
}

/// The request to change a connector; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ConnectorUpdate {
    /// The account at the other end: 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub account_label: Option<String>,
    /// Whose knowledge it brings.
    pub scope: Option<ConnectorScope>,
    /// How often it syncs: a minute to 31 days.
    #[cfg_attr(
        feature = "openapi",
        schemars(
            rename = "sync_interval_seconds",
            with = "Option<crate::schema::SyncIntervalSeconds>"
        )
    )]
    pub sync_interval: Option<Duration>,
    /// Switches it off or on.
    pub is_paused: Option<bool>,
}

impl NewConnector {
    pub(crate) fn check(&self, problems: &mut Problems, limits: &Limits) {
        problems.name("kind", &self.kind, limits);
        problems.name("account_label", &self.account_label, limits);
        check_interval(problems, self.sync_interval);
    }
}

impl ConnectorUpdate {
    pub(crate) fn check(&self, problems: &mut Problems, limits: &Limits) {
        if let Some(label) = &self.account_label {
            problems.name("account_label", label, limits);
        }
        if let Some(interval) = self.sync_interval {
            check_interval(problems, interval);
        }
    }

    fn applied_to(&self, connector: &Connector) -> Connector {
        let mut changed = connector.clone();
        let this = self.clone();
        changed.account_label = this.account_label.unwrap_or(changed.account_label);
        changed.scope = this.scope.unwrap_or(changed.scope);
        changed.is_paused = this.is_paused.unwrap_or(changed.is_paused);
        if let Some(interval) = this.sync_interval {
            changed.sync_interval_seconds = interval.as_secs();
        }
        changed
    }
}

fn check_interval(problems: &mut Problems, interval: Duration) {
    if !(SYNC_INTERVAL_MIN..=SYNC_INTERVAL_MAX).contains(&interval) {
        problems.push(
            "sync_interval_seconds",
            ProblemCode::InvalidValue,
            "must be between a minute and 31 days",
        );
    }
}

/// A connector in its workspace.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) org: OrgId,
    pub(super) workspace: WorkspaceId,
    pub(super) connector: ConnectorId,
}

impl Place {
    pub(super) fn key(self) -> Key {
        keys::connector(self.org, self.workspace, self.connector)
    }

    pub(super) fn state_key(self) -> Key {
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
        new.check(&mut problems, self.limits());
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::CREATE_CONNECTOR,
                )
                .await?;
            let org = caller.org_id();
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

    /// The connectors of a workspace, in the order they were made, each with how it is.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace; [`Error::Forbidden`] without `dashboard:read` there.
    pub async fn list_connectors(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<ConnectorDetails>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(&mut reading, credential, workspace, needs::LIST_CONNECTORS)
                .await?;
            let org = caller.org_id();
            let range = keys::connectors(org, workspace);
            let listing = Listing::new("connectors", &(), range, Direction::Forward);
            let found = listing.page_of(self.store(), page, |found| async move {
                self.connectors_with_states(org, workspace, &found, now)
                    .await
            });
            reading.done(found.await?)
        })
        .await
    }

    async fn connectors_with_states(
        &self,
        org: OrgId,
        workspace: WorkspaceId,
        found: &[KeyEntry],
        now: Timestamp,
    ) -> Result<Vec<Option<ConnectorDetails>>, Error> {
        let connectors = found
            .iter()
            .map(decode_value)
            .collect::<Result<Vec<Connector>, _>>()?;
        let places: Vec<Key> = connectors
            .iter()
            .map(|connector| keys::connector_state(org, workspace, connector.id))
            .collect();
        let states = self.store().get_many_as::<ConnectorState>(&places).await?;
        let shown = connectors
            .into_iter()
            .zip(states)
            .map(|(connector, state)| {
                // One that was deleted between the two reads has no state any more.
                state.map(|state| state.value.details(connector, now))
            });
        Ok(shown.collect())
    }

    /// One connector with how it is.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or connector; [`Error::Forbidden`]
    /// without `dashboard:read` there.
    pub async fn connector(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        connector: ConnectorId,
    ) -> Result<ConnectorDetails, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(&mut reading, credential, workspace, needs::READ_CONNECTOR)
                .await?;
            let place = Place {
                org: caller.org_id(),
                workspace,
                connector,
            };
            let (connector, state) = read_connector(&mut reading, place).await?;
            reading.done(state.details(connector, now))
        })
        .await
    }

    /// Changes a connector. An update that sets nothing returns it as it is. A status that the change makes is
    /// announced.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace or connector; [`Error::Forbidden`] without `connector:manage` there.
    pub async fn update_connector(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        connector: ConnectorId,
        update: &ConnectorUpdate,
    ) -> Result<ConnectorDetails, Error> {
        let mut problems = Problems::default();
        update.check(&mut problems, self.limits());
        problems.into_result()?;
        self.change_connector(
            credential,
            workspace,
            connector,
            update,
            needs::UPDATE_CONNECTOR,
        )
        .await
    }

    /// Pauses a connector or lets it go on. A status that this changes is announced.
    ///
    /// # Errors
    /// As [`KnowledgeService::update_connector`].
    pub async fn pause_connector(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        connector: ConnectorId,
        is_paused: bool,
    ) -> Result<Connector, Error> {
        let update = ConnectorUpdate {
            is_paused: Some(is_paused),
            ..ConnectorUpdate::default()
        };
        let changed = self
            .change_connector(
                credential,
                workspace,
                connector,
                &update,
                needs::PAUSE_CONNECTOR,
            )
            .await?;
        Ok(changed.connector)
    }

    async fn change_connector(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        connector: ConnectorId,
        update: &ConnectorUpdate,
        need: Need,
    ) -> Result<ConnectorDetails, Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(&mut transaction, credential, workspace, need)
                .await?;
            let place = Place {
                org: caller.org_id(),
                workspace,
                connector,
            };
            let (before, state) = read_connector(&mut transaction, place).await?;
            let after = update.applied_to(&before);
            if after == before {
                return transaction.done(state.details(before, now));
            }
            let switched = Connector {
                is_paused: after.is_paused,
                ..before.clone()
            };
            let action = if after == switched {
                AuditAction::ConnectorPause
            } else {
                AuditAction::ConnectorUpdate
            };
            transaction.put(place.key(), &after);
            let details = state.details(after.clone(), now);
            self.write_state(&mut transaction, place, &after, state, now)
                .await?;
            Operation::begin(&transaction, self.env(), now).changed(
                &mut transaction,
                Actor::from(&caller),
                action,
                (ResourceKind::Connector, connector.0),
                &before,
                &after,
            );
            transaction.done(details)
        })
        .await
    }

    /// Deletes a connector and what its syncs reported. What came in by it stays.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or connector; [`Error::Forbidden`]
    /// without `connector:manage` there.
    pub async fn delete_connector(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        connector: ConnectorId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::DELETE_CONNECTOR,
                )
                .await?;
            let org = caller.org_id();
            let place = Place {
                org,
                workspace,
                connector,
            };
            let (before, _) = read_connector(&mut transaction, place).await?;
            // A look at it that is planned finds nothing then, and ends.
            transaction.delete(place.key());
            transaction.delete(place.state_key());
            transaction.add(keys::connector_count(org, workspace), -1);
            Operation::begin(&transaction, self.env(), now).record(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::ConnectorDelete,
                (ResourceKind::Connector, connector.0),
                Some(state(&before)),
                None,
            );
            transaction.done(())
        })
        .await
    }
}

pub(super) async fn read_connector(
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
