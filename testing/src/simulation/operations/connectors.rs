//! Connectors.

use std::time::Duration;

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{Weighted, alone, create_in, list_in, of, placed, placed_with, requests};
use crate::model::{
    Asked, AuditFacts, ConnectorFacts, ErrorResponse, Expected, Model, Moment, RequestErrors,
    Response, Who, limit_reached,
};
use crate::simulation::call::{Listing, Request};
use crate::simulation::indeterminate::Changes;
use crate::simulation::world::OrgState;
use crate::strategies::{governor, name, new_connector, sync_report};
use knowledge_core::ProblemCode;
use knowledge_core::model::{ConnectorId, ConnectorScope, ConnectorStatus, Timestamp, WorkspaceId};
use knowledge_core::service::{
    AuditAction, Connector, ConnectorUpdate, NewConnector, PageRequest, SyncReport,
};
use knowledge_core::store::Direction;

requests! {
    CreateConnector by connectors.create { workspace: WorkspaceId, new: NewConnector }
    ListConnectors by connectors.list { workspace: WorkspaceId, page: PageRequest }
    GetConnector by connectors.get { workspace: WorkspaceId, connector: ConnectorId }
    UpdateConnector by connectors.update {
        workspace: WorkspaceId, connector: ConnectorId, update: ConnectorUpdate
    }
    DeleteConnector by connectors.delete { workspace: WorkspaceId, connector: ConnectorId }
    ReportSync by connectors.report_sync {
        workspace: WorkspaceId, connector: ConnectorId, report: SyncReport
    }
}

fn update() -> impl Strategy<Value = ConnectorUpdate> {
    let interval = select(&[60_u64, 3_600, 86_400, 59][..]).prop_map(Duration::from_secs);
    (
        weighted(0.2, name()),
        weighted(0.2, select(ConnectorScope::ALL)),
        weighted(0.2, interval),
        weighted(0.6, any::<bool>()),
    )
        .prop_map(|(account_label, scope, sync_interval, is_paused)| {
            ConnectorUpdate::builder()
                .maybe_account_label(account_label)
                .maybe_scope(scope)
                .maybe_sync_interval(sync_interval)
                .maybe_is_paused(is_paused)
                .build()
        })
}

pub(super) fn strategies() -> Vec<Weighted> {
    vec![
        of(
            1,
            create_in(governor(), new_connector(), CreateConnector::new),
        ),
        alone(1, list_in(governor(), ListConnectors::new)),
        of(1, placed(governor(), GetConnector::new)),
        of(2, placed_with(governor(), update(), UpdateConnector::new)),
        of(1, placed(governor(), DeleteConnector::new)),
        of(5, placed_with(governor(), sync_report(), ReportSync::new)),
    ]
}

fn check_interval(errors: &mut RequestErrors, interval: Duration) {
    let is_interval = (60..=31 * 24 * 60 * 60).contains(&interval.as_secs());
    errors.when(
        !is_interval,
        "sync_interval_seconds",
        ProblemCode::InvalidValue,
    );
}

impl Request for CreateConnector {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let new = &self.new;
        let mut errors = RequestErrors::default();
        errors.name("kind", &new.kind);
        errors.name("account_label", &new.account_label);
        check_interval(&mut errors, new.sync_interval);
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let count = model.org(who.org).connectors_of(self.workspace).count();
        if count as u64 >= model.limits.connectors_per_workspace_max {
            return Err(limit_reached("body"));
        }
        let connector = Connector {
            id: ConnectorId(model.made(at.learned.and_then(Response::id))),
            workspace_id: self.workspace,
            kind: new.kind.clone(),
            account_label: new.account_label.clone(),
            scope: new.scope,
            sync_interval_seconds: new.sync_interval.as_secs(),
            is_paused: false,
            created_at: at.now,
        };
        let facts = ConnectorFacts {
            connector: connector.clone(),
            reports: Vec::new(),
            next_sync: None,
            announced: ConnectorStatus::Pending,
        };
        let details = facts.details(at.now);
        let org = model.org_mut(who.org);
        org.connectors.insert(connector.id, facts);
        let entry = AuditFacts::ok(connector.id, (), &connector);
        org.audit(&who, AuditAction::ConnectorCreate, entry, at.now);
        Ok(Response::of(&details))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let id = response.id().map(|id| (ConnectorId(id), self.workspace));
        org_state.connectors.extend(id);
    }
}

impl Request for ListConnectors {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let connectors = model.org(who.org).connectors_of(self.workspace);
        let records = connectors
            .map(|facts| {
                let details = facts.details(at.now);
                (facts.connector.id.0, json!(details))
            })
            .collect();
        self.page_of(model, Direction::Forward, records, at)
    }
}

/// Authorises a caller and returns the connector.
fn find(
    model: &Model,
    asked: Asked<'_>,
    (workspace, connector): (WorkspaceId, ConnectorId),
    now: Timestamp,
) -> Result<(Who, ConnectorFacts), ErrorResponse> {
    let who = model.authorize_in(asked, workspace, now)?;
    let found = model.org(who.org).connectors.get(&connector);
    let found = found.filter(|facts| facts.connector.workspace_id == workspace);
    Ok((who, found.ok_or(ErrorResponse::NotFound)?.clone()))
}

impl Request for GetConnector {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (self.workspace, self.connector);
        let (_, found) = find(model, self.asked(), place, at.now)?;
        Ok(Response::of(&found.details(at.now)))
    }
}

impl Request for UpdateConnector {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let update = &self.update;
        let mut errors = RequestErrors::default();
        let labels = update.account_label.iter();
        labels.for_each(|label| errors.name("account_label", label));
        let intervals = update.sync_interval.into_iter();
        intervals.for_each(|interval| check_interval(&mut errors, interval));
        errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let place = (self.workspace, self.connector);
        let (who, mut facts) = find(model, self.asked(), place, at.now)?;
        let before = facts.connector.clone();
        let label = update.account_label.clone();
        let interval = update.sync_interval.map(|interval| interval.as_secs());
        let after = Connector {
            account_label: label.unwrap_or_else(|| before.account_label.clone()),
            scope: update.scope.unwrap_or(before.scope),
            sync_interval_seconds: interval.unwrap_or(before.sync_interval_seconds),
            is_paused: update.is_paused.unwrap_or(before.is_paused),
            ..before.clone()
        };
        facts.connector = after.clone();
        let details = facts.details(at.now);
        if after != before {
            let is_pause_alone = after
                == Connector {
                    is_paused: after.is_paused,
                    ..before.clone()
                };
            let action = if is_pause_alone {
                AuditAction::ConnectorPause
            } else {
                AuditAction::ConnectorUpdate
            };
            let org = model.org_mut(who.org);
            org.announce_status(&mut facts, at.now);
            org.connectors.insert(self.connector, facts);
            let entry = AuditFacts::ok(self.connector, &before, &after);
            org.audit(&who, action, entry, at.now);
        }
        Ok(Response::of(&details))
    }
}

impl Request for DeleteConnector {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (self.workspace, self.connector);
        let (who, facts) = find(model, self.asked(), place, at.now)?;
        let org = model.org_mut(who.org);
        org.connectors.remove(&self.connector);
        let entry = AuditFacts::ok(self.connector, &facts.connector, ());
        org.audit(&who, AuditAction::ConnectorDelete, entry, at.now);
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        org_state.forget(self.connector.0);
    }
}

impl Request for ReportSync {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (self.workspace, self.connector);
        let (who, mut facts) = find(model, self.asked(), place, at.now)?;
        facts.note(&self.report, at.now);
        let org = model.org_mut(who.org);
        org.announce_status(&mut facts, at.now);
        org.connectors.insert(self.connector, facts);
        Ok(Response::done())
    }

    fn reconstruct(&self, _model: &Model, _changes: &Changes<'_>) -> Result<Response, String> {
        Ok(Response::done())
    }
}
