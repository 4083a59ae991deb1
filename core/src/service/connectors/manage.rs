//! Connectors: creating, listing, reading, changing and deleting. Reports are in `sync`.

use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{AuditAction, ConnectorId, ConnectorStatus, ResourceKind, WorkspaceId};
use crate::operation::Operation;
use crate::service::connectors::health::ConnectorState;
use crate::service::connectors::types::{
    Connector, ConnectorDetails, ConnectorRef, ConnectorUpdate, NewConnector,
};
use crate::service::operation::{Authorized, Prefetch};
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::quota::RecordLimit;
use crate::service::{Caller, Connectors};
use crate::store::{Direction, Key, RangeRead, Transaction};

/// Maximum number of states that are read together with a page of connectors.
const STATES_PREFETCHED: usize = 128;
/// Maximum number of states in any other read.
const STATES_PER_READ: usize = 50;

impl Connectors<'_> {
    /// Creates a connector.
    ///
    /// # Errors
    /// Those of [`Operation::CreateConnector`]; [`Error::InvalidRequest`] for a workspace with the
    /// maximum number of connectors.
    pub async fn create(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        new: &NewConnector,
    ) -> Result<ConnectorDetails, Error> {
        self.service.checks().check(new)?;
        self.service
            .once(
                Operation::CreateConnector,
                caller,
                &(workspace, new),
                |caller| async move {
                    let org = caller.org();
                    let counter = keys::connector_count(org, workspace);
                    let prefetch = Prefetch::keys([counter.clone()]);
                    let mut op = caller.in_workspace(workspace, prefetch).await?;
                    let now = op.now;
                    op.reserve_record(RecordLimit::CONNECTORS, counter).await?;
                    let connector = Connector {
                        id: ConnectorId(self.service.env().uuid_at(now)),
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
                    let reference = ConnectorRef::new(org, workspace, connector.id);
                    op.transaction.create(reference.key(), &connector);
                    op.transaction.create(reference.state_key(), &state);
                    let resource = (ResourceKind::Connector, connector.id.0);
                    op.created(AuditAction::ConnectorCreate, resource, &connector);
                    op.done(ConnectorDetails::of_new(connector))
                },
                |caller, replay| async move {
                    self.get(&caller, workspace, ConnectorId(replay.created))
                        .await
                },
            )
            .await
    }

    /// Lists the connectors of a workspace with their health, in order of creation.
    ///
    /// # Errors
    /// Those of [`Operation::ListConnectors`].
    pub async fn list(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<ConnectorDetails>, Error> {
        self.service
            .perform(Operation::ListConnectors, caller, |caller| async move {
                let org = caller.org();
                let range = keys::connectors(org, workspace);
                let listing = Listing::new("connectors", &(), range, Direction::Forward);
                let states =
                    RangeRead::first(keys::connector_states(org, workspace), STATES_PREFETCHED);
                let prefetch = Prefetch::page(&listing, page).and_range(states);
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                let show = |_: &Key, connector: Connector| Ok(PageRecord::Shown(connector));
                let found = listing.page(&mut op.transaction, page, show).await?;
                let data = with_states(&mut op, found.data).await?;
                let next_cursor = found.next_cursor;
                op.done(Page { data, next_cursor })
            })
            .await
    }

    /// Returns a connector with its health.
    ///
    /// # Errors
    /// Those of [`Operation::GetConnector`].
    pub async fn get(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        connector: ConnectorId,
    ) -> Result<ConnectorDetails, Error> {
        self.service
            .perform(Operation::GetConnector, caller, |caller| async move {
                let reference = ConnectorRef::new(caller.org(), workspace, connector);
                let mut op = caller.in_workspace(workspace, reference.prefetch()).await?;
                let (connector, state) = read_connector(&mut op.transaction, reference).await?;
                let details = state.details(connector, op.now);
                op.done(details)
            })
            .await
    }

    /// Changes a connector. An update that changes nothing returns it as it is.
    ///
    /// A resulting change of its status is published.
    ///
    /// # Errors
    /// Those of [`Operation::UpdateConnector`].
    pub async fn update(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        connector: ConnectorId,
        update: &ConnectorUpdate,
    ) -> Result<ConnectorDetails, Error> {
        self.service.checks().check(update)?;
        self.service
            .perform(Operation::UpdateConnector, caller, |caller| async move {
                let reference = ConnectorRef::new(caller.org(), workspace, connector);
                let mut op = caller.in_workspace(workspace, reference.prefetch()).await?;
                let now = op.now;
                let (before, state) = read_connector(&mut op.transaction, reference).await?;
                let after = update.applied_to(&before);
                if after == before {
                    return op.done(state.details(before, now));
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
                op.transaction.put(reference.key(), &after);
                let details = state.details(after.clone(), now);
                self.service
                    .write_state(&mut op.transaction, reference, &after, state, now)
                    .await?;
                let resource = (ResourceKind::Connector, connector.0);
                op.changed(action, resource, &before, &after);
                op.done(details)
            })
            .await
    }

    /// Deletes a connector and its state. Memories that it imported remain.
    ///
    /// # Errors
    /// Those of [`Operation::DeleteConnector`].
    pub async fn delete(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        connector: ConnectorId,
    ) -> Result<(), Error> {
        self.service
            .perform(Operation::DeleteConnector, caller, |caller| async move {
                let reference = ConnectorRef::new(caller.org(), workspace, connector);
                let mut op = caller.in_workspace(workspace, reference.prefetch()).await?;
                let (before, state) = read_connector(&mut op.transaction, reference).await?;
                if let Some(at) = state.look_at {
                    op.transaction.delete(reference.due(at));
                }
                op.transaction.delete(reference.key());
                op.transaction.delete(reference.state_key());
                let counter = keys::connector_count(reference.org, workspace);
                op.transaction.add(counter, -1);
                let resource = (ResourceKind::Connector, connector.0);
                op.deleted(AuditAction::ConnectorDelete, resource, &before);
                op.done(())
            })
            .await
    }
}

/// Returns connectors with their health.
async fn with_states(
    op: &mut Authorized<'_>,
    connectors: Vec<Connector>,
) -> Result<Vec<ConnectorDetails>, Error> {
    let (org, now) = (op.org(), op.now);
    let place = |found: &Connector| keys::connector_state(org, found.workspace_id, found.id);
    let places: Vec<Key> = connectors.iter().map(place).collect();
    let mut states = Vec::with_capacity(places.len());
    for places in places.chunks(STATES_PER_READ) {
        states.extend(op.transaction.get_many::<ConnectorState>(places).await?);
    }
    let shown = connectors.into_iter().zip(states);
    // A connector that was deleted between two reads has no state.
    let shown = shown.filter_map(|(connector, state)| Some(state?.details(connector, now)));
    Ok(shown.collect())
}

pub(crate) async fn read_connector(
    transaction: &mut Transaction,
    reference: ConnectorRef,
) -> Result<(Connector, ConnectorState), Error> {
    let connector = transaction.get::<Connector>(&reference.key()).await?;
    let connector = connector.ok_or(Error::not_found(EntityKind::Connector))?;
    let state = transaction
        .get::<ConnectorState>(&reference.state_key())
        .await?
        .unwrap_or_default();
    Ok((connector, state))
}
