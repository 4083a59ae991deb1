//! Workspaces, their dashboards, and sources.

use proptest::prelude::*;
use serde_json::json;

use super::{Op, Weighted, list_of, of, requests};
use crate::model::{Caller, ErrorResponse, Moment};
use crate::model::{Expected, Model, Org, RequestErrors, Response, Who};
use crate::simulation::call::{Request, Run};
use crate::simulation::world::OrgState;
use crate::strategies::{actor, entity, new_source, page};
use knowledge_core::access::{Action, CredentialKind};
use knowledge_core::model::{DashboardSummary, Quota, Source, SourceId, Timestamp, WorkspaceId};
use knowledge_core::service::{
    AuditAction, KnowledgeService, NewSource, PageRequest, ResourceKind, WithEtag,
};
use knowledge_core::store::Direction;

requests! {
    ListWorkspaces { page: PageRequest }
    GetWorkspace { workspace: WorkspaceId }
    GetDashboardSummary { workspace: WorkspaceId }
    CreateSource { new: NewSource }
    ListSources { page: PageRequest }
    GetSource { source: SourceId }
}

pub(super) fn strategies() -> Vec<Weighted> {
    vec![
        of(
            2,
            (actor(), page()).prop_map(|(by, page)| {
                Op::by(by, move |view| {
                    let by = view.bearer(by);
                    let request = ListWorkspaces {
                        by,
                        page: PageRequest::default(),
                    };
                    view.paged(request, page, |request| &mut request.page)
                })
            }),
        ),
        of(
            1,
            (actor(), entity()).prop_map(|(by, place)| {
                Op::by(by, move |view| GetWorkspace {
                    by: view.bearer(by),
                    workspace: view.workspace(place),
                })
            }),
        ),
        of(
            7,
            (actor(), entity()).prop_map(|(by, place)| {
                Op::by(by, move |view| GetDashboardSummary {
                    by: view.bearer(by),
                    workspace: view.workspace(place),
                })
            }),
        ),
        of(
            2,
            (actor(), new_source()).prop_map(|(by, new)| {
                Op::by(by, move |view| CreateSource {
                    by: view.bearer(by),
                    new: new.clone(),
                })
            }),
        ),
        of(
            1,
            (actor(), entity()).prop_map(|(by, source)| {
                Op::by(by, move |view| GetSource {
                    by: view.bearer(by),
                    source: view.source(source),
                })
            }),
        ),
        of(
            1,
            (actor(), page()).prop_map(|(by, page)| {
                Op::by(by, move |view| {
                    let by = view.bearer(by);
                    let request = ListSources {
                        by,
                        page: PageRequest::default(),
                    };
                    view.paged(request, page, |request| &mut request.page)
                })
            }),
        ),
    ]
}

impl Request for ListWorkspaces {
    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let listed = service.list_workspaces(&self.by.credential, &self.page);
            Ok(Response::of(&listed.await?))
        })
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authenticate(&self.by, CredentialKind::Bearer, at.now)?;
        let workspaces = model.org(who.org).workspaces.values();
        let known = workspaces.filter(|workspace| Org::works_in(&who, workspace.id));
        let records = known.map(|workspace| (workspace.id.0, json!(workspace)));
        let records = records.collect();
        let list = (self.list().unwrap_or_default(), Direction::Forward);
        model.page(list, records, &self.page, at)
    }

    fn list(&self) -> Option<String> {
        list_of(self, ())
    }
}

impl Request for GetWorkspace {
    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let found = service.get_workspace(&self.by.credential, self.workspace);
            Ok(Response::of(&found.await?))
        })
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, _) = model.enter(&self.by, self.workspace, at.now)?;
        let found = &model.org(who.org).workspaces[&self.workspace];
        Ok(Response::of(found))
    }
}

impl Request for GetDashboardSummary {
    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let WithEtag { mut value, etag } = service
                .get_dashboard_summary(&self.by.credential, self.workspace)
                .await?;
            clear_texts(&mut value);
            Ok(Response::tagged(&WithEtag { value, etag }))
        })
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(&self.by, self.workspace, Action::DashboardRead, at.now)?;
        let org = model.org(who.org);
        let summary = org.summary(who.member, &org.workspaces[&self.workspace], at.now);
        Ok(model.loosely_tagged(&summary, at, 'W'))
    }
}

/// Drops the texts for people.
fn clear_texts(summary: &mut DashboardSummary) {
    let checklist = &mut summary.first_value_checklist;
    let required = checklist.required.iter_mut();
    for step in required.chain(&mut checklist.suggested) {
        step.label.clear();
        step.cta_label.clear();
    }
}

impl Request for CreateSource {
    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let created = service.create_source(&self.by.credential, &self.new);
            Ok(Response::of(&created.await?))
        })
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        errors.name("name", &self.new.name);
        errors.name("kind", &self.new.kind);
        let who = errors.then(model.bearer(&self.by, Action::ConnectorManage, at.now))?;
        model.check_quota(who.org, Quota::Sources, 1)?;
        let source = Source {
            id: SourceId(model.made(at.learned.and_then(Response::id))),
            name: self.new.name.clone(),
            kind: self.new.kind.clone(),
            created_at: at.now,
        };
        let org = model.org_mut(who.org);
        org.sources.insert(source.id, source.clone());
        let created = (AuditAction::SourceCreate, ResourceKind::Source);
        org.audit_created(Some(&who), created, source.id.0, &source, at.now);
        Ok(Response::of(&source))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        org_state.sources.extend(response.id().map(SourceId));
    }
}

/// Authorises a caller for reading sources.
fn authorize(model: &Model, by: &Caller, now: Timestamp) -> Result<Who, ErrorResponse> {
    let who = model.authenticate(by, CredentialKind::Bearer, now)?;
    let required = [Action::MemoryRead].into();
    let is_allowed = model.org(who.org).allows_somewhere(&who, &required);
    is_allowed.then_some(who).ok_or(ErrorResponse::Forbidden)
}

impl Request for ListSources {
    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let listed = service.list_sources(&self.by.credential, &self.page);
            Ok(Response::of(&listed.await?))
        })
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = authorize(model, &self.by, at.now)?;
        let org = model.org(who.org);
        let sources = org.sources.values();
        let sources = sources.filter(|source| org.source_exists(&who, source.id));
        let records = sources.map(|source| (source.id.0, json!(source)));
        let records = records.collect();
        let list = (self.list().unwrap_or_default(), Direction::Forward);
        model.page(list, records, &self.page, at)
    }

    fn list(&self) -> Option<String> {
        list_of(self, ())
    }
}

impl Request for GetSource {
    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let found = service.get_source(&self.by.credential, self.source);
            Ok(Response::of(&found.await?))
        })
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = authorize(model, &self.by, at.now)?;
        let org = model.org(who.org);
        let found = org.sources.get(&self.source);
        let found = found.filter(|source| org.source_exists(&who, source.id));
        Ok(Response::of(found.ok_or(ErrorResponse::NotFound)?))
    }
}
