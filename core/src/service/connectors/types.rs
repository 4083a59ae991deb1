//! Configuration of connectors, and reports of their syncs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ProblemCode;
use crate::keys;
use crate::limits::{Limits, SYNC_INTERVAL_MAX, SYNC_INTERVAL_MIN};
use crate::model::{ConnectorId, ConnectorScope, ConnectorStatus, OrgId, Timestamp, WorkspaceId};
use crate::service::kit::validate::Problems;
use crate::store::Key;

/// A connector as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Connector {
    /// Identifier of the connector, which is the service account that it runs as.
    pub id: ConnectorId,
    /// Workspace of the connector.
    pub workspace_id: WorkspaceId,
    /// Kind of the connected system, for example `confluence`.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub kind: String,
    /// Account in the connected system.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub account_label: String,
    /// Owner of the knowledge that it imports.
    pub scope: ConnectorScope,
    /// Interval between syncs, in seconds.
    pub sync_interval_seconds: u64,
    /// True if it is paused.
    pub is_paused: bool,
    /// Time of creation.
    pub created_at: Timestamp,
}

/// A new connector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewConnector {
    /// Kind of the connected system, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub kind: String,
    /// Account in the connected system, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub account_label: String,
    /// Owner of the knowledge that it imports.
    pub scope: ConnectorScope,
    /// Interval between syncs, one minute to 31 days.
    #[cfg_attr(
        feature = "openapi",
        schemars(
            rename = "sync_interval_seconds",
            with = "crate::schema::SyncIntervalSeconds"
        )
    )]
    pub sync_interval: Duration,
}

/// A connector with its health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ConnectorDetails {
    /// Configuration of the connector.
    #[serde(flatten)]
    pub connector: Connector,
    /// Health of the connector, derived from its reports and the current time.
    pub status: ConnectorStatus,
    /// Time of the last sync; `null` before the first.
    pub last_sync: Option<Timestamp>,
    /// Error of the last sync; `null` after a success.
    pub last_error: Option<String>,
    /// Time of the last successful sync.
    pub last_success_at: Option<Timestamp>,
    /// Time of the next sync.
    pub next_sync_at: Option<Timestamp>,
    /// Number of failed syncs in the last 24 hours, in a sliding window of hourly buckets.
    pub error_count_24h: u32,
}

/// A change of a connector. Omitted fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ConnectorUpdate {
    /// New account in the connected system, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub account_label: Option<String>,
    /// New owner of the knowledge that it imports.
    pub scope: Option<ConnectorScope>,
    /// New interval between syncs, one minute to 31 days.
    #[cfg_attr(
        feature = "openapi",
        schemars(
            rename = "sync_interval_seconds",
            with = "Option<crate::schema::SyncIntervalSeconds>"
        )
    )]
    pub sync_interval: Option<Duration>,
    /// True to pause the connector, false to resume it.
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

    pub(super) fn applied_to(&self, connector: &Connector) -> Connector {
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
            "must be between one minute and 31 days",
        );
    }
}

/// A connector in its workspace.
#[derive(Clone, Copy)]
pub(crate) struct ConnectorRef {
    pub(crate) org: OrgId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) connector: ConnectorId,
}

impl ConnectorRef {
    pub(crate) fn key(self) -> Key {
        keys::connector(self.org, self.workspace, self.connector)
    }

    pub(crate) fn state_key(self) -> Key {
        keys::connector_state(self.org, self.workspace, self.connector)
    }
}

/// A report of a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncReport {
    /// Outcome of the sync.
    pub outcome: SyncOutcome,
    /// Time of the next sync; by default one interval from now.
    pub next_sync_at: Option<Timestamp>,
}

/// Outcome of a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// The sync succeeded.
    Success,
    /// The sync failed.
    Failure {
        /// Reason for the failure, for people; truncated to 500 characters.
        error: String,
        /// True if the connected account was rejected.
        is_authentication: bool,
    },
}

crate::model::names::string_enum! {
    /// Outcome of a sync, as named in a report.
    SyncOutcomeKind {
        /// Success.
        Success = "success",
        /// Failure.
        Failure = "failure",
    }
}
