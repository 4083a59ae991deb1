//! What the syncs of connectors report, and the statuses that follow from it.

use serde_json::json;

use super::KnowledgeService;
use super::connector_health::ConnectorState;
use super::connectors::{Connector, Place, read_connector};
use super::events::Occasion;
use super::maintain::Due;
use crate::access::{Credential, needs};
use crate::error::Error;
use crate::model::{ConnectorId, EventType, OrgId, Timestamp, WorkspaceId};
use crate::store::{Key, Transaction};

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

crate::model::names::string_enum! {
    /// Success or failure of a sync, as a report names it.
    SyncOutcomeKind {
        /// It went well.
        Success = "success",
        /// It failed.
        Failure = "failure",
    }
}

impl KnowledgeService {
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
            let (caller, _) = self
                .enter_workspace(&mut transaction, credential, workspace, needs::REPORT_SYNC)
                .await?;
            let place = Place {
                org: caller.org_id(),
                workspace,
                connector,
            };
            let (connector, mut state) = read_connector(&mut transaction, place).await?;
            state.note(&connector, report, now);
            self.write_state(&mut transaction, place, &connector, state, now)
                .await?;
            transaction.done(())
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
                        self.write_state(&mut transaction, place, &connector, state, now)
                            .await?;
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
    pub(super) async fn write_state(
        &self,
        transaction: &mut Transaction,
        place: Place,
        connector: &Connector,
        mut state: ConnectorState,
        now: Timestamp,
    ) -> Result<(), Error> {
        let health = state.health(connector, now);
        if state.announced != Some(health.status) {
            let data = json!({
                "workspace_id": place.workspace,
                "service_account_id": place.connector,
                "from": state.announced,
                "to": health.status,
            });
            let occasion = Occasion::begin(transaction, place.org, place.workspace, now).await?;
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
        Ok(())
    }
}
