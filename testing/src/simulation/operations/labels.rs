//! Audience labels of workspaces.

use proptest::prelude::*;

use super::{Weighted, alone, create_in, in_workspace, of, requests};
use crate::model::{Expected, Model, Moment, Response};
use crate::simulation::call::Request;
use crate::strategies::actor;
use knowledge_core::model::{AccessFilterOptions, WorkspaceId};

requests! {
    ListLabels by memories.labels { workspace: WorkspaceId }
    GetAccessFilter by memories.access_filter tagged {
        workspace: WorkspaceId, options: AccessFilterOptions,
    }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let options = prop_oneof![2 => Just(None), 1 => Just(Some(true))];
    let options = options.prop_map(|approved_only| {
        let options = AccessFilterOptions::builder();
        options.maybe_approved_only(approved_only).build()
    });
    let filters = create_in(actor(), options, GetAccessFilter::new);
    vec![
        alone(3, in_workspace(actor(), ListLabels::new)),
        of(3, filters),
    ]
}

impl Request for ListLabels {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let org = model.org(who.org);
        Ok(Response::of(&org.workspace_labels(&who, self.workspace)))
    }
}

impl Request for GetAccessFilter {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let approved_only = self.options.approved_only == Some(true);
        let org = model.org(who.org);
        let filter = org.access_filter(&who, self.workspace, approved_only);
        Ok(model.tagged(&filter, at))
    }
}
