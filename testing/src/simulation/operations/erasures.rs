//! Erasures and their receipts.

use std::collections::BTreeSet;

use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use uuid::Uuid;

use super::{Weighted, alone, by_bearer, list, of, one_of, requests};
use crate::call::ApiCall;
use crate::model::{
    AuditFacts, Caller, ErrorResponse, Expected, Memory, Model, Moment, Org, RequestErrors,
    Response, Who, labels_state,
};
use crate::simulation::call::{Described, Listing, Request, Run};
use crate::simulation::indeterminate::Changes;
use crate::simulation::part::Part;
use crate::simulation::resolve::View;
use crate::simulation::world::OrgState;
use crate::strategies::{EntityRef, actor, entity, idempotency_key, memory_entity};
use knowledge_core::ProblemCode;
use knowledge_core::access::{Action, TokenScope};
use knowledge_core::api::Operation;
use knowledge_core::model::{
    Erasure, ErasureCounts, ErasureId, ErasurePreview, ErasureRemainder, ErasureScope,
    ErasureStatus, MemoryId, NewErasure, RecallId, Timestamp,
};
use knowledge_core::service::{AuditAction, IdempotencyKey, KnowledgeService, PageRequest};
use knowledge_core::store::Direction;

requests! {
    ListErasures by erasures.list { page: PageRequest }
    GetErasure by erasures.get { erasure: ErasureId }
}

/// Request for an erasure, or its dry run.
#[derive(Clone, Debug)]
pub(in crate::simulation) struct CreateErasure {
    pub(in crate::simulation) by: Caller,
    pub(in crate::simulation) key: IdempotencyKey,
    pub(in crate::simulation) request: NewErasure,
}

impl Described for CreateErasure {
    fn operation(&self) -> Option<Operation> {
        Some(Operation::CreateErasure)
    }

    fn caller(&self) -> Option<&Caller> {
        Some(&self.by)
    }

    fn api_call(&self, _now: Timestamp) -> Option<ApiCall> {
        let mut call = ApiCall::new(Operation::CreateErasure);
        self.key.add_to(&mut call);
        self.request.add_to(&mut call);
        Some(call)
    }

    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let (erasures, by) = (service.erasures(), self.by.of_service());
            if self.request.dry_run {
                let preview = erasures.preview(&by, &self.request).await?;
                return Ok(Response::of(&preview));
            }
            let result = erasures.create(&by, &self.key, &self.request).await?;
            Ok(Response::of(&result.erasure).replayed(result.replayed))
        })
    }
}

/// Options of a generated erasure.
#[derive(Clone, Copy, Debug)]
struct Options {
    prefix: &'static str,
    any_prefix: bool,
    suppress: bool,
    dry_run: bool,
}

/// Scope of a generated erasure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scope {
    Memories,
    Source,
    SourcePrefix,
    Member,
    Nothing,
    Both,
}

pub(super) fn strategies() -> Vec<Weighted> {
    let scope = prop_oneof![
        12 => Just(Scope::Memories),
        2 => Just(Scope::Source),
        3 => Just(Scope::SourcePrefix),
        2 => Just(Scope::Member),
        1 => Just(Scope::Nothing),
        1 => Just(Scope::Both),
    ];
    let entities = (vec(memory_entity(), 1..5), entity());
    let prefix = select(&["page", "page-", "page-1", "page-1/"][..]);
    let options = (prefix, any::<bool>(), weighted(0.7), weighted(0.2));
    let new = (idempotency_key(), scope, entities, options);
    let create = by_bearer(actor(), new, |view, by, (key, scope, entities, options)| {
        let (memories, other) = entities;
        let memories = view.memories(&memories, None);
        let (prefix, any_prefix, suppress, dry_run) = options;
        let options = Options {
            prefix,
            any_prefix,
            suppress,
            dry_run,
        };
        let request = scope.request(view, memories, other, options);
        CreateErasure { by, key, request }
    });
    vec![
        alone(2, create),
        of(1, list(actor(), ListErasures::new)),
        of(1, one_of(actor(), GetErasure::new)),
    ]
}

impl Scope {
    /// Returns a request for an erasure of this scope.
    fn request(
        self,
        view: &View<'_>,
        memories: Vec<MemoryId>,
        other: EntityRef,
        options: Options,
    ) -> NewErasure {
        let (prefix, any_prefix) = (options.prefix, options.any_prefix);
        let new = NewErasure::builder()
            .suppress(options.suppress)
            .dry_run(options.dry_run);
        // The counts of a wide erasure include the remains of a removed workspace.
        let removed = &view.own.workspaces[1].0;
        let is_wide = self != Self::Both && self != Self::Nothing;
        if is_wide && view.own.deleted.contains(removed) {
            return new.memory_ids(memories).build();
        }
        match self {
            Self::Memories => new.memory_ids(memories).build(),
            Self::Source => new.source_id(view.source(other)).build(),
            Self::SourcePrefix => {
                let new = new.source_id(view.source(other));
                let new = new.source_key_prefix(prefix);
                new.any_prefix(any_prefix).build()
            }
            Self::Member => new.member_id(view.member(other)).build(),
            Self::Nothing => new.source_key_prefix(prefix).build(),
            Self::Both => {
                let new = new.member_id(view.member(other)).any_prefix(any_prefix);
                new.memory_ids(memories).build()
            }
        }
    }
}

impl Request for CreateErasure {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let request = &self.request;
        let named = request.memory_ids.as_ref();
        let who = self.errors().then(model.authorize(self.asked(), at.now))?;
        if request.dry_run {
            let org = model.org(who.org);
            check_scope(org, &who, request)?;
            return Ok(Response::of(&preview(org, &who, request, at)));
        }
        let name = (who.member, self.key.as_str().to_owned());
        let stored = model.org(who.org).erasure_replays.get(&name);
        if let Some((stored, id, expires_at)) = stored
            && at.now < *expires_at
        {
            if stored != request {
                return Err(ErrorResponse::IdempotencyKeyReused.into());
            }
            return Ok(Response::of(&model.org(who.org).erasures[id]).replayed(true));
        }
        check_scope(model.org(who.org), &who, request)?;
        // The audit log shows it as the identifier of an operation, which is learned there.
        let id = at.learned.and_then(Response::id).map(ErasureId);
        let is_new = |id: &ErasureId| !model.org(who.org).erasures.contains_key(id);
        let id = id.filter(is_new).unwrap_or(ErasureId(Uuid::nil()));
        let limits = model.limits.clone();
        let expires_at = at.now.plus(limits.idempotency_retention);
        let org = model.org_mut(who.org);
        let mut erasing = Erasing {
            org,
            who: &who,
            at,
            id,
            suppress: request.suppress,
            counts: ErasureCounts::default(),
        };
        let (mut not_found, mut forbidden) = (0, 0);
        match named {
            Some(named) => (not_found, forbidden) = erasing.named(named),
            None => erasing.everything(request),
        }
        let counts = erasing.counts;
        let hashes = counts.source_keys * u64::from(request.suppress);
        let until = |retention| Some(at.now.plus(retention));
        let erasure = Erasure {
            id,
            created_by: who.member,
            created_at: at.now,
            scope: scope_of(request),
            suppress: request.suppress,
            status: ErasureStatus::Completed,
            completed_at: Some(at.now),
            counts,
            not_found,
            forbidden,
            remains: ErasureRemainder {
                audit_log_until: until(limits.audit_retention),
                deliveries_until: until(limits.delivery_retention),
                replays_until: until(limits.idempotency_retention),
                backups_before: Some(at.now),
                source_key_hashes: Some(hashes),
            },
        };
        org.erasures.insert(id, erasure.clone());
        let replay = (request.clone(), id, expires_at);
        org.erasure_replays.insert(name, replay);
        Ok(Response::of(&as_answered(erasure, at)))
    }

    fn reconstruct(&self, _model: &Model, changes: &Changes<'_>) -> Result<Response, String> {
        let id = changes.only("erasure")?;
        Ok(Response::of(&json!({ "id": id })))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        if self.request.dry_run {
            return;
        }
        let id = response.id().map(ErasureId);
        org_state
            .erasures
            .extend(id.filter(|id| !org_state.erasures.contains(id)));
        // Otherwise some of them were not found, or are those of another organisation.
        let named = response.get::<u64>("/scope/memoriesNamed");
        if named == response.get("/counts/memories") {
            for memory in self.request.memory_ids.iter().flatten() {
                org_state.forget(memory.0);
            }
        }
    }

    fn leaves_work(&self) -> bool {
        !self.request.dry_run
    }
}

/// Returns the scope of a request.
fn scope_of(request: &NewErasure) -> ErasureScope {
    let named = request.memory_ids.as_ref();
    ErasureScope {
        member_id: request.member_id,
        source_id: request.source_id,
        source_key_prefix: request.source_key_prefix.clone(),
        any_prefix: request.any_prefix,
        memories_named: named.map(|named| named.len() as u32),
    }
}

/// Returns the response to a dry run: what the erasure of a copy counts.
fn preview(org: &Org, who: &Who, request: &NewErasure, at: &Moment<'_>) -> ErasurePreview {
    let mut copy = org.clone();
    let mut erasing = Erasing {
        org: &mut copy,
        who,
        at,
        id: ErasureId(Uuid::nil()),
        suppress: request.suppress,
        counts: ErasureCounts::default(),
    };
    let (mut not_found, mut forbidden) = (0, 0);
    match &request.memory_ids {
        Some(named) => (not_found, forbidden) = erasing.named(named),
        None => erasing.everything(request),
    }
    ErasurePreview {
        dry_run: true,
        scope: scope_of(request),
        suppress: request.suppress,
        counts: erasing.counts,
        not_found,
        forbidden,
    }
}

/// Returns the receipt of the response, which a failing store may have interrupted.
fn as_answered(erasure: Erasure, at: &Moment<'_>) -> Erasure {
    let learned = at
        .learned
        .filter(|learned| learned.get::<ErasureStatus>("/status") == Some(ErasureStatus::Running));
    match learned.and_then(|learned| learned.get("/counts")) {
        None => erasure,
        Some(counts) => Erasure {
            counts,
            status: ErasureStatus::Running,
            completed_at: None,
            remains: ErasureRemainder::default(),
            ..erasure
        },
    }
}

impl CreateErasure {
    fn errors(&self) -> RequestErrors {
        let mut errors = RequestErrors::default();
        let request = &self.request;
        if let Some(ids) = &request.memory_ids {
            errors.count("memoryIds", ids.len(), 400);
        }
        let scopes = usize::from(request.member_id.is_some())
            + usize::from(request.source_id.is_some())
            + usize::from(request.memory_ids.is_some());
        errors.when(scopes == 0, "body", ProblemCode::Required);
        errors.when(scopes > 1, "body", ProblemCode::InvalidValue);
        let is_alone = request.source_key_prefix.is_some() && request.source_id.is_none();
        errors.when(is_alone, "sourceKeyPrefix", ProblemCode::InvalidValue);
        let is_alone = request.any_prefix && request.source_key_prefix.is_none();
        errors.when(is_alone, "anyPrefix", ProblemCode::InvalidValue);
        errors
    }
}

/// Checks that the caller may erase everything of a member or a source, and that it exists.
fn check_scope(org: &Org, who: &Who, request: &NewErasure) -> Result<(), ErrorResponse> {
    if request.memory_ids.is_some() {
        return Ok(());
    }
    let mut places = org.overrides.keys();
    let is_owner = org.is_owner(who);
    let is_restricted = !is_owner
        && places.any(|(member, workspace)| {
            *member == who.member && !org.rules(who).holds(Action::ErasureManage, *workspace)
        });
    let is_shut_out = !org.closed_to(who).is_empty();
    if who.scope != TokenScope::default() || is_restricted || is_shut_out {
        return Err(ErrorResponse::Forbidden);
    }
    if let Some(source) = request.source_id
        && !org.sources.contains_key(&source)
    {
        return Err(ErrorResponse::invalid("sourceId", ProblemCode::NotFound));
    }
    if let Some(member) = request.member_id
        && !org.members.contains_key(&member)
        && !org.former_members.contains_key(&member)
    {
        return Err(ErrorResponse::invalid("memberId", ProblemCode::NotFound));
    }
    Ok(())
}

/// An erasure in progress.
struct Erasing<'e> {
    org: &'e mut Org,
    who: &'e Who,
    at: &'e Moment<'e>,
    id: ErasureId,
    /// True if the names of what is erased are remembered.
    suppress: bool,
    counts: ErasureCounts,
}

/// Returns true if a prefix ends where a part of the key ends, or may end anywhere.
fn begins(request: &NewErasure, prefix: &str, key: &str) -> bool {
    let is_divider = |char: char| ['/', ':', '#'].contains(&char);
    let ends_part = |rest: &str| {
        rest.is_empty() || rest.starts_with(is_divider) || prefix.ends_with(is_divider)
    };
    key.strip_prefix(prefix)
        .is_some_and(|rest| request.any_prefix || ends_part(rest))
}

impl Erasing<'_> {
    /// Erases named memories, and returns the numbers of those that are not found or forbidden.
    fn named(&mut self, ids: &[MemoryId]) -> (u32, u32) {
        let (mut entries, mut removed) = (Vec::new(), Vec::new());
        let (mut not_found, mut forbidden) = (0, 0);
        for id in ids {
            let labels = self
                .org
                .memories
                .get(id)
                .map(|memory| memory.labels.clone());
            let rules = self.org.rules(self.who);
            let exists = labels.as_ref();
            let exists = exists.filter(|labels| rules.exists(*id, labels));
            let may = exists.map(|labels| rules.holds(Action::ErasureManage, labels.workspace_id));
            let outcome = match may {
                Some(true) => {
                    removed.push(*id);
                    "ok"
                }
                Some(false) => {
                    forbidden += 1;
                    "forbidden"
                }
                None => {
                    not_found += 1;
                    self.org.outcome_of_hidden(*id)
                }
            };
            entries.push(AuditFacts {
                outcome,
                ..AuditFacts::ok(*id, labels_state(exists), ())
            });
        }
        self.memories(&removed);
        let recalls = self.org.recalls_without_memories(&removed);
        self.recalls(&recalls, &mut entries);
        self.record(entries, true);
        (not_found, forbidden)
    }

    /// Erases everything from a source or of a member.
    fn everything(&mut self, request: &NewErasure) {
        self.record(Vec::new(), true);
        let prefix = request.source_key_prefix.as_deref();
        let memories = self.org.memories.iter();
        let in_scope = memories.filter(|(_, memory)| {
            let content = &memory.content;
            let key = content.source_key.as_deref().unwrap_or_default();
            request
                .source_id
                .is_none_or(|id| memory.labels.source_id == id)
                && request.member_id.is_none_or(|id| content.created_by == id)
                && prefix.is_none_or(|prefix| begins(request, prefix, key))
        });
        let removed: Vec<MemoryId> = in_scope.map(|(id, _)| *id).collect();
        let entry = |id: &MemoryId| {
            let labels = &self.org.memories[id].labels;
            AuditFacts::ok(*id, labels_state(Some(labels)), ())
        };
        let entries = removed.iter().map(entry).collect();
        self.memories(&removed);
        self.record(entries, false);
        let mut entries = Vec::new();
        let recalls = self.org.recalls_without_memories(&removed);
        self.recalls(&recalls, &mut entries);
        self.record(std::mem::take(&mut entries), false);
        let Some(member) = request.member_id else {
            return;
        };
        let recalls = self.org.recalls.values();
        let theirs: Vec<RecallId> = recalls
            .filter(|recall| recall.created_by == member)
            .map(|recall| recall.id)
            .collect();
        self.recalls(&theirs, &mut entries);
        self.record(std::mem::take(&mut entries), false);
        let chats = self.org.chats.values();
        let theirs: BTreeSet<_> = chats
            .filter(|facts| facts.chat.created_by == member)
            .map(|facts| (facts.chat.workspace_id, facts.chat.id))
            .collect();
        for (_, id) in theirs {
            let facts = self.org.chats.remove(&id).expect("the chat is there");
            self.counts.chats += 1;
            self.counts.chat_messages += facts.messages.len() as u64;
            entries.push(AuditFacts::ok(id, facts.chat, ()));
        }
        self.record(entries, false);
    }

    fn memories(&mut self, ids: &[MemoryId]) {
        for id in ids {
            let Memory { labels, content } = &self.org.memories[id];
            self.counts.memories += 1;
            self.counts.source_keys += u64::from(content.source_key.is_some());
            if let Some(name) = content.source_key.clone().filter(|_| self.suppress) {
                let name = (labels.workspace_id, content.origin_source_id, name);
                self.org.erased_names.insert(name);
            }
        }
        self.org.remove_memories(ids);
    }

    fn recalls(&mut self, ids: &[RecallId], entries: &mut Vec<AuditFacts>) {
        for id in ids {
            self.counts.recalls += 1;
            let before = entries.len();
            self.org.remove_recall(*id, entries);
            self.counts.citation_subscriptions += (entries.len() - before - 1) as u64;
        }
    }

    /// Records a step, if it removed anything.
    fn record(&mut self, mut entries: Vec<AuditFacts>, is_first: bool) {
        if entries.is_empty() && !is_first {
            return;
        }
        let after = json!({ "counts": self.counts });
        entries.push(AuditFacts::ok(self.id, (), after));
        let who = Who {
            request_id: self.who.request_id.filter(|_| is_first),
            ..self.who.clone()
        };
        let action = AuditAction::ErasureCreate;
        self.org
            .audit_all(Some(&who), action, None, entries, self.at.now);
    }
}

impl Org {
    /// Removes a recall with its subscriptions, and adds their entries of the audit log.
    pub(crate) fn remove_recall(&mut self, id: RecallId, entries: &mut Vec<AuditFacts>) {
        let recall = self.recalls.remove(&id).expect("the recall is there");
        entries.push(AuditFacts::ok(id, recall, ()));
        let subscriptions = self.subscriptions.values();
        let subscriptions = subscriptions.filter(|subscription| subscription.recall_id == id);
        for subscription in subscriptions.cloned().collect::<Vec<_>>() {
            self.subscriptions.remove(&subscription.id);
            self.delete_endpoint(subscription.id.into());
            entries.push(AuditFacts::ok(subscription.id, subscription, ()));
        }
    }
}

/// Returns true unless a receipt names the source of an inbound webhook in a private workspace that
/// does not exist for a caller.
fn is_known(org: &Org, who: &Who, erasure: &Erasure) -> bool {
    let source = erasure.scope.source_id;
    let place = source.and_then(|source| org.closed_sources.get(&source));
    org.knows(who, place.copied())
}

impl Request for ListErasures {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize(self.asked(), at.now)?;
        let org = model.org(who.org);
        let erasures = org.erasures.values();
        let records = erasures
            .filter(|erasure| is_known(org, &who, erasure))
            .map(|erasure| (erasure.id.0, json!(erasure)))
            .collect();
        self.page_of(model, Direction::Reverse, records, at)
    }
}

impl Request for GetErasure {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize(self.asked(), at.now)?;
        let org = model.org(who.org);
        let found = org.erasures.get(&self.erasure);
        let found = found.filter(|erasure| is_known(org, &who, erasure));
        Ok(Response::of(found.ok_or(ErrorResponse::NotFound)?))
    }
}
