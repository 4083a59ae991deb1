//! Workspaces, their dashboards, and sources.

use proptest::option::weighted;
use proptest::prelude::*;
use serde_json::json;

use super::{Weighted, by_bearer, create_in, in_workspace, list, of, one_of, requests};
use crate::model::{AuditFacts, ErrorResponse, Expected, Model, Moment, RequestErrors, Response};
use crate::requests::new_access;
use crate::simulation::call::{Listing, Request};
use crate::simulation::world::OrgState;
use crate::strategies::{actor, governor, new_source};
use knowledge_core::ProblemCode;
use knowledge_core::access::CredentialKind;
use knowledge_core::model::{
    Activity, Quota, Source, SourceId, Workspace, WorkspaceAccess, WorkspaceId,
};
use knowledge_core::service::{
    ActivityDays, AuditAction, NewSource, NewWorkspaceAccess, PageRequest,
};
use knowledge_core::store::Direction;

requests! {
    ListWorkspaces by workspaces.list { page: PageRequest }
    GetWorkspace by workspaces.get { workspace: WorkspaceId }
    SetWorkspaceAccess by workspaces.set_access { workspace: WorkspaceId, new: NewWorkspaceAccess }
    GetDashboardSummary by workspaces.get_dashboard_summary tagged { workspace: WorkspaceId }
    GetActivity by workspaces.get_activity { workspace: WorkspaceId, days: ActivityDays }
    CreateSource by sources.create { new: NewSource }
    ListSources by sources.list { page: PageRequest }
    GetSource by sources.get { source: SourceId }
}

fn access() -> impl Strategy<Value = NewWorkspaceAccess> {
    let access = prop_oneof![
        2 => Just(WorkspaceAccess::Open),
        1 => Just(WorkspaceAccess::Private),
    ];
    access.prop_map(new_access)
}

/// Numbers of days, a few of them out of range.
fn days() -> impl Strategy<Value = ActivityDays> {
    let days = prop_oneof![8 => 1_u64..9, 1 => Just(0), 1 => Just(401)];
    weighted(0.8, days).prop_map(|days| ActivityDays::builder().maybe_days(days).build())
}

pub(super) fn strategies() -> Vec<Weighted> {
    vec![
        of(2, list(actor(), ListWorkspaces::new)),
        of(1, in_workspace(actor(), GetWorkspace::new)),
        of(2, create_in(governor(), access(), SetWorkspaceAccess::new)),
        of(7, in_workspace(actor(), GetDashboardSummary::new)),
        of(2, create_in(actor(), days(), GetActivity::new)),
        of(
            2,
            by_bearer(actor(), new_source(), |_, by, new| {
                CreateSource::new(by, new)
            }),
        ),
        of(1, one_of(actor(), GetSource::new)),
        of(1, list(actor(), ListSources::new)),
    ]
}

impl Request for ListWorkspaces {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authenticate(&self.by, CredentialKind::Bearer, at.now)?;
        let org = model.org(who.org);
        let (rules, workspaces) = (org.rules(&who), org.workspaces.values());
        let known = workspaces.filter(|workspace| rules.works_in(workspace.id));
        let records = known
            .map(|workspace| (workspace.id.0, json!(workspace)))
            .collect();
        self.page_of(model, Direction::Forward, records, at)
    }
}

impl Request for GetWorkspace {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.enter(&self.by, self.workspace, at.now)?;
        let found = &model.org(who.org).workspaces[&self.workspace];
        Ok(Response::of(found))
    }
}

impl Request for SetWorkspaceAccess {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        if who.scope.audience.is_some() {
            return Err(ErrorResponse::Forbidden.into());
        }
        let org = model.org_mut(who.org);
        let before = org.workspaces[&self.workspace].clone();
        let access = self.new.access;
        if before.access == access {
            return Ok(Response::of(&before));
        }
        let holds_role = org.overrides.contains_key(&(who.member, self.workspace));
        if access == WorkspaceAccess::Private && !holds_role && !org.is_owner(&who) {
            return Err(ErrorResponse::Forbidden.into());
        }
        let after = Workspace {
            access,
            ..before.clone()
        };
        org.put_workspace(after.clone());
        let entry = AuditFacts::ok(self.workspace, &before, &after);
        org.audit(&who, AuditAction::WorkspaceUpdate, entry, at.now);
        Ok(Response::of(&after))
    }
}

impl Request for GetDashboardSummary {
    fn trim(&self, response: &mut Response) {
        let checklist = &mut response.body["first_value_checklist"];
        for list in ["required", "suggested"] {
            for step in checklist[list].as_array_mut().into_iter().flatten() {
                (step["label"], step["cta_label"]) = (json!(""), json!(""));
            }
        }
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let org = model.org(who.org);
        let mcp_keys = model.shown_mcp_keys(who.org, self.workspace, at.now);
        let workspace = &org.workspaces[&self.workspace];
        let summary = org.summary(who.member, workspace, mcp_keys, at.now);
        Ok(model.loosely_tagged(&summary, at, 'W'))
    }
}

impl Request for GetActivity {
    /// Removes what the model does not know: when an erasure or a retention takes its steps.
    fn trim(&self, response: &mut Response) {
        let days = response.body["days"].as_array_mut();
        for day in days.into_iter().flatten() {
            (day["deleted"], day["backlog_change"]) = (json!(0), json!(0));
        }
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        let days = self.days.days.unwrap_or(28);
        let is_wrong = !(1..=400).contains(&days);
        errors.when(is_wrong, "days", ProblemCode::InvalidValue);
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let org = model.org(who.org);
        let days = org.activity_of(self.workspace, days, at.now);
        Ok(Response::of(&Activity { days }))
    }
}

impl Request for CreateSource {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        errors.name("name", &self.new.name);
        errors.name("kind", &self.new.kind);
        let who = errors.then(model.authorize(self.asked(), at.now))?;
        model.check_quota(who.org, Quota::Sources, 1)?;
        let source = Source {
            id: SourceId(model.made(at.learned.and_then(Response::id))),
            name: self.new.name.clone(),
            kind: self.new.kind.clone(),
            created_at: at.now,
        };
        let org = model.org_mut(who.org);
        org.sources.insert(source.id, source.clone());
        let entry = AuditFacts::ok(source.id, (), &source);
        org.audit(&who, AuditAction::SourceCreate, entry, at.now);
        Ok(Response::of(&source))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        org_state.sources.extend(response.id().map(SourceId));
    }
}

impl Request for ListSources {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize(self.asked(), at.now)?;
        let org = model.org(who.org);
        let sources = org.sources.values();
        let sources = sources.filter(|source| org.source_exists(&who, source.id));
        let records = sources.map(|source| (source.id.0, json!(source))).collect();
        self.page_of(model, Direction::Forward, records, at)
    }
}

impl Request for GetSource {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize(self.asked(), at.now)?;
        let org = model.org(who.org);
        let found = org.sources.get(&self.source);
        let found = found.filter(|source| org.source_exists(&who, source.id));
        Ok(Response::of(found.ok_or(ErrorResponse::NotFound)?))
    }
}
