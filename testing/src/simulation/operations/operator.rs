//! Operations of the operator: revoking credentials, and maintenance.

use proptest::prelude::*;

use super::{Op, Weighted, alone, of};
use crate::model::{AuditFacts, ErrorResponse, Expected, Model, Moment, Response};
use crate::simulation::call::{Described, Request, Run};
use crate::simulation::resolve::Step;
use crate::simulation::world::OrgState;
use crate::strategies::entity;
use knowledge_core::access::CredentialRecord;
use knowledge_core::model::{CredentialId, OrgId, WorkspaceId};
use knowledge_core::service::{AuditAction, KnowledgeService};

/// Revocation of a token, a session or an MCP key.
#[derive(Clone, Debug)]
struct Revoke {
    org: OrgId,
    credential: CredentialId,
    /// True to end what it created, too.
    with_created: bool,
}

/// Removal of a workspace.
#[derive(Clone, Debug)]
struct DeleteWorkspace {
    org: OrgId,
    workspace: WorkspaceId,
}

/// Maintenance, until it is complete.
#[derive(Clone, Debug)]
pub(in crate::simulation) struct Maintain;

impl Described for Revoke {
    fn org(&self) -> Option<OrgId> {
        Some(self.org)
    }

    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let operator = service.provisioning();
            let revoked = if self.with_created {
                operator
                    .revoke_with_created(self.org, self.credential)
                    .await?
            } else {
                operator.revoke(self.org, self.credential).await?
            };
            Ok(Response::of(&revoked))
        })
    }
}

impl Described for DeleteWorkspace {
    fn org(&self) -> Option<OrgId> {
        Some(self.org)
    }

    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let operator = service.provisioning();
            operator.delete_workspace(self.org, self.workspace).await?;
            Ok(Response::done())
        })
    }
}

impl Described for Maintain {
    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            while service.maintain(service.env().now()).await?.has_more {}
            Ok(Response::done())
        })
    }
}

/// Returns maintenance as an operation.
#[must_use]
pub fn maintain() -> Op {
    Op::new("Maintain", |_| Step::Call(Maintain.into()))
}

/// Returns the removal of the second workspace as an operation.
#[must_use]
pub fn delete_workspace(is_second_org: bool) -> Op {
    Op::to(is_second_org, move |view| DeleteWorkspace {
        org: view.own.id,
        workspace: view.own.workspaces[1],
    })
}

pub(super) fn strategies() -> Vec<Weighted> {
    let revoke = (any::<bool>(), any::<bool>(), entity());
    let revoke = revoke.prop_map(|(is_second_org, with_created, id)| {
        Op::to(is_second_org, move |view| Revoke {
            org: view.own.id,
            credential: view.one(id),
            with_created,
        })
    });
    // The first workspace remains, so that most of what follows is about something.
    let delete_workspace = any::<bool>().prop_map(delete_workspace);
    vec![of(1, revoke), alone(1, delete_workspace)]
}

impl Request for Revoke {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let token = model.tokens_mut().get_mut(&self.credential);
        let token = token.filter(|token| token.record.org_id == self.org);
        // An expired credential exists until it is purged, at an unspecified time.
        let token = token.filter(|token| at.now < token.record.expires_at || at.learned.is_some());
        let token = token.ok_or(ErrorResponse::NotFound)?;
        let record = &mut token.record;
        let is_done = record.is_revoked_with_created || !self.with_created;
        if record.revoked_at.is_some() && is_done {
            return Ok(Response::of(record));
        }
        let before = record.clone();
        record.revoked_at = record.revoked_at.or(Some(at.now));
        record.is_revoked_with_created = self.with_created;
        token.ended_at = self.with_created.then_some(at.now);
        let after: CredentialRecord = record.clone();
        let org = model.org_mut(self.org);
        org.mcp_keys.remove(&self.credential);
        org.api_tokens.remove(&self.credential);
        let entry = AuditFacts::ok(self.credential, &before, &after);
        org.audit_by_operator(AuditAction::CredentialRevoke, entry, at.now);
        Ok(Response::of(&after))
    }
}

impl Request for DeleteWorkspace {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        model.remove_workspace(self.org, self.workspace, at.now)?;
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _: &Response) {
        org_state.forget(self.workspace.0);
    }

    fn leaves_work(&self) -> bool {
        true
    }
}

impl Request for Maintain {
    /// The only visible effects are the announcement of statuses and the end of removals.
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        model.forget_removed_keys();
        for org in model.orgs_mut() {
            let mut connectors = std::mem::take(&mut org.connectors);
            for facts in connectors.values_mut() {
                org.announce_status(facts, at.now);
            }
            org.connectors = connectors;
            org.erase_expired(at.now);
            org.clear_removed();
        }
        Ok(Response::done())
    }

    fn is_maintenance(&self) -> bool {
        true
    }
}
