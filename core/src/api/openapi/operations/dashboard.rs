//! The dashboard.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::DashboardSummary;

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::GetDashboardSummary,
        "Costs the same however many memories there are.",
    )
    .needs("dashboard_summary")
    .if_none_match()
    .answers::<DashboardSummary>()
    .etag();
}
