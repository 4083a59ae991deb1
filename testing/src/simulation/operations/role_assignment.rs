//! Roles of members: their assignment and its end.

use proptest::option::weighted;
use proptest::prelude::*;
use serde_json::json;

use super::members::find;
use super::{Op, Weighted, of, requests};
use crate::call::ApiCall;
use crate::model::{
    Asked, AuditFacts, Caller, ErrorResponse, Expected, Model, Moment, Response, none_of,
};
use crate::simulation::call::{Described, Request, Run, plain};
use crate::simulation::part::Part;
use crate::simulation::world::OrgState;
use crate::strategies::{Actor, EntityRef, RoleEntityRef, entity, governor, role_pick};
use knowledge_core::access::RoleRef;
use knowledge_core::api::Operation;
use knowledge_core::model::{MemberId, Timestamp, WorkspaceId};
use knowledge_core::service::{AuditAction, KnowledgeService, MemberAssignment};

requests! {
    EndWorkspaceRole by members.end_workspace_role {
        org: String, member: MemberId, workspace: WorkspaceId
    }
}

/// Assignment of a role in a workspace, or by the service alone in the organisation.
#[derive(Clone, Debug)]
pub(in crate::simulation) struct AssignRole {
    pub(in crate::simulation) by: Caller,
    pub(in crate::simulation) org: String,
    pub(in crate::simulation) member: MemberId,
    pub(in crate::simulation) role: RoleRef,
    pub(in crate::simulation) workspace: Option<WorkspaceId>,
}

impl Described for AssignRole {
    fn operation(&self) -> Option<Operation> {
        Some(Operation::AssignWorkspaceRole)
    }

    fn caller(&self) -> Option<&Caller> {
        Some(&self.by)
    }

    fn api_call(&self, _now: Timestamp) -> Option<ApiCall> {
        let mut call = ApiCall::new(Operation::AssignWorkspaceRole);
        self.org.add_to(&mut call);
        self.member.add_to(&mut call);
        self.workspace?.add_to(&mut call);
        call.set_body(&json!({ "role": self.role }));
        Some(call)
    }

    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let assignment = match self.workspace {
                Some(workspace) => MemberAssignment::Workspace(workspace, Some(self.role)),
                None => MemberAssignment::Organization(self.role),
            };
            let by = &self.by.of_service();
            let assigned = service
                .members()
                .assign_role(by, &self.org, self.member, assignment);
            Ok(plain(assigned.await?))
        })
    }
}

/// Returns the assignment of a role in the organisation, or in a workspace.
#[must_use]
pub fn assign_role(
    by: Actor,
    member: EntityRef,
    role: RoleEntityRef,
    workspace: Option<EntityRef>,
) -> Op {
    Op::by(by, move |view| AssignRole {
        by: view.session(by),
        org: view.own.slug.clone(),
        member: view.member(member),
        role: view.role_ref(role),
        workspace: workspace.map(|entity| view.workspace(entity)),
    })
}

/// Returns the removal of a role in a workspace.
#[must_use]
pub fn end_workspace_role(by: Actor, member: EntityRef, workspace: EntityRef) -> Op {
    Op::by(by, move |view| EndWorkspaceRole {
        by: view.session(by),
        org: view.own.slug.clone(),
        member: view.member(member),
        workspace: view.workspace(workspace),
    })
}

pub(super) fn strategies() -> Vec<Weighted> {
    vec![
        of(
            6,
            (governor(), entity(), role_pick(), weighted(0.4, entity()))
                .prop_map(|(by, member, role, place)| assign_role(by, member, role, place)),
        ),
        of(
            1,
            (governor(), entity(), entity())
                .prop_map(|(by, member, place)| end_workspace_role(by, member, place)),
        ),
        of(
            3,
            (governor(), any::<u8>()).prop_map(|(by, number)| {
                Op::by(by, move |view| {
                    let assigned = view.own.assigned.iter();
                    let (member, workspace) = assigned
                        .cycle()
                        .nth(usize::from(number) % view.own.assigned.len().max(1))
                        .copied()
                        .unwrap_or((view.own.members[0], view.own.workspaces[0]));
                    EndWorkspaceRole {
                        by: view.session(by),
                        org: view.own.slug.clone(),
                        member,
                        workspace,
                    }
                })
            }),
        ),
    ]
}

/// Replacement of a member's role in the organisation or in a workspace; without a role, its end.
struct RoleChange {
    member: MemberId,
    workspace: Option<WorkspaceId>,
    role: Option<RoleRef>,
}

/// Replaces a role of a member, and returns true if that changes anything.
fn assign(
    model: &mut Model,
    (asked, org): (Asked<'_>, &str),
    change: RoleChange,
    now: Timestamp,
) -> Result<bool, Vec<ErrorResponse>> {
    let RoleChange {
        member,
        workspace,
        role,
    } = change;
    let (who, found) = find(model, asked, (org, member), now)?;
    let org = model.org(who.org);
    let is_there = |workspace| org.workspaces.contains_key(&workspace);
    if !workspace.is_none_or(is_there) || !org.knows(&who, workspace) {
        return Err(ErrorResponse::NotFound.into());
    }
    let old = match workspace {
        Some(workspace) => org.overrides.get(&(member, workspace)).copied(),
        None => Some(found.role),
    };
    none_of(org.errors_of_assignment(&who, &found, (old, role), workspace))?;
    if old != role {
        let org = model.org_mut(who.org);
        org.put_role(member, workspace, role);
        let shown = |role| json!({ "role": role, "workspace_id": workspace });
        let entry = AuditFacts::ok(member, shown(old), shown(role));
        org.audit(&who, AuditAction::RoleAssign, entry, now);
    }
    Ok(old != role)
}

impl Request for AssignRole {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let change = RoleChange {
            member: self.member,
            workspace: self.workspace,
            role: Some(self.role),
        };
        assign(model, (self.asked(), &self.org), change, at.now)?;
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        let place = self.workspace.map(|workspace| (self.member, workspace));
        org_state.assigned.extend(place);
    }
}

impl Request for EndWorkspaceRole {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let change = RoleChange {
            member: self.member,
            workspace: Some(self.workspace),
            role: None,
        };
        let is_changed = assign(model, (self.asked(), &self.org), change, at.now)?;
        is_changed
            .then(Response::done)
            .ok_or(ErrorResponse::NotFound.into())
    }
}
