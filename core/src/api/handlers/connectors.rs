//! Connectors and their sync reports.

use std::time::Duration;

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::error::ProblemCode;
use crate::model::{ConnectorId, ConnectorScope};
use crate::service::{
    ConnectorDetails, ConnectorUpdate, NewConnector, SyncOutcome, SyncOutcomeKind, SyncReport,
};

impl Call<'_> {
    pub(super) async fn create_connector(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        for name in ["scope", "sync_interval_seconds"] {
            body.require(name);
        }
        let (kind, account_label) = (
            body.name("kind", self.service.limits()),
            body.name("account_label", self.service.limits()),
        );
        let scope = body.parsed::<ConnectorScope>("scope");
        let sync_interval = body
            .number("sync_interval_seconds")
            .map(Duration::from_secs);
        let interval = ConnectorUpdate {
            sync_interval,
            ..ConnectorUpdate::default()
        };
        interval.check(body.problems(), self.service.limits());
        let new = kind.zip(account_label).zip(scope.zip(sync_interval));
        let ((kind, account_label), (scope, sync_interval)) = body.finish(new)?;
        let new = NewConnector {
            kind,
            account_label,
            scope,
            sync_interval,
        };
        let made = self
            .service
            .create_connector(credential, self.workspace(), &new)
            .await?;
        Ok(ApiResponse::json(
            StatusCode::CREATED,
            &ConnectorDetails::of_new(made),
        ))
    }

    pub(super) async fn list_connectors(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let found = self
            .service
            .list_connectors(credential, self.workspace(), &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn connector(&self, credential: &Credential) -> HandlerResult {
        let found = self
            .service
            .connector(credential, self.workspace(), self.connector_id())
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn update_connector(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse_optional(self.request.body())?;
        let update = ConnectorUpdate {
            account_label: body.text("account_label"),
            scope: body.parsed("scope"),
            sync_interval: body
                .number("sync_interval_seconds")
                .map(Duration::from_secs),
            is_paused: body.boolean("is_paused"),
        };
        update.check(body.problems(), self.service.limits());
        let update = body.finish(Some(update))?;
        let changed = self
            .service
            .update_connector(credential, self.workspace(), self.connector_id(), &update)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &changed))
    }

    pub(super) async fn delete_connector(&self, credential: &Credential) -> HandlerResult {
        self.service
            .delete_connector(credential, self.workspace(), self.connector_id())
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    pub(super) async fn report_sync(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("outcome");
        let outcome = body.parsed::<SyncOutcomeKind>("outcome");
        let error = body.text("error");
        let is_authentication = body.boolean("is_authentication");
        let next_sync_at = body.parsed("next_sync_at");
        let (has_error, has_kind) = (error.is_some(), is_authentication.is_some());
        let outcome = outcome.map(|outcome| match outcome {
            SyncOutcomeKind::Success => SyncOutcome::Success,
            SyncOutcomeKind::Failure => SyncOutcome::Failure {
                error: error.unwrap_or_default(),
                is_authentication: is_authentication.unwrap_or(false),
            },
        });
        match outcome {
            Some(SyncOutcome::Failure { .. }) => body.require("error"),
            Some(SyncOutcome::Success) => {
                for (name, is_there) in [("error", has_error), ("is_authentication", has_kind)] {
                    if is_there {
                        let message = "must be omitted for a success";
                        body.problems()
                            .push(name, ProblemCode::InvalidValue, message);
                    }
                }
            }
            None => {}
        }
        let outcome = body.finish(outcome)?;
        let report = SyncReport {
            outcome,
            next_sync_at,
        };
        self.service
            .report_sync(credential, self.workspace(), self.connector_id(), &report)
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    fn connector_id(&self) -> ConnectorId {
        self.id("connectorId")
    }
}
