//! The dashboard.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::DashboardSummary;

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::GetDashboardSummary,
        "Its cost does not depend on the number of memories.",
    )
    .needs("dashboard_summary")
    .if_none_match()
    .answers::<DashboardSummary>()
    .etag();
}
