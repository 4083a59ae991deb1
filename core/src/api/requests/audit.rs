//! Filter of the audit log.

#[cfg(feature = "openapi")]
use crate::api::descriptions::Description;
use crate::api::input::{Input, Reader};
use crate::error::Error;
use crate::model::AuditLogId;
use crate::service::AuditFilter;

impl Input for AuditFilter {
    type Arg<'a> = &'a Self;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        let query = request.query();
        let filter = Self {
            actor_id: query.parsed("actor_id"),
            via_id: query.parsed("via_id"),
            action: query.parsed("action"),
            resource_kind: query.parsed("resource_kind"),
            resource_id: query.parsed::<AuditLogId>("resource_id").map(|id| id.0),
            outcome: query.parsed("outcome"),
            since: query.parsed("since"),
            until: query.parsed("until"),
        };
        // An unknown kind is already reported; it is not missing too.
        if !query.has("resource_kind") {
            filter.check(query.problems());
        }
        Ok(filter)
    }

    fn arg(&self) -> &Self {
        self
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.query::<Self>();
    }
}
