//! The audit log.

use proptest::option::weighted;
use proptest::sample::select;
use uuid::Uuid;

use super::{Weighted, alone, lists, of, one_of, requests};
use crate::model::{ErrorResponse, Expected, Model, Moment, Response};
use crate::simulation::call::{Described, Request};
use crate::simulation::env::BEGIN_MILLIS;
use crate::simulation::world::OrgState;
use crate::strategies::{entity, governor};
use knowledge_core::ProblemCode;
use knowledge_core::model::{AuditLogId, OutcomeKind, Timestamp};
use knowledge_core::service::{AuditAction, AuditFilter, PageRequest, ResourceKind};

requests! {
    ListAuditEntries by audit_log.list { filter: AuditFilter, page: PageRequest }
    GetAuditEntry by audit_log.get { id: AuditLogId }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let filter = (
        weighted(0.2, entity()),
        weighted(0.2, select(AuditAction::ALL)),
        weighted(0.2, select(ResourceKind::ALL)),
        weighted(0.1, entity()),
        weighted(0.2, select(OutcomeKind::ALL)),
        weighted(0.1, 0_i64..3_600_000),
        weighted(0.1, 0_i64..3_600_000),
    );
    let list = lists(governor(), filter, |view, by, filter, page| {
        let (actor, action, resource_kind, resource, outcome, since, until) = filter;
        let memory = |entity| view.memory(entity).0;
        let after = |millis| Timestamp::from_millis(BEGIN_MILLIS + millis);
        let filter = AuditFilter::builder()
            .maybe_actor_id(actor.map(|entity| view.member(entity)))
            .maybe_action(action)
            .maybe_resource_kind(resource_kind)
            .maybe_resource_id(resource.map(memory))
            .maybe_outcome(outcome)
            .maybe_since(since.map(after))
            .maybe_until(until.map(after))
            .build();
        ListAuditEntries::new(by, filter, page)
    });
    vec![
        alone(1, list),
        of(1, one_of(governor(), GetAuditEntry::new)),
    ]
}

/// Drops the reason of a rejection, which is for people.
fn clear_reason(entry: &mut serde_json::Value) {
    entry["reason"].take();
}

impl Request for ListAuditEntries {
    fn trim(&self, response: &mut Response) {
        let entries = response.body["data"].as_array_mut();
        entries.into_iter().flatten().for_each(clear_reason);
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let filter = &self.filter;
        let authorized = model.authorize(self.asked(), at.now);
        if filter.resource_id.is_some() && filter.resource_kind.is_none() {
            let wrong = ErrorResponse::invalid("resource_kind", ProblemCode::Required);
            let unauthenticated = ErrorResponse::Unauthenticated;
            // The filter is checked before the permissions, by HTTP once the caller is known.
            let unknown = authorized.err().filter(|error| *error == unauthenticated);
            return Err(unknown.into_iter().chain([wrong]).collect());
        }
        let list = (self.list().unwrap_or_default(), filter);
        model.audit_page(&authorized?, list, &self.page, at)
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let ids = (0..).map_while(|index| response.get::<Uuid>(&format!("/data/{index}/id")));
        let ids = ids.map(AuditLogId).take(3);
        let new: Vec<_> = ids.filter(|id| !org_state.audit.contains(id)).collect();
        org_state.audit.extend(new);
    }
}

impl Request for GetAuditEntry {
    fn trim(&self, response: &mut Response) {
        clear_reason(&mut response.body);
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize(self.asked(), at.now)?;
        model.audit_entry(&who, self.id.0, at.now)
    }
}
