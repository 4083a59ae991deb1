//! Recalls.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::sample::select;
use proptest::strategy::Strategy;
use serde_json::json;

use super::{Op, Weighted, alone, by_bearer, lists, of, one_of, requests};
use crate::authorization::{Use, Verdict};
use crate::model::{AuditFacts, ErrorResponse, Expected, Model, Moment, RequestErrors, Response};
use crate::simulation::call::{Listing, Request};
use crate::simulation::indeterminate::Changes;
use crate::simulation::world::OrgState;
use crate::strategies::{EntityRef, actor, entity, memory_entity};
use knowledge_core::access::CredentialKind;
use knowledge_core::api::Operation;
use knowledge_core::model::{
    CitationFilter, MemoryId, Quota, Recall, RecallId, RecallSummary, WorkspaceId,
};
use knowledge_core::service::{AuditAction, CitedKey, NewRecall, PageRequest};
use knowledge_core::store::Direction;

requests! {
    CreateRecall by recalls.create { workspace: WorkspaceId, new: NewRecall }
    ListRecalls by recalls.list {
        workspace: WorkspaceId, filter: CitationFilter, page: PageRequest
    }
    GetRecall by recalls.get { recall: RecallId }
    DeleteRecall by recalls.delete { recall: RecallId }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let what = (entity(), weighted(0.5, memory_entity()));
    let list = lists(actor(), what, |view, by, (place, memory), page| {
        let memory = memory.map(|memory| view.memory(memory));
        let filter = CitationFilter::builder().maybe_memory_id(memory).build();
        ListRecalls::new(by, view.workspace(place), filter, page)
    });
    vec![
        of(5, create(0)),
        // Several reads find what source keys name.
        alone(2, create(2)),
        of(1, list),
        of(2, one_of(actor(), GetRecall::new)),
        of(1, one_of(actor(), DeleteRecall::new)),
    ]
}

/// Recalls that cite memories, and up to so many further ones by their source keys.
fn create(keys_max: usize) -> impl Strategy<Value = Op> {
    let names = select(&["page-1", "page-2", "page-3"][..]);
    // Memories of the own organisation are from the workspace.
    let new = (
        entity(),
        vec(memory_entity(), 0..4),
        vec((entity(), names), 0..=keys_max),
    );
    by_bearer(actor(), new, |view, by, (place, memories, keys)| {
        let workspace = view.workspace(place);
        let memories = view.memories(&memories, Some(workspace));
        let key = |(source, name): &(EntityRef, &'static str)| {
            let key = CitedKey::builder().source_id(view.source(*source));
            key.source_key(*name).build()
        };
        let new = NewRecall::builder()
            .query("What now?")
            .memory_ids(memories)
            .source_keys(keys.iter().map(key).collect());
        CreateRecall::new(by, workspace, new.build())
    })
}

impl Request for CreateRecall {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (ids, keys) = (&self.new.memory_ids, &self.new.source_keys);
        let (query, place) = (&self.new.query, self.workspace);
        let mut errors = RequestErrors::default();
        errors.description("query", query);
        errors.count("memory_ids", ids.len() + keys.len(), 500);
        errors.distinct("memory_ids", ids);
        let who = errors.then(model.authorize_in(self.asked(), place, at.now))?;
        let org = model.org(who.org);
        let rules = org.rules(&who);
        let may_cite = |id: &MemoryId| {
            org.memories.get(id).is_some_and(|memory| {
                let labels = &memory.labels;
                labels.workspace_id == place
                    && rules.verdict(*id, labels, &Use::Cite) == Verdict::Everything
            })
        };
        let named = keys.iter().map(|key| {
            let name = (place, key.source_id, key.source_key.clone());
            org.names.get(&name).copied()
        });
        let named: Vec<Option<MemoryId>> = named.collect();
        let mut unknown = RequestErrors::default();
        unknown.known("memory_ids", ids, may_cite);
        unknown.known("source_keys", &named, |id| {
            id.as_ref().is_some_and(may_cite)
        });
        unknown.then(Ok(()))?;
        let mut cited = ids.clone();
        for id in named.into_iter().flatten() {
            if !cited.contains(&id) {
                cited.push(id);
            }
        }
        model.check_quota(who.org, Quota::Recalls, 1)?;
        let recall = Recall {
            id: RecallId(model.made(at.learned.and_then(Response::id))),
            workspace_id: place,
            query: query.clone(),
            memory_ids: cited.clone(),
            created_by: who.member,
            created_at: at.now,
        };
        let org = model.org_mut(who.org);
        org.recalls.insert(recall.id, recall.clone());
        // The audit log stores identifiers, not the query.
        let audited = json!({ "id": recall.id, "workspace_id": place, "memory_ids": cited });
        let entry = AuditFacts::ok(recall.id, (), &audited);
        org.audit(&who, AuditAction::RecallCreate, entry, at.now);
        Ok(Response::of(&recall))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        org_state.recalls.extend(response.id().map(RecallId));
    }
}

impl Request for ListRecalls {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let org = model.org(who.org);
        let here = org.recalls.values().filter(|recall| {
            recall.workspace_id == self.workspace && org.recall_exists(&who, recall)
        });
        let shown = here.map(|recall| org.shown_recall(&who, recall));
        let wanted = self.filter.memory_id;
        let records = shown
            .filter(|recall| wanted.is_none_or(|id| recall.memory_ids.contains(&id)))
            .map(|recall| (recall.id.0, json!(RecallSummary::from(recall))))
            .collect();
        self.page_of(model, Direction::Reverse, records, at)
    }
}

impl Request for GetRecall {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authenticate(&self.by, CredentialKind::Bearer, at.now)?;
        let recall = model.org(who.org).recall(&who, self.recall)?.clone();
        let place = recall.workspace_id;
        model.authorize_in(self.asked(), place, at.now)?;
        Ok(Response::of(
            &model.org(who.org).shown_recall(&who, &recall),
        ))
    }
}

impl Request for DeleteRecall {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authenticate(&self.by, CredentialKind::Bearer, at.now)?;
        let org = model.org(who.org);
        let found = org.recalls.get(&self.recall);
        let found = found.ok_or(ErrorResponse::NotFound)?;
        let (rules, place) = (org.rules(&who), found.workspace_id);
        let may = |condition| rules.may(Operation::DeleteRecall, condition, place);
        let others =
            may("for a recall of another member, also one that does not exist for the caller");
        let erases = others && who.scope.audience.is_none();
        if !erases && !org.recall_exists(&who, found) || !rules.works_in(place) {
            return Err(ErrorResponse::NotFound.into());
        }
        let is_own = found.created_by == who.member;
        let is_permitted = if is_own {
            may("for a recall that the caller registered")
        } else {
            others
        };
        if !is_permitted {
            return Err(ErrorResponse::Forbidden.into());
        }
        let org = model.org_mut(who.org);
        let mut entries = Vec::new();
        org.remove_recall(self.recall, &mut entries);
        let action = AuditAction::RecallDelete;
        org.audit_all(Some(&who), action, None, entries, at.now);
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        org_state.forget(self.recall.0);
    }

    fn reconstruct(&self, _model: &Model, _changes: &Changes<'_>) -> Result<Response, String> {
        Ok(Response::done())
    }
}
