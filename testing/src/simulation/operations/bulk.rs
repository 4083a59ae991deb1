//! Bulk updates of memories.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::{Op, Weighted, alone, by_bearer, of};
use crate::call::ApiCall;
use crate::model::{
    AuditFacts, Caller, ErrorResponse, Expected, LabelChanges, Model, Moment, Org, Replay,
    RequestErrors, Response, Who, labels_state, wire_memory,
};
use crate::simulation::call::{Described, Request, Run};
use crate::simulation::indeterminate::{Changes, read};
use crate::simulation::part::Part;
use crate::simulation::resolve::Step;
use crate::simulation::world::{OrgState, World};
use crate::strategies::{
    actor, audience_label, entity, idempotency_key, memory_entity, review_status, sensitivity_label,
};
use knowledge_core::ProblemCode;
use knowledge_core::access::CredentialKind;
use knowledge_core::api::Operation;
use knowledge_core::model::{
    AuditLogId, BulkItem, BulkItemError, BulkItemErrorCode, BulkResult, BulkSummary, BulkUpdate,
    EventType, MemoryChange, MemoryLabels, OperationId, Timestamp, WorkspaceId,
};
use knowledge_core::service::{AuditAction, IdempotencyKey, KnowledgeService};

#[derive(Clone, Debug)]
pub(in crate::simulation) struct BulkUpdateMemories {
    by: Caller,
    key: IdempotencyKey,
    request: BulkUpdate,
    /// True if it repeats an earlier one.
    is_repeated: bool,
}

impl Described for BulkUpdateMemories {
    fn operation(&self) -> Option<Operation> {
        Some(Operation::BulkUpdateMemories)
    }

    fn caller(&self) -> Option<&Caller> {
        Some(&self.by)
    }

    fn api_call(&self, _now: Timestamp) -> Option<ApiCall> {
        let mut call = ApiCall::new(Operation::BulkUpdateMemories);
        self.key.add_to(&mut call);
        self.request.add_to(&mut call);
        Some(call)
    }

    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let by = &self.by.of_service();
            let updated = service.memories().bulk_update(by, &self.key, &self.request);
            Ok(shown(&updated.await?))
        })
    }
}

/// Returns the response that is this result.
fn shown(result: &BulkResult) -> Response {
    Response::of(result).replayed(result.replayed)
}

/// Changes of labels, a few of them empty.
pub(super) fn change() -> impl Strategy<Value = MemoryChange> {
    (
        weighted(0.4, audience_label()),
        weighted(0.5, sensitivity_label()),
        weighted(0.6, review_status()),
    )
        .prop_map(|(audience_tag, sensitivity_label, review_status)| {
            MemoryChange::builder()
                .maybe_audience_tag(audience_tag)
                .maybe_sensitivity_label(sensitivity_label)
                .maybe_review_status(review_status)
                .build()
        })
}

pub(super) fn strategies() -> Vec<Weighted> {
    vec![
        of(16, update(false)),
        alone(4, update(true)),
        of(8, repeat()),
    ]
}

/// Updates of up to six memories, or dry runs, which read all members.
fn update(dry_run: bool) -> impl Strategy<Value = Op> {
    let memories = prop_oneof![30 => vec(memory_entity(), 1..7), 1 => Just(Vec::new())];
    let what = (
        idempotency_key(),
        (memories, prop::bool::weighted(0.03)),
        change(),
        weighted(0.15, entity()),
    );
    by_bearer(
        actor(),
        what,
        move |view, by, (key, memories, mut change, source)| {
            let (memories, has_duplicate) = memories;
            let mut memory_ids = view.memories(&memories, None);
            if has_duplicate {
                memory_ids.extend(memory_ids.first().copied());
            }
            change.source_id = source.map(|entity| view.source(entity));
            let request = BulkUpdate::builder().memory_ids(memory_ids);
            BulkUpdateMemories {
                by,
                key,
                request: request.change(change).dry_run(dry_run).build(),
                is_repeated: false,
            }
        },
    )
}

/// Repetitions, possibly with another change or by another caller.
fn repeat() -> impl Strategy<Value = Op> {
    let repeat = (any::<u8>(), weighted(0.2, change()), weighted(0.2, actor()));
    repeat.prop_map(|(number, change, by)| {
        Op::new("Repeat", move |world: &World| {
            let Some(number) = usize::from(number).checked_rem(world.sent.len()) else {
                return Step::Nothing;
            };
            let (earlier, key, request) = world.sent[number].clone();
            let mut repeated = BulkUpdateMemories {
                by: earlier,
                key,
                request,
                is_repeated: true,
            };
            if let Some(by) = by {
                repeated.by = world.view(by.is_second_org).bearer(by);
            }
            if let Some(change) = &change {
                repeated.request.change = change.clone();
            }
            Step::Call(repeated.into())
        })
    })
}

impl Request for BulkUpdateMemories {
    fn trim(&self, response: &mut Response) {
        let items = response.body["results"].as_array_mut();
        for item in items.into_iter().flatten() {
            if let Some(message) = item.pointer_mut("/error/message") {
                *message = json!("");
            }
        }
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        let ids = &self.request.memory_ids;
        errors.count("memoryIds", ids.len(), model.limits.bulk_memories_max);
        errors.distinct("memoryIds", ids);
        let change = &self.request.change;
        let is_empty = *change == MemoryChange::default();
        errors.when(is_empty, "body", ProblemCode::Required);
        let authenticated = model.authenticate(&self.by, CredentialKind::Bearer, at.now);
        let authorised = authenticated.and_then(|who| {
            let may = model.org(who.org).rules(&who).may_begin(change);
            may.then_some(who).ok_or(ErrorResponse::Forbidden)
        });
        let who = errors.then(authorised)?;

        if self.request.dry_run {
            let org = model.org(who.org);
            if let Some(source) = change.source_id {
                org.require_source(&who, source, "sourceId")?;
            }
            return Ok(shown(&self.previewed(org, &who)));
        }
        let name = (who.member, who.via, self.key.as_str().to_owned());
        let stored = model.org(who.org).replays.get(&name);
        if let Some(stored) = stored.filter(|stored| at.now < stored.expires_at) {
            if stored.request != self.request {
                return Err(ErrorResponse::IdempotencyKeyReused.into());
            }
            return Ok(shown(&replayed(model.org(who.org), &who, stored)));
        }
        if let Some(source) = self.request.change.source_id {
            model
                .org(who.org)
                .require_source(&who, source, "sourceId")?;
        }
        let before: Vec<_> = self.labels(model.org(who.org)).collect();
        let result = self.change_memories(model, &who, at);
        let after = self.labels(model.org(who.org));
        let labels = before.into_iter().zip(after).collect();
        let expires_at = at.now.plus(model.limits.idempotency_retention);
        let org = model.org_mut(who.org);
        let replay = Replay {
            request: self.request.clone(),
            result: result.clone(),
            labels,
            expires_at,
        };
        org.replays.insert(name, replay);
        Ok(shown(&result))
    }

    fn reconstruct(&self, _model: &Model, changes: &Changes<'_>) -> Result<Response, String> {
        let (first, page) = changes.audit_page()?;
        let operation: Uuid = read(&page["operation_id"])?;
        Ok(Response::of(&json!({
            "operationId": operation,
            "results": [{ "auditLogId": first }],
        })))
    }

    fn send(&self, world: &mut World) {
        // Several reads answer a dry run, so that concurrent callers do not repeat it.
        if !self.is_repeated && !self.request.dry_run {
            let sent = (self.by.clone(), self.key.clone(), self.request.clone());
            world.sent.push(sent);
        }
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let result = response.get::<BulkResult>("");
        let is_new = |result: &BulkResult| !result.replayed && result.impact.is_none();
        if let Some(result) = result.filter(is_new) {
            let audit = result.results.iter().map(|item| item.audit_log_id);
            org_state.audit.extend(audit);
        }
    }
}

/// Returns the stored result as far as a caller may see it now.
fn replayed(org: &Org, who: &Who, stored: &Replay) -> BulkResult {
    let mut result = stored.result.clone();
    let rules = org.rules(who);
    for (item, (before, after)) in result.results.iter_mut().zip(&stored.labels) {
        let id = item.memory_id;
        let now = org.memories.get(&id).map(|memory| &memory.labels);
        let exists = |labels: &MemoryLabels| rules.exists(id, labels);
        let stays = |after: &MemoryLabels| org.workspaces.contains_key(&after.workspace_id);
        let is_given = |after: &MemoryLabels| !exists(after) && stays(after);
        let is_given_away = item.ok && after.as_ref().is_some_and(is_given);
        let is_shown =
            before.as_ref().is_some_and(exists) && (is_given_away || now.is_some_and(exists));
        if !is_shown {
            item.ok = false;
            item.memory = None;
            item.error = Some(BulkItemError {
                code: BulkItemErrorCode::NotFound,
                message: String::new(),
            });
        }
    }
    result.replayed = true;
    result.summary = summary(&result.results);
    result
}

fn summary(items: &[BulkItem]) -> BulkSummary {
    let count = |ok| items.iter().filter(|item| item.ok == ok).count() as u32;
    BulkSummary {
        requested: items.len() as u32,
        succeeded: count(true),
        failed: count(false),
    }
}

impl BulkUpdateMemories {
    /// Returns the labels of the memories, in the order of the request.
    fn labels<'m>(&'m self, org: &'m Org) -> impl Iterator<Item = Option<MemoryLabels>> + 'm {
        let memories = self.request.memory_ids.iter();
        memories.map(|id| org.memories.get(id).map(|memory| memory.labels.clone()))
    }

    /// Returns the result of a dry run.
    fn previewed(&self, org: &Org, who: &Who) -> BulkResult {
        let change = &self.request.change;
        let (mut results, mut changed) = (Vec::new(), Vec::new());
        let mut afterwards = org.clone();
        for id in &self.request.memory_ids {
            let code = org.denied(who, *id, change);
            let mut memory = None;
            if code.is_none() {
                let before = org.memories[id].labels.clone();
                let is_changed = afterwards.relabel(*id, change);
                let after = afterwards.memories[id].labels.clone();
                memory = Some(wire_memory(*id, &after));
                if is_changed {
                    changed.push((*id, before, after));
                }
            }
            results.push(BulkItem {
                memory_id: *id,
                ok: code.is_none(),
                memory,
                audit_log_id: AuditLogId(Uuid::nil()),
                error: code.map(|code| BulkItemError {
                    code,
                    message: String::new(),
                }),
            });
        }
        BulkResult {
            operation_id: OperationId(Uuid::nil()),
            replayed: false,
            summary: summary(&results),
            results,
            labels_without_members: org.labels_without_members(who, change),
            impact: Some(org.impact(who, change, &changed)),
        }
    }

    fn change_memories(&self, model: &mut Model, who: &Who, at: &Moment<'_>) -> BulkResult {
        let learned = |field| at.learned.and_then(|learned| learned.get(field));
        let operation_id = OperationId(model.made(learned("/operationId")));
        let first = model.made(learned("/results/0/auditLogId"));
        let change = &self.request.change;
        let org = model.org_mut(who.org);
        let labels_without_members = org.labels_without_members(who, change);
        let (mut results, mut audit) = (Vec::new(), Vec::new());
        let mut changed: BTreeMap<WorkspaceId, LabelChanges> = BTreeMap::new();
        for (index, id) in self.request.memory_ids.iter().enumerate() {
            let code = org.denied(who, *id, change);
            let before = org.memories.get(id).map(|memory| memory.labels.clone());
            if code.is_none() && org.relabel(*id, change) {
                let after = org.memories[id].labels.clone();
                org.note_activity((before.as_ref(), &after), false, at.now);
                let changed = changed.entry(after.workspace_id).or_default();
                changed.insert(*id, (before.clone(), Some(after)));
            }
            let after = org.memories.get(id).filter(|_| code.is_none());
            let after = after.map(|memory| &memory.labels);
            results.push(BulkItem {
                memory_id: *id,
                ok: code.is_none(),
                memory: after.map(|labels| wire_memory(*id, labels)),
                audit_log_id: AuditLogId(Uuid::from_u128(first.as_u128() + index as u128)),
                error: code.map(|code| BulkItemError {
                    code,
                    message: String::new(),
                }),
            });
            // It does not reveal the labels of a hidden memory.
            let shown = before.as_ref();
            let shown = shown.filter(|_| code != Some(BulkItemErrorCode::NotFound));
            audit.push(AuditFacts {
                outcome: match code {
                    None => "ok",
                    Some(BulkItemErrorCode::NotFound) => org.outcome_of_hidden(*id),
                    Some(_) => "forbidden",
                },
                is_own: code.is_none() && org.reviews_own(who, *id, change),
                ..AuditFacts::ok(*id, labels_state(shown), labels_state(after))
            });
        }
        for (workspace, changes) in changed {
            org.announce_memories(EventType::MemoryUpdated, workspace, changes);
        }
        let ids = Some((operation_id.0, first));
        org.audit_all(Some(who), AuditAction::MemoryBulkUpdate, ids, audit, at.now);
        BulkResult {
            operation_id,
            replayed: false,
            summary: summary(&results),
            results,
            labels_without_members,
            impact: None,
        }
    }
}
