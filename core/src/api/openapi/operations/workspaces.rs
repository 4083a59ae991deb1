//! Workspaces.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::Workspace;

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::ListWorkspaces,
        "In order of creation. A credential scoped to some workspaces sees only those.",
    )
    .answers_page::<Workspace>()
    .leads_to(
        Operation::GetDashboardSummary,
        &[("id", "$response.body#/data/0/id")],
    );
    all.describe(Operation::GetWorkspace, "")
        .answers::<Workspace>();
}
