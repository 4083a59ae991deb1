//! Sync reports of connectors, and the statuses that result from them.

use crate::error::Error;
use crate::keys;
use crate::model::{
    ConnectorId, ConnectorStatusChange, EventData, OrgId, Timestamp, Workspace, WorkspaceId,
};
use crate::operation::Operation;
use crate::request::rules::Text;
use crate::service::connectors::health::ConnectorState;
use crate::service::connectors::manage::read_connector;
use crate::service::connectors::types::{Connector, ConnectorRef, SyncOutcome, SyncReport};
use crate::service::outbox::Outbox;
use crate::service::tasks::ScheduledTask;
use crate::service::{Caller, Connectors, KnowledgeService};
use crate::store::{Key, Transaction};

/// # Sync reports
impl Connectors<'_> {
    /// Records the report of a sync. A resulting change of the connector's status is published.
    ///
    /// # Errors
    /// Those of [`Operation::ReportSync`].
    pub async fn report_sync(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        connector: ConnectorId,
        report: &SyncReport,
    ) -> Result<(), Error> {
        if let SyncOutcome::Failure { error, .. } = &report.outcome {
            self.service.checks().value::<Text>("error", error)?;
        }
        self.service
            .perform(Operation::ReportSync, caller, |caller| async move {
                let reference = ConnectorRef::new(caller.org(), workspace, connector);
                let mut op = caller.in_workspace(workspace, reference.prefetch()).await?;
                let now = op.now;
                let (connector, mut state) = read_connector(&mut op.transaction, reference).await?;
                state.note(&connector, report, now);
                self.service
                    .write_state(&mut op.transaction, reference, &connector, state, now)
                    .await?;
                op.done(())
            })
            .await
    }
}

impl KnowledgeService {
    /// Publishes a status that results only from the passage of time, and schedules the next check.
    pub(crate) async fn announce_status(
        &self,
        due: &Key,
        org: OrgId,
        workspace: WorkspaceId,
        connector: ConnectorId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let reference = ConnectorRef::new(org, workspace, connector);
        self.transact(|mut transaction| async move {
            transaction.delete(due.clone());
            match read_connector(&mut transaction, reference).await {
                Ok((connector, mut state)) => {
                    // A report may have moved the check since the task was read.
                    if state.look_at.is_none_or(|planned| planned <= now) {
                        state.look_at = state.look_at.filter(|at| reference.due(*at) != *due);
                        let place = keys::workspace(org, workspace);
                        if transaction.get::<Workspace>(&place).await?.is_none() {
                            // It is being removed, and announces nothing any more.
                            transaction.put(reference.state_key(), &state);
                            return Ok(transaction.done(()));
                        }
                        self.write_state(&mut transaction, reference, &connector, state, now)
                            .await?;
                    }
                }
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
            Ok(transaction.done(()))
        })
        .await
    }

    /// Writes the state, publishes a changed status and schedules the next check instead of the one
    /// before.
    pub(crate) async fn write_state(
        &self,
        transaction: &mut Transaction,
        reference: ConnectorRef,
        connector: &Connector,
        mut state: ConnectorState,
        now: Timestamp,
    ) -> Result<(), Error> {
        let health = state.health(connector, now);
        if state.announced != Some(health.status) {
            let change = ConnectorStatusChange {
                from: state.announced,
                service_account_id: reference.connector,
                to: health.status,
                workspace_id: reference.workspace,
            };
            let outbox =
                Outbox::begin(transaction, reference.org, reference.workspace, now).await?;
            let data = EventData::ConnectorStatusChanged(change);
            outbox.emit(transaction, self.env(), data, None);
            state.announced = Some(health.status);
        }
        let planned = state.look_at.filter(|at| Some(*at) != health.changes_at);
        if let Some(planned) = planned {
            transaction.delete(reference.due(planned));
        }
        state.look_at = health.changes_at;
        transaction.put(reference.state_key(), &state);
        if let Some(at) = health.changes_at {
            let check = ScheduledTask::Connector {
                org: reference.org,
                workspace: reference.workspace,
                connector: reference.connector,
            };
            transaction.put(reference.due(at), &check);
        }
        Ok(())
    }
}
