//! Audience labels of workspaces.

use super::{Weighted, alone, in_workspace, requests};
use crate::model::{Expected, Model, Moment, Response};
use crate::simulation::call::Request;
use crate::strategies::actor;
use knowledge_core::model::WorkspaceId;

requests! {
    ListLabels by memories.labels { workspace: WorkspaceId }
}

pub(super) fn strategies() -> Vec<Weighted> {
    vec![alone(3, in_workspace(actor(), ListLabels::new))]
}

impl Request for ListLabels {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let org = model.org(who.org);
        Ok(Response::of(&org.workspace_labels(&who, self.workspace)))
    }
}
