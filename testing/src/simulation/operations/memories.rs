//! Single memories.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::bulk::change;
use super::{Op, Weighted, alone, by_bearer, lists, of, requests};
use crate::authorization::{Use, Verdict};
use crate::model::{
    Caller, ErrorResponse, Expected, Memory, Model, Moment, Org, RequestErrors, Response, Who,
    change_of,
};
use crate::simulation::call::{Call, Listing, Request};
use crate::simulation::world::OrgState;
use crate::strategies::{
    EntityRef, actor, audience_label, entity, etag, memory_entity, name, new_memory, review_status,
    sensitivity_label, text,
};
use knowledge_core::ProblemCode;
use knowledge_core::access::{Action, CredentialKind};
use knowledge_core::model::{
    AccessCheck, AccessCheckResult, AccessLabels, AudienceLabel, EventType, MemoryAccess,
    MemoryFilter, MemoryId, MemoryKey, MemoryUpdate, Provenance, Quota, Recall, ReviewStatus,
    WorkspaceId,
};
use knowledge_core::service::{
    AuditAction, CreateMemory as NewSingleMemory, IfMatch, NewMemory, PageRequest,
};
use knowledge_core::store::Direction;

requests! {
    CreateMemory by memories.create tagged { workspace: WorkspaceId, new: NewSingleMemory }
    ListMemories by memories.list {
        workspace: WorkspaceId, filter: MemoryFilter, page: PageRequest
    }
    CheckMemoryAccess by memories.check_access { check: AccessCheck }
    GetMemory by memories.get tagged { memory: MemoryId }
    UpdateMemory by memories.update tagged {
        memory: MemoryId, update: MemoryUpdate, if_match: Option<IfMatch>
    }
    DeleteMemory by memories.delete { memory: MemoryId }
}

fn filter() -> impl Strategy<Value = MemoryFilter> {
    (
        weighted(0.2, audience_label()),
        weighted(0.2, sensitivity_label()),
        weighted(0.2, review_status()),
    )
        .prop_map(|(audience_tag, sensitivity_label, review_status)| {
            MemoryFilter::builder()
                .maybe_audience_tag(audience_tag)
                .maybe_sensitivity_label(sensitivity_label)
                .maybe_review_status(review_status)
                .build()
        })
}

pub(super) fn strategies() -> Vec<Weighted> {
    let recall = weighted(0.2, entity());
    let new = (entity(), entity(), new_memory(), any::<bool>(), recall);
    let create = by_bearer(actor(), new, |view, by, what| {
        let (place, source, new, revive, recall) = what;
        let new = NewSingleMemory::builder()
            .source_id(view.source(source))
            .title(new.title)
            .content(new.content)
            .maybe_source_key(new.source_key)
            .maybe_audience_tag(new.audience_tag)
            .maybe_sensitivity_label(new.sensitivity_label)
            .revive(revive)
            .maybe_recall_id(recall.map(|entity| view.one(entity)));
        CreateMemory::new(by, view.workspace(place), new.build())
    });
    let what = (entity(), filter(), weighted(0.1, entity()));
    let list = lists(
        actor(),
        what,
        |view, by, (place, mut filter, source), page| {
            filter.source_id = source.map(|entity| view.source(entity));
            ListMemories::new(by, view.workspace(place), filter, page)
        },
    );
    let names = select(&["page-1", "page-2", "page-3"][..]);
    let what = (
        vec(memory_entity(), 1..6),
        vec((entity(), entity(), names), 0..3),
        any::<bool>(),
    );
    let check = by_bearer(actor(), what, |view, by, (memories, keys, content)| {
        let memories = memories.iter().map(|entity| view.memory(*entity));
        let check = AccessCheck::builder().memory_ids(memories.collect());
        let key = |(place, source, name): &(EntityRef, EntityRef, &'static str)| {
            let key = MemoryKey::builder().workspace_id(view.workspace(*place));
            key.source_id(view.source(*source))
                .source_key(*name)
                .build()
        };
        let check = check.source_keys(keys.iter().map(key).collect());
        CheckMemoryAccess::new(by, check.include_content(content).build())
    });
    vec![
        of(2, create),
        alone(3, list),
        of(2, check),
        of(3, of_memory(GetMemory::new)),
        of(4, update()),
        of(2, of_memory(DeleteMemory::new)),
    ]
}

fn update() -> impl Strategy<Value = Op> {
    let update = (
        weighted(0.3, name()),
        weighted(0.3, text()),
        weighted(0.5, change()),
        weighted(0.1, entity()),
    );
    let what = (memory_entity(), update, etag());
    by_bearer(actor(), what, |view, by, (memory, update, tag)| {
        let memory = view.memory(memory);
        let (title, content, change, source) = update;
        let mut change = change.unwrap_or_default();
        change.source_id = source.map(|entity| view.source(entity));
        let update = MemoryUpdate::builder()
            .maybe_title(title)
            .maybe_content(content)
            .change(change);
        UpdateMemory::new(by, memory, update.build(), view.if_match(memory.0, tag))
    })
}

/// Returns a strategy for calls about a memory.
fn of_memory<C: Into<Call> + 'static>(
    call: fn(Caller, MemoryId) -> C,
) -> impl Strategy<Value = Op> {
    by_bearer(actor(), memory_entity(), move |view, by, memory| {
        call(by, view.memory(memory))
    })
}

impl CreateMemory {
    /// Returns what the memory comes from, if that is known, and the audience that an MCP key gives
    /// it.
    fn origin(
        &self,
        org: &Org,
        who: &Who,
    ) -> Result<(Option<Provenance>, Option<AudienceLabel>), ErrorResponse> {
        let mut provenance = Provenance::default();
        if let Some(id) = self.new.recall_id {
            let is_own = |recall: &&Recall| {
                recall.workspace_id == self.workspace && recall.created_by == who.member
            };
            let recall = org.recall(who, id).ok().filter(is_own);
            recall.ok_or_else(|| ErrorResponse::invalid("recallId", ProblemCode::NotFound))?;
            provenance.recall_id = Some(id);
        }
        let key = who.credential.and_then(|id| org.mcp_keys.get(&id));
        let mut audience = None;
        if let Some(key) = key {
            if key.proposal_source_id != Some(self.new.source_id) {
                return Err(ErrorResponse::Forbidden);
            }
            let (rules, mut labels) = (org.rules(who), key.audience.iter());
            let first = labels.find(|label| rules.is_covered_in(self.workspace, label));
            audience = Some(first.ok_or(ErrorResponse::Forbidden)?.clone());
            provenance.mcp_key_id = Some(key.id);
            provenance.client = Some(key.client);
        }
        let provenance = Some(provenance).filter(|found| *found != Provenance::default());
        Ok((provenance, audience))
    }
}

impl Request for CreateMemory {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (new, place) = (&self.new, self.workspace);
        let mut memory = NewMemory::builder()
            .title(new.title.clone())
            .content(new.content.clone())
            .maybe_source_key(new.source_key.clone())
            .maybe_audience_tag(new.audience_tag.clone())
            .maybe_sensitivity_label(new.sensitivity_label)
            .build();
        let mut errors = RequestErrors::default();
        errors.memory("", "sourceKey", &memory, model.limits.content_bytes_max);
        let who = errors.then(model.authorize_in(self.asked(), place, at.now))?;
        let org = model.org(who.org);
        let chooses = new.audience_tag.is_some() || new.sensitivity_label.is_some() || new.revive;
        if chooses && !org.rules(&who).holds(Action::MemoryCreate, place) {
            return Err(ErrorResponse::Forbidden.into());
        }
        let (provenance, audience) = self.origin(org, &who)?;
        memory.audience_tag = audience.or(memory.audience_tag);
        org.require_source(&who, new.source_id, "sourceId")?;
        if let Some(key) = &new.source_key
            && org.names.contains_key(&(place, new.source_id, key.clone()))
        {
            return Err(ErrorResponse::invalid("sourceKey", ProblemCode::Duplicate).into());
        }
        if let Some(key) = &new.source_key
            && !new.revive
            && org
                .erased_names
                .contains(&(place, new.source_id, key.clone()))
        {
            return Err(ErrorResponse::invalid("sourceKey", ProblemCode::Erased).into());
        }
        model.check_quota(who.org, Quota::Memories, 1)?;
        let id = MemoryId(model.made(at.learned.and_then(Response::id)));
        let mut added = model.add_memory(&who, (place, new.source_id), id, &memory, at.now);
        added.content.provenance = provenance;
        let org = model.org_mut(who.org);
        org.memories.insert(id, added.clone());
        org.last_ingest.insert(place, at.now);
        let change = (AuditAction::MemoryCreate, EventType::ChunkCreated);
        org.leave(&who, change, id, (None, Some(&added.labels)), false, at.now);
        let sight = org
            .rules(&who)
            .sight(id, &added.labels)
            .max(Verdict::Labels);
        Ok(model.tagged(&added.details(id, sight), at))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let id = response.id().map(|id| (MemoryId(id), self.workspace));
        org_state.memories.extend(id);
    }
}

impl Request for ListMemories {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let org = model.org(who.org);
        let rules = org.rules(&who);
        let is_wanted = |memory: &Memory| {
            let (filter, labels) = (&self.filter, &memory.labels);
            let (audience, source) = (filter.audience_tag.as_ref(), filter.source_id);
            let (sensitivity, review) = (filter.sensitivity_label, filter.review_status);
            audience.is_none_or(|wanted| *wanted == labels.audience)
                && source.is_none_or(|wanted| wanted == labels.source_id)
                && sensitivity.is_none_or(|wanted| wanted == labels.sensitivity)
                && review.is_none_or(|wanted| wanted == labels.review)
        };
        let memories = org.memories.iter();
        let here = memories.filter(|(_, memory)| memory.labels.workspace_id == self.workspace);
        let records = here
            .filter_map(|(id, memory)| {
                let sight = rules.sight(*id, &memory.labels);
                let is_shown = sight != Verdict::Unknown && is_wanted(memory);
                is_shown.then(|| (id.0, json!(memory.summary(*id, sight))))
            })
            .collect();
        self.page_of(model, Direction::Forward, records, at)
    }
}

impl Request for GetMemory {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authenticate(&self.by, CredentialKind::Bearer, at.now)?;
        let org = model.org(who.org);
        let (memory, sight) = org.used(&who, self.memory, &Use::Read)?;
        let details = memory.details(self.memory, sight);
        Ok(model.tagged(&details, at))
    }
}

impl Request for CheckMemoryAccess {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authenticate(&self.by, CredentialKind::Bearer, at.now)?;
        let org = model.org(who.org);
        let rules = org.rules(&who);
        let item = |id: &MemoryId| {
            let mut item = MemoryAccess::none(*id);
            let Some(memory) = org.memories.get(id) else {
                return item;
            };
            let sight = rules.sight(*id, &memory.labels);
            item.readable = sight == Verdict::Everything;
            item.labels = (sight != Verdict::Unknown).then(|| AccessLabels::from(&memory.labels));
            if item.readable && self.check.include_content {
                item.title = Some(memory.content.title.clone());
                item.content = Some(memory.content.content.clone());
            }
            item
        };
        let results = self.check.memory_ids.iter().map(item).collect();
        let of_key = |key: &MemoryKey| {
            let name = (key.workspace_id, key.source_id, key.source_key.clone());
            org.names.get(&name).map(item).filter(|item| item.readable)
        };
        let source_key_results = self.check.source_keys.iter().map(of_key).collect();
        Ok(Response::of(&AccessCheckResult {
            results,
            source_key_results,
        }))
    }
}

impl UpdateMemory {
    /// Returns the memory after the update.
    fn updated(&self, before: &Memory) -> Memory {
        let (update, change) = (&self.update, &self.update.change);
        let mut after = before.clone();
        let (title, content) = (update.title.iter(), update.content.iter());
        title.for_each(|title| after.content.title.clone_from(title));
        content.for_each(|content| after.content.content.clone_from(content));
        let labels = &mut after.labels;
        let audience = change.audience_tag.iter();
        audience.for_each(|audience| labels.audience.clone_from(audience));
        labels.sensitivity = change.sensitivity_label.unwrap_or(labels.sensitivity);
        labels.source_id = change.source_id.unwrap_or(labels.source_id);
        labels.review = match change.review_status {
            Some(review) => review,
            None if after.content != before.content => ReviewStatus::Pending,
            None => labels.review,
        };
        after
    }

    /// Returns the part of the memory that the response shows, if the caller may make the update.
    fn authorise(&self, org: &Org, who: &crate::model::Who) -> Result<Verdict, ErrorResponse> {
        let update = &self.update;
        let rewrites = update.title.is_some() || update.content.is_some();
        // One that sets nothing shows the memory.
        let wanted = if *update == MemoryUpdate::default() {
            Use::Read
        } else {
            Use::Update(change_of(&update.change, rewrites))
        };
        let (memory, _) = org.used(who, self.memory, &wanted)?;
        let sight = org.rules(who).sight(self.memory, &memory.labels);
        Ok(sight.max(Verdict::Labels))
    }
}

impl Request for UpdateMemory {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        let bytes_max = model.limits.content_bytes_max;
        let (title, content) = (self.update.title.iter(), self.update.content.iter());
        title.for_each(|title| errors.name("title", title));
        content.for_each(|content| errors.text("content", content, bytes_max));
        let authenticated = model.authenticate(&self.by, CredentialKind::Bearer, at.now);
        let authorised = authenticated.and_then(|who| {
            let sight = self.authorise(model.org(who.org), &who)?;
            Ok((who, sight))
        });
        let (who, sight) = errors.then(authorised)?;
        let org = model.org(who.org);
        let source = self.update.change.source_id;
        let is_unknown = source.is_some_and(|source| {
            let webhook = org.closed_sources.get(&source);
            !org.sources.contains_key(&source) || !org.knows(&who, webhook.copied())
        });
        if is_unknown {
            return Err(ErrorResponse::invalid("sourceId", ProblemCode::NotFound).into());
        }
        let before = org.memories[&self.memory].clone();
        let moved = source.filter(|source| *source != before.labels.source_id);
        if moved.is_some_and(|source| org.closed_sources.contains_key(&source)) {
            return Err(ErrorResponse::Forbidden.into());
        }
        let shown = before.details(self.memory, sight);
        model.require_current(self.if_match.as_ref(), &shown)?;
        let mut after = self.updated(&before);
        if after == before {
            return Ok(model.tagged(&shown, at));
        }
        if after.content != before.content {
            after.content.updated_by = who.member;
            after.content.updated_via = who.via;
            after.content.updated_at = at.now;
        }
        let org = model.org_mut(who.org);
        org.memories.insert(self.memory, after.clone());
        let is_edited = after.content != before.content;
        let changed = (Some(&before.labels), &after.labels);
        org.note_activity(changed, is_edited, at.now);
        let change = (AuditAction::MemoryUpdate, EventType::MemoryUpdated);
        let labels = (Some(&before.labels), Some(&after.labels));
        let is_own = org.reviews_own(&who, self.memory, &self.update.change);
        org.leave(&who, change, self.memory, labels, is_own, at.now);
        let sight = org
            .rules(&who)
            .sight(self.memory, &after.labels)
            .max(Verdict::Labels);
        Ok(model.tagged(&after.details(self.memory, sight), at))
    }
}

impl Request for DeleteMemory {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authenticate(&self.by, CredentialKind::Bearer, at.now)?;
        let org = model.org(who.org);
        let (memory, _) = org.used(&who, self.memory, &Use::Delete)?;
        let before = memory.labels.clone();
        let org = model.org_mut(who.org);
        org.memories.remove(&self.memory);
        org.names.retain(|_, id| *id != self.memory);
        let change = (AuditAction::MemoryDelete, EventType::ChunkDeleted);
        org.leave(
            &who,
            change,
            self.memory,
            (Some(&before), None),
            false,
            at.now,
        );
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        org_state.forget(self.memory.0);
    }
}
