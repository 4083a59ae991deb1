//! The audit log.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::service::{AuditEntry, AuditFilter};

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::ListAuditEntries,
        "The newest first. `resource_id` goes with `resource_kind`. A page looks through a bounded number of entries: it \
         may be short, or empty, and the list goes on all the same.",
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
        "`before` and `after` have the identifiers and labels of what was changed, never what a memory says.",
    )
    .needs("audit_entry")
    .answers::<AuditEntry>();
}
