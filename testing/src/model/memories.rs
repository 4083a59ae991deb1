//! Bulk updates and ingestion of memories.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::access::Who;
use super::{
    Announcement, Answer, Caller, Expected, Memory, Model, Org, Refusal, Replay, RequestErrors,
};
use knowledge_core::ProblemCode;
use knowledge_core::access::{Action, CredentialKind};
use knowledge_core::model::{
    AuditLogId, BulkItem, BulkItemError, BulkItemErrorCode, BulkResult, BulkSummary, BulkUpdate,
    EventType, Memory as WireMemory, MemoryChange, MemoryId, MemoryLabels, OperationId,
    ReviewStatus, SensitivityLabel, Source, SourceId, Timestamp, WorkspaceId,
};
use knowledge_core::service::{
    IdempotencyKey, IngestOutcome, IngestedMemory, NewMemory, NewSource,
};

/// Returns the actions that a change requires for any memory.
fn required_actions(change: &MemoryChange) -> BTreeSet<Action> {
    let labels = change.audience_tag.is_some()
        || change.sensitivity_label.is_some()
        || change.source_id.is_some();
    let mut required_actions = BTreeSet::new();
    if labels {
        required_actions.insert(Action::MemoryUpdate);
    }
    if change.review_status.is_some() {
        required_actions.insert(Action::MemoryReview);
    }
    required_actions
}

impl Org {
    /// Returns true if the role in the organisation or in some workspace allows all of the actions.
    fn allows_somewhere(&self, who: &Who, required_actions: &BTreeSet<Action>) -> bool {
        let everywhere = Who {
            scope: knowledge_core::access::TokenScope {
                workspaces: None,
                ..who.scope.clone()
            },
            ..who.clone()
        };
        let mut overridden = self.workspaces.keys().filter(|workspace| {
            let place = (who.member, **workspace);
            self.overrides.contains_key(&place)
        });
        required_actions.is_subset(&self.actions(&everywhere))
            || overridden
                .any(|workspace| required_actions.is_subset(&self.actions_in(who, *workspace)))
    }

    /// Returns the reason why a caller may not change a memory, if any.
    fn refusal(&self, who: &Who, id: MemoryId, change: &MemoryChange) -> Option<BulkItemErrorCode> {
        let Some(memory) = self.memories.get(&id) else {
            return Some(BulkItemErrorCode::NotFound);
        };
        let mut required_actions = required_actions(change);
        if change.sensitivity_label < Some(memory.labels.sensitivity)
            && change.sensitivity_label.is_some()
        {
            required_actions.insert(Action::MemoryDeclassify);
        }
        let held = self.actions_in(who, memory.labels.workspace_id);
        (!required_actions.is_subset(&held)).then_some(BulkItemErrorCode::Forbidden)
    }

    /// Changes a memory and returns true if anything is different.
    fn relabel(&mut self, id: MemoryId, change: &MemoryChange) -> bool {
        let labels = &mut self
            .memories
            .get_mut(&id)
            .expect("the memory was found")
            .labels;
        let before = labels.clone();
        if let Some(audience) = &change.audience_tag {
            labels.audience = audience.clone();
        }
        if let Some(sensitivity) = change.sensitivity_label {
            labels.sensitivity = sensitivity;
        }
        if let Some(source) = change.source_id {
            labels.source_id = source;
        }
        if let Some(review) = change.review_status {
            labels.review = review;
        }
        *labels != before
    }

    /// Returns the number of memories of a workspace that await review.
    pub(super) fn backlog(&self, workspace: WorkspaceId) -> u64 {
        let waits = |memory: &&Memory| {
            memory.labels.workspace_id == workspace && memory.labels.review == ReviewStatus::Pending
        };
        self.memories.values().filter(waits).count() as u64
    }
}

impl Model {
    pub(super) fn bulk_update(
        &mut self,
        by: &Caller,
        key: &IdempotencyKey,
        request: &BulkUpdate,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        let ids = &request.memory_ids;
        errors.count("memoryIds", ids.len(), self.limits.bulk_memories_max);
        for (index, id) in ids.iter().enumerate() {
            let is_second = ids[..index].contains(id);
            errors.when(
                is_second,
                &format!("memoryIds[{index}]"),
                ProblemCode::Duplicate,
            );
        }
        let needed = required_actions(&request.change);
        errors.when(needed.is_empty(), "body", ProblemCode::Required);
        let authorised = self
            .authenticate(by, CredentialKind::Bearer, now)
            .and_then(|who| {
                let may = self.org(who.org).allows_somewhere(&who, &needed);
                may.then_some(who).ok_or(Refusal::Forbidden)
            });
        let who = errors.then(authorised)?;

        let name = (who.member, key.as_str().to_owned());
        let stored = self.org(who.org).replays.get(&name);
        if let Some(stored) = stored.filter(|stored| now < stored.expires_at) {
            if stored.request != *request {
                return Err(vec![Refusal::IdempotencyKeyReused]);
            }
            let changed = stored.result.results.iter().filter(|item| item.ok);
            let places = changed.map(|item| {
                self.org(who.org).memories[&item.memory_id]
                    .labels
                    .workspace_id
            });
            let mut scoped_to = who.scope.workspaces.iter();
            if scoped_to.any(|admitted| places.clone().any(|place| !admitted.contains(&place))) {
                return Err(vec![Refusal::Forbidden]);
            }
            let replayed = true;
            return Ok(Answer::Bulk(BulkResult {
                replayed,
                ..stored.result.clone()
            }));
        }
        if let Some(source) = request.change.source_id
            && !self.org(who.org).sources.contains_key(&source)
        {
            return Err(vec![Refusal::invalid("sourceId", ProblemCode::NotFound)]);
        }
        let result = self.change_memories(&who, request, learned);
        let replay = Replay {
            request: request.clone(),
            result: result.clone(),
            expires_at: now.plus(self.limits.idempotency_retention),
        };
        self.org_mut(who.org).replays.insert(name, replay);
        Ok(Answer::Bulk(result))
    }

    fn change_memories(
        &mut self,
        who: &Who,
        request: &BulkUpdate,
        learned: Option<&Answer>,
    ) -> BulkResult {
        let (operation_id, first_audit_id) = self.new_operation(learned);
        let org = self.org_mut(who.org);
        let mut results = Vec::new();
        let mut changed: BTreeMap<WorkspaceId, BTreeSet<MemoryId>> = BTreeMap::new();
        for (index, id) in request.memory_ids.iter().enumerate() {
            let code = org.refusal(who, *id, &request.change);
            if code.is_none() && org.relabel(*id, &request.change) {
                let workspace = org.memories[id].labels.workspace_id;
                changed.entry(workspace).or_default().insert(*id);
            }
            let audit_log_id =
                AuditLogId(Uuid::from_u128(first_audit_id.0.as_u128() + index as u128));
            org.audit
                .insert(audit_log_id, (who.member, *id, code.is_none()));
            results.push(BulkItem {
                memory_id: *id,
                ok: code.is_none(),
                memory: code
                    .is_none()
                    .then(|| wire_memory(*id, &org.memories[id].labels)),
                audit_log_id,
                error: code.map(|code| BulkItemError {
                    code,
                    message: String::new(),
                }),
            });
        }
        for (workspace, memories) in changed {
            let event = Announcement::Memories(EventType::MemoryUpdated, workspace, memories);
            org.announce(event);
        }
        let count = |ok| results.iter().filter(|item| item.ok == ok).count() as u32;
        let summary = BulkSummary {
            requested: results.len() as u32,
            succeeded: count(true),
            failed: count(false),
        };
        BulkResult {
            operation_id,
            replayed: false,
            summary,
            results,
        }
    }

    /// Returns the identifiers of a new operation, which must both be new.
    fn new_operation(&mut self, learned: Option<&Answer>) -> (OperationId, AuditLogId) {
        let Some(Answer::Bulk(result)) = learned else {
            return (OperationId(Uuid::nil()), AuditLogId(Uuid::nil()));
        };
        let first = result
            .results
            .first()
            .map_or(Uuid::nil(), |item| item.audit_log_id.0);
        let (operation, audit) = (result.operation_id.0, first);
        if self.made.insert(operation) && self.made.insert(audit) {
            (OperationId(operation), AuditLogId(audit))
        } else {
            (OperationId(Uuid::nil()), AuditLogId(Uuid::nil()))
        }
    }

    pub(super) fn create_source(
        &mut self,
        by: &Caller,
        new: &NewSource,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        errors.name("name", &new.name);
        errors.name("kind", &new.kind);
        let who = errors.then(self.bearer(by, Action::ConnectorManage, now))?;
        let source = Source {
            id: SourceId(self.made(learned)),
            name: new.name.clone(),
            kind: new.kind.clone(),
            created_at: now,
        };
        let sources = &mut self.org_mut(who.org).sources;
        sources.insert(source.id, source.clone());
        Ok(Answer::Source(source))
    }

    pub(super) fn ingest(
        &mut self,
        by: &Caller,
        (workspace, source): (WorkspaceId, SourceId),
        memories: &[NewMemory],
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let errors = self.errors_of_batch(memories);
        let who = errors.then(self.authorize_in(by, workspace, Action::MemoryCreate, now))?;
        let org = self.org(who.org);
        if !org.sources.contains_key(&source) {
            return Err(vec![Refusal::invalid("source_id", ProblemCode::NotFound)]);
        }
        let known = |memory: &NewMemory| {
            let name = (workspace, source, memory.source_key.clone()?);
            org.names.get(&name).copied()
        };
        let known: Vec<Option<MemoryId>> = memories.iter().map(known).collect();
        let changes = |memory: &NewMemory, id: &MemoryId| {
            let stored = &org.memories[id];
            stored.title != memory.title || stored.content != memory.content
        };
        let changed: Vec<bool> = memories
            .iter()
            .zip(&known)
            .map(|(memory, id)| id.as_ref().is_some_and(|id| changes(memory, id)))
            .collect();
        let may_update = org
            .actions_in(&who, workspace)
            .contains(&Action::MemoryUpdate);
        if changed.contains(&true) && !may_update {
            return Err(vec![Refusal::Forbidden]);
        }
        let mut ingested = Vec::new();
        for (index, (memory, id)) in memories.iter().zip(&known).enumerate() {
            let (id, outcome) = match id {
                None => {
                    let id = self.add_memory(&who, (workspace, source), memory, learned, index);
                    (id, IngestOutcome::Created)
                }
                Some(id) if changed[index] => {
                    let stored = self.org_mut(who.org).memories.get_mut(id);
                    let stored = stored.expect("a name belongs to a memory");
                    stored.title = memory.title.clone();
                    stored.content = memory.content.clone();
                    stored.labels.review = ReviewStatus::Pending;
                    (*id, IngestOutcome::Updated)
                }
                Some(id) => (*id, IngestOutcome::Unchanged),
            };
            ingested.push(IngestedMemory { id, outcome });
        }
        self.org_mut(who.org)
            .announce_ingest(workspace, &ingested, now);
        Ok(Answer::Ingested(ingested))
    }

    fn errors_of_batch(&self, memories: &[NewMemory]) -> RequestErrors {
        let mut errors = RequestErrors::default();
        errors.count("memories", memories.len(), 100);
        for (index, memory) in memories.iter().enumerate() {
            let path = |field: &str| format!("memories[{index}].{field}");
            errors.name(&path("title"), &memory.title);
            let bytes_max = self.limits.content_bytes_max;
            errors.text(&path("content"), &memory.content, bytes_max);
            if let Some(key) = &memory.source_key {
                let is_wrong = !(1..=512).contains(&key.chars().count());
                errors.when(is_wrong, &path("source_key"), ProblemCode::InvalidValue);
                let is_second = memories[..index]
                    .iter()
                    .any(|other| other.source_key.as_ref() == Some(key));
                errors.when(is_second, &path("source_key"), ProblemCode::Duplicate);
            }
        }
        errors
    }

    fn add_memory(
        &mut self,
        who: &Who,
        (workspace, source): (WorkspaceId, SourceId),
        memory: &NewMemory,
        learned: Option<&Answer>,
        index: usize,
    ) -> MemoryId {
        let learned = match learned {
            Some(Answer::Ingested(memories)) => memories.get(index).map(|memory| memory.id),
            _ => None,
        };
        let learned = learned.filter(|id| self.made.insert(id.0));
        let id = learned.unwrap_or(MemoryId(Uuid::nil()));
        let org = self.org_mut(who.org);
        let audience = memory.audience_tag.clone();
        let labels = MemoryLabels {
            workspace_id: workspace,
            source_id: source,
            audience: audience.unwrap_or_else(|| org.workspaces[&workspace].audience.clone()),
            sensitivity: memory
                .sensitivity_label
                .unwrap_or(SensitivityLabel::Internal),
            review: ReviewStatus::Pending,
        };
        let (title, content) = (memory.title.clone(), memory.content.clone());
        org.memories.insert(
            id,
            Memory {
                labels,
                title,
                content,
            },
        );
        if let Some(name) = &memory.source_key {
            org.names.insert((workspace, source, name.clone()), id);
        }
        id
    }
}

impl Org {
    fn announce_ingest(
        &mut self,
        workspace: WorkspaceId,
        ingested: &[IngestedMemory],
        now: Timestamp,
    ) {
        let of = |outcome| -> BTreeSet<MemoryId> {
            let these = ingested.iter().filter(|memory| memory.outcome == outcome);
            these.map(|memory| memory.id).collect()
        };
        let (created, updated) = (of(IngestOutcome::Created), of(IngestOutcome::Updated));
        if created.is_empty() && updated.is_empty() {
            return;
        }
        let ingest = Announcement::Ingest(workspace, created.len(), updated.len());
        self.announce(ingest);
        for (event_type, memories) in [
            (EventType::ChunkCreated, created),
            (EventType::MemoryUpdated, updated),
        ] {
            if !memories.is_empty() {
                let event = Announcement::Memories(event_type, workspace, memories);
                self.announce(event);
            }
        }
        self.last_ingest.insert(workspace, now);
    }
}

fn wire_memory(id: MemoryId, labels: &MemoryLabels) -> WireMemory {
    WireMemory {
        id,
        source_id: labels.source_id,
        audience_tag: labels.audience.clone(),
        sensitivity_label: labels.sensitivity,
    }
}
