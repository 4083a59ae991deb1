//! Connectors: creating, listing, reading, changing and deleting. Reports are in `sync`.

use crate::access::{Credential, RequiredPermission, permissions};
use crate::error::Error;
use crate::keys;
use crate::model::{ConnectorId, ConnectorStatus, OrgId, Timestamp, WorkspaceId};
use crate::service::KnowledgeService;
use crate::service::connectors::health::ConnectorState;
use crate::service::connectors::types::{
    Connector, ConnectorDetails, ConnectorRef, ConnectorUpdate, NewConnector,
};
use crate::service::kit::audit::{Actor, AuditedOperation, state};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::validate::{Problems, reserve_quota};
use crate::store::{Direction, Key, KeyEntry, StoreExt, Transaction, decode_value};

impl KnowledgeService {
    /// Creates a connector.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values or a workspace with the maximum number of
    /// connectors; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace;
    /// [`Error::Forbidden`] without `connector:manage` there.
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
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::CREATE_CONNECTOR,
                )
                .await?;
            let org = caller.org_id();
            let limit = self.limits().connectors_per_workspace_max;
            let counter = keys::connector_count(org, workspace);
            let what = ("workspace", "connectors");
            reserve_quota(&mut transaction, counter, limit, "body", what).await?;
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
            let reference = ConnectorRef {
                org,
                workspace,
                connector: connector.id,
            };
            transaction.create(reference.key(), &connector);
            transaction.create(reference.state_key(), &state);
            AuditedOperation::begin(&transaction, self.env(), now).created(
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

    /// Lists the connectors of a workspace with their health, in order of creation.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page request; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without `dashboard:read`
    /// there.
    pub async fn list_connectors(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<ConnectorDetails>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut reading,
                    credential,
                    workspace,
                    permissions::LIST_CONNECTORS,
                )
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
                // A connector that was deleted between the two reads has no state.
                state.map(|state| state.value.details(connector, now))
            });
        Ok(shown.collect())
    }

    /// Returns a connector with its health.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or connector;
    /// [`Error::Forbidden`] without `dashboard:read` there.
    pub async fn connector(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        connector: ConnectorId,
    ) -> Result<ConnectorDetails, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut reading,
                    credential,
                    workspace,
                    permissions::READ_CONNECTOR,
                )
                .await?;
            let reference = ConnectorRef {
                org: caller.org_id(),
                workspace,
                connector,
            };
            let (connector, state) = read_connector(&mut reading, reference).await?;
            reading.done(state.details(connector, now))
        })
        .await
    }

    /// Changes a connector. An update that changes nothing returns it as it is.
    ///
    /// A resulting change of its status is published.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace or connector; [`Error::Forbidden`] without
    /// `connector:manage` there.
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
            permissions::UPDATE_CONNECTOR,
        )
        .await
    }

    /// Pauses or resumes a connector. A resulting change of its status is published.
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
                permissions::PAUSE_CONNECTOR,
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
        permission: RequiredPermission,
    ) -> Result<ConnectorDetails, Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(&mut transaction, credential, workspace, permission)
                .await?;
            let reference = ConnectorRef {
                org: caller.org_id(),
                workspace,
                connector,
            };
            let (before, state) = read_connector(&mut transaction, reference).await?;
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
            transaction.put(reference.key(), &after);
            let details = state.details(after.clone(), now);
            self.write_state(&mut transaction, reference, &after, state, now)
                .await?;
            AuditedOperation::begin(&transaction, self.env(), now).changed(
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

    /// Deletes a connector and its state. Memories that it imported remain.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or connector;
    /// [`Error::Forbidden`] without `connector:manage` there.
    pub async fn delete_connector(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        connector: ConnectorId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::DELETE_CONNECTOR,
                )
                .await?;
            let org = caller.org_id();
            let reference = ConnectorRef {
                org,
                workspace,
                connector,
            };
            let (before, _) = read_connector(&mut transaction, reference).await?;
            // A scheduled check of its status finds nothing and ends.
            transaction.delete(reference.key());
            transaction.delete(reference.state_key());
            transaction.add(keys::connector_count(org, workspace), -1);
            AuditedOperation::begin(&transaction, self.env(), now).record(
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

pub(crate) async fn read_connector(
    transaction: &mut Transaction,
    reference: ConnectorRef,
) -> Result<(Connector, ConnectorState), Error> {
    let connector = transaction.read::<Connector>(&reference.key()).await?;
    let connector = connector.ok_or(Error::NotFound { what: "connector" })?;
    let state = transaction
        .read::<ConnectorState>(&reference.state_key())
        .await?
        .unwrap_or_default();
    Ok((connector, state))
}
