//! The audit log.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::service::{AuditEntry, AuditFilter};

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::ListAuditEntries,
        "Newest first. `resource_id` requires `resource_kind`. A page examines a bounded number of entries, so that it may \
         be short or empty although more follow.",
    )
    .needs("list_audit_entries")
    .query::<AuditFilter>()
    .answers_page::<AuditEntry>()
    .leads_to(
        Operation::GetAuditEntry,
        &[("id", "$response.body#/data/0/id")],
    );
    all.describe(
        Operation::GetAuditEntry,
        "`before` and `after` hold the identifiers and labels of the changed resource, never the content of a memory.",
    )
    .needs("audit_entry")
    .answers::<AuditEntry>();
}
