//! The audit log.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::model::AuditLogId;
use crate::service::AuditFilter;

impl Call<'_> {
    pub(super) async fn list_audit_entries(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let filter = AuditFilter {
            actor_id: query.parsed("actor_id"),
            action: query.parsed("action"),
            resource_kind: query.parsed("resource_kind"),
            resource_id: query.parsed::<AuditLogId>("resource_id").map(|id| id.0),
            since: query.parsed("since"),
            until: query.parsed("until"),
        };
        // An unknown kind is already reported; it is not missing too.
        if !query.has("resource_kind") {
            filter.check(query.problems());
        }
        let page = query.page();
        let page = query.finish(page)?;
        let found = self
            .service
            .list_audit_entries(credential, &filter, &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn audit_entry(&self, credential: &Credential) -> HandlerResult {
        let found = self.service.audit_entry(credential, self.id("id")).await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }
}
