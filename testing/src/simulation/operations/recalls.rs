//! Recalls.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{Op, Weighted, alone, by_bearer, lists, of, one_of, requests};
use crate::authorization::{Use, Verdict};
use crate::model::{
    AuditFacts, ErrorResponse, Expected, Model, Moment, Org, RequestErrors, Response, Who,
};
use crate::simulation::call::{Listing, Request};
use crate::simulation::indeterminate::Changes;
use crate::simulation::world::OrgState;
use crate::strategies::{EntityRef, actor, common_words, entity, memory_entity, text};
use knowledge_core::ProblemCode;
use knowledge_core::access::CredentialKind;
use knowledge_core::api::Operation;
use knowledge_core::model::{
    Candidate, CitationFilter, MemoryId, Quota, Recall, RecallId, RecallResults, RecallSearch,
    RecallSummary, RecalledMemory, Timestamp, WorkspaceId,
};
use knowledge_core::service::{AuditAction, CitedKey, NewRecall, PageRequest, RecallUpdate};
use knowledge_core::store::Direction;

requests! {
    CreateRecall by recalls.create { workspace: WorkspaceId, new: NewRecall }
    ListRecalls by recalls.list {
        workspace: WorkspaceId, filter: CitationFilter, page: PageRequest
    }
    SearchRecalls by recalls.search { workspace: WorkspaceId, search: RecallSearch }
    GetRecall by recalls.get { recall: RecallId }
    UpdateRecall by recalls.update { recall: RecallId, update: RecallUpdate }
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
        of(8, search()),
        of(1, list),
        of(2, one_of(actor(), GetRecall::new)),
        of(2, update()),
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

/// Narrows recalls, mostly to the first half of what they cited at first.
fn update() -> impl Strategy<Value = Op> {
    let what = (entity(), vec(memory_entity(), 1..3), any::<u8>());
    by_bearer(actor(), what, |view, by, (recall, memories, number)| {
        let recall = view.one(recall);
        let cited = view.own.citations.get(&recall).filter(|_| number % 4 > 0);
        let memory_ids = match cited {
            Some(cited) => cited[..cited.len().div_ceil(2)].to_vec(),
            None => view.memories(&memories, None),
        };
        let update = RecallUpdate::builder().memory_ids(memory_ids).build();
        UpdateRecall::new(by, recall, update)
    })
}

/// Searches by words, among candidates, and by both.
fn search() -> impl Strategy<Value = Op> {
    let names = select(&["page-1", "page-2", "page-3"][..]);
    let query = prop_oneof![
        6 => common_words().prop_map(Some),
        1 => text().prop_map(Some),
        3 => Just(None),
    ];
    let candidates = (vec(memory_entity(), 0..5), vec((entity(), names), 0..2));
    let what = (
        entity(),
        query,
        weighted(0.4, candidates),
        prop_oneof![4 => 1_u64..6, 1 => Just(50), 1 => select(&[0, 51][..])],
        any::<bool>(),
    );
    by_bearer(
        actor(),
        what,
        |view, by, (place, query, named, limit, record)| {
            let candidates = named.map(|(memories, keys)| {
                let by_id = memories
                    .iter()
                    .map(|memory| Candidate::builder().memory_id(view.memory(*memory)).build());
                let by_key = keys.iter().map(|(source, name)| {
                    let candidate = Candidate::builder().source_id(view.source(*source));
                    candidate.source_key(*name).build()
                });
                by_key.chain(by_id).collect::<Vec<_>>()
            });
            let search = RecallSearch::builder()
                .maybe_query(query)
                .maybe_candidates(candidates);
            let search = search.limit(limit).record(record).build();
            SearchRecalls::new(by, view.workspace(place), search)
        },
    )
}

impl Request for SearchRecalls {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (search, place) = (&self.search, self.workspace);
        let mut errors = RequestErrors::default();
        let query = search.query.as_deref().unwrap_or_default();
        errors.description("query", query);
        errors.when(query.contains('\0'), "query", ProblemCode::InvalidValue);
        let is_for_nothing = query.trim().is_empty() && search.candidates.is_none();
        errors.when(is_for_nothing, "query", ProblemCode::Required);
        if let Some(candidates) = &search.candidates {
            errors.count("candidates", candidates.len(), 500);
        }
        let is_limit = (1..=50).contains(&search.limit);
        errors.when(!is_limit, "limit", ProblemCode::InvalidValue);
        let who = errors.then(model.authorize_in(self.asked(), place, at.now))?;
        let org = model.org(who.org);
        let results = org.found(&who, place, search);
        if !search.record || !org.records_recalls(place) || results.is_empty() {
            let recall_id = None;
            return Ok(Response::of(&RecallResults { recall_id, results }));
        }
        model.check_quota(who.org, Quota::Recalls, 1)?;
        let learned = at.learned.and_then(|response| response.get("/recall_id"));
        let cited = results.iter().map(|memory| memory.memory_id).collect();
        let id = RecallId(model.made(learned));
        model.put_recall(&who, (id, place), query.to_owned(), cited, at.now);
        let recall_id = Some(id);
        Ok(Response::of(&RecallResults { recall_id, results }))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let results = response.get::<Vec<RecalledMemory>>("/results");
        let cited = results.into_iter().flatten();
        let cited = cited.map(|memory| memory.memory_id).collect();
        if let Some(recall) = response.get::<RecallId>("/recall_id") {
            org_state.learn_recall(recall, cited);
        }
    }
}

impl OrgState {
    fn learn_recall(&mut self, id: RecallId, cited: Vec<MemoryId>) {
        self.recalls.push(id);
        if !cited.is_empty() {
            self.citations.insert(id, cited);
        }
    }
}

impl Model {
    /// Adds a recall, with its audit entry, and returns it.
    fn put_recall(
        &mut self,
        who: &Who,
        (id, workspace): (RecallId, WorkspaceId),
        query: String,
        cited: Vec<MemoryId>,
        now: Timestamp,
    ) -> Recall {
        let recall = Recall {
            id,
            workspace_id: workspace,
            query,
            memory_ids: cited.clone(),
            created_by: who.member,
            created_at: now,
        };
        let org = self.org_mut(who.org);
        org.recalls.insert(recall.id, recall.clone());
        org.cover_recall(workspace, now);
        // The audit log stores identifiers, not the query.
        let audited = json!({ "id": recall.id, "workspace_id": workspace, "memory_ids": cited });
        let entry = AuditFacts::ok(recall.id, (), &audited);
        org.audit(who, AuditAction::RecallCreate, entry, now);
        recall
    }
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
        let id = RecallId(model.made(at.learned.and_then(Response::id)));
        let recall = model.put_recall(&who, (id, place), query.clone(), cited, at.now);
        Ok(Response::of(&recall))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let cited = response.get::<Vec<MemoryId>>("/memory_ids");
        if let Some(recall) = response.id() {
            org_state.learn_recall(RecallId(recall), cited.unwrap_or_default());
        }
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

impl UpdateRecall {
    /// Returns the recall, if the caller may narrow it.
    fn authorise(&self, org: &Org, who: &Who) -> Result<Recall, ErrorResponse> {
        let found = org.recall(who, self.recall)?;
        let (rules, place) = (org.rules(who), found.workspace_id);
        if !rules.works_in(place) {
            return Err(ErrorResponse::NotFound);
        }
        let condition = "for a recall that the caller registered";
        let may = rules.may(Operation::UpdateRecall, condition, place);
        if may && found.created_by == who.member {
            Ok(found.clone())
        } else {
            Err(ErrorResponse::Forbidden)
        }
    }
}

impl Request for UpdateRecall {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let ids = &self.update.memory_ids;
        let mut errors = RequestErrors::default();
        errors.count("memory_ids", ids.len(), 500);
        errors.distinct("memory_ids", ids);
        let authenticated = model.authenticate(&self.by, CredentialKind::Bearer, at.now);
        let authorised = authenticated.and_then(|who| {
            let before = self.authorise(model.org(who.org), &who)?;
            Ok((who, before))
        });
        let (who, before) = errors.then(authorised)?;
        let shown = model.org(who.org).shown_recall(&who, &before).memory_ids;
        let mut unknown = RequestErrors::default();
        unknown.known("memory_ids", ids, |id| shown.contains(id));
        unknown.then(Ok(()))?;
        let mut after = before.clone();
        after.memory_ids.retain(|id| ids.contains(id));
        if after != before {
            // The audit log stores identifiers, not the query.
            let audited = |recall: &Recall| {
                let cited = &recall.memory_ids;
                let place = recall.workspace_id;
                json!({ "id": recall.id, "workspace_id": place, "memory_ids": cited })
            };
            let entry = AuditFacts::ok(self.recall, audited(&before), audited(&after));
            let org = model.org_mut(who.org);
            org.recalls.insert(self.recall, after.clone());
            org.audit(&who, AuditAction::RecallUpdate, entry, at.now);
        }
        Ok(Response::of(&after))
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
