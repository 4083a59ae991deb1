//! Configuration of connectors, and reports of their syncs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::keys;
use crate::model::{ConnectorId, ConnectorScope, ConnectorStatus, OrgId, Timestamp, WorkspaceId};
use crate::request::request;
use crate::request::rules::{Flag, Name, Parsed, SyncIntervalSeconds};
use crate::service::operation::Prefetch;
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

request! {
    /// A new connector.
    pub struct NewConnector {
        /// Kind of the connected system, 1 to 128 characters.
        kind: String as Name,
        /// Account in the connected system, 1 to 128 characters.
        account_label: String as Name,
        /// Owner of the knowledge that it imports.
        scope: ConnectorScope as Parsed<ConnectorScope>,
        /// Interval between syncs, one minute to 31 days.
        sync_interval ("sync_interval_seconds"): Duration as SyncIntervalSeconds,
    }
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

request! {
    /// A change of a connector. Omitted fields are unchanged.
    #[derive(Default)]
    pub struct ConnectorUpdate {
        /// New account in the connected system, 1 to 128 characters.
        account_label: Option<String> as Option<Name>,
        /// New owner of the knowledge that it imports.
        scope: Option<ConnectorScope> as Option<Parsed<ConnectorScope>>,
        /// New interval between syncs, one minute to 31 days.
        sync_interval ("sync_interval_seconds"): Option<Duration> as Option<SyncIntervalSeconds>,
        /// True to pause the connector, false to resume it.
        is_paused: Option<bool> as Option<Flag>,
    }
}

impl ConnectorUpdate {
    /// Creates an update that only pauses or resumes the connector.
    #[must_use]
    pub fn paused(is_paused: bool) -> Self {
        Self {
            is_paused: Some(is_paused),
            ..Self::default()
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

/// A connector in its workspace.
#[derive(Clone, Copy)]
pub(crate) struct ConnectorRef {
    pub(crate) org: OrgId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) connector: ConnectorId,
}

impl ConnectorRef {
    pub(crate) fn new(org: OrgId, workspace: WorkspaceId, connector: ConnectorId) -> Self {
        Self {
            org,
            workspace,
            connector,
        }
    }

    pub(crate) fn key(self) -> Key {
        keys::connector(self.org, self.workspace, self.connector)
    }

    pub(crate) fn state_key(self) -> Key {
        keys::connector_state(self.org, self.workspace, self.connector)
    }

    /// Returns the key of the scheduled check of the status at this time: there is one at most.
    pub(crate) fn due(self, at: Timestamp) -> Key {
        keys::due(at, self.connector.0)
    }

    /// Returns the reads of the connector with its state, and of those that a change publishes.
    pub(super) fn prefetch(self) -> Prefetch {
        let endpoints = keys::endpoint_sequence(self.org, self.workspace);
        Prefetch::keys([self.key(), self.state_key(), endpoints])
    }
}

/// A report of a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncReport {
    /// Outcome of the sync.
    pub outcome: SyncOutcome,
    /// Time of the next sync; by default one interval from now.
    pub next_sync_at: Option<Timestamp>,
}

impl SyncReport {
    /// Creates a report without a time of the next sync.
    #[must_use]
    pub const fn new(outcome: SyncOutcome) -> Self {
        Self {
            outcome,
            next_sync_at: None,
        }
    }

    /// Sets the time of the next sync.
    #[must_use]
    pub fn with_next_sync_at(mut self, at: Timestamp) -> Self {
        self.next_sync_at = Some(at);
        self
    }
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
