//! Rules of memories that several operations share: visibility, batches and events.

use serde_json::{Value, json};
use uuid::Uuid;

use super::audit::AuditFacts;
use super::{
    Announcement, ErrorResponse, Expected, LabelChanges, Memory, Model, Org, RequestErrors,
    Response, Who, change_of, done,
};
use crate::authorization::{Use, Verdict};
use knowledge_core::ProblemCode;
use knowledge_core::api::Operation;
use knowledge_core::model::{
    AudienceLabel, BulkItemErrorCode, EventType, Memory as WireMemory, MemoryChange, MemoryContent,
    MemoryDetails, MemoryId, MemoryLabels, MemorySummary, Quota, Recall, RecallId, ReviewStatus,
    SensitivityLabel, SourceId, Timestamp, WorkspaceId,
};
use knowledge_core::service::{
    AuditAction, IngestOutcome, IngestResult, IngestedMemory, NewMemory,
};

/// Destination of an ingested batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) workspace: WorkspaceId,
    pub(crate) source: SourceId,
    /// True if the batch is a signed message to an inbound webhook.
    pub(crate) is_signed: bool,
    /// True to add memories whose names were erased.
    pub(crate) revives: bool,
    /// True to store nothing.
    pub(crate) is_dry: bool,
}

impl Org {
    /// Returns the reason why a caller may not change a memory in a bulk update, if any.
    pub(crate) fn denied(
        &self,
        who: &Who,
        id: MemoryId,
        change: &MemoryChange,
    ) -> Option<BulkItemErrorCode> {
        let wanted = Use::BulkUpdate(change_of(change, false));
        match self.used(who, id, &wanted) {
            Ok(_) => None,
            Err(ErrorResponse::NotFound) => Some(BulkItemErrorCode::NotFound),
            Err(_) => Some(BulkItemErrorCode::Forbidden),
        }
    }

    /// Returns a memory and the decision on a use of it, if it is permitted.
    pub(crate) fn used(
        &self,
        who: &Who,
        id: MemoryId,
        wanted: &Use,
    ) -> Result<(&Memory, Verdict), ErrorResponse> {
        let memory = self.memories.get(&id).ok_or(ErrorResponse::NotFound)?;
        let verdict = self.rules(who).verdict(id, &memory.labels, wanted);
        done(verdict)?;
        Ok((memory, verdict))
    }

    /// Returns true if a source exists for a caller: unless it is of an inbound webhook in a private
    /// workspace that does not, always, if the credential of the caller is not limited to
    /// workspaces or audience labels. If it is, a memory filed under it has to exist for the caller.
    pub(crate) fn source_exists(&self, who: &Who, source: SourceId) -> bool {
        if !self.knows(who, self.closed_sources.get(&source).copied()) {
            return false;
        }
        let is_limited = who.scope.workspaces.is_some() || who.scope.audience.is_some();
        let mut memories = self.memories.iter();
        let rules = self.rules(who);
        !is_limited
            || memories.any(|(id, memory)| {
                memory.labels.source_id == source && rules.exists(*id, &memory.labels)
            })
    }

    /// Checks that a caller may name a source, and that it takes memories.
    pub(crate) fn require_source(
        &self,
        who: &Who,
        source: SourceId,
        path: &str,
    ) -> Result<(), ErrorResponse> {
        let webhook = self.closed_sources.get(&source);
        if !self.sources.contains_key(&source) || !self.knows(who, webhook.copied()) {
            return Err(ErrorResponse::invalid(path, ProblemCode::NotFound));
        }
        if webhook.is_some() {
            return Err(ErrorResponse::Forbidden);
        }
        Ok(())
    }

    /// Returns true if a recall shows a caller that it cites a memory.
    pub(crate) fn shows_citation(&self, who: &Who, id: MemoryId, labels: &MemoryLabels) -> bool {
        labels.review == ReviewStatus::Approved && self.rules(who).exists(id, labels)
    }

    /// Returns a recall with those memories that it shows a caller.
    pub(crate) fn shown_recall(&self, who: &Who, recall: &Recall) -> Recall {
        let mut shown = recall.clone();
        shown.memory_ids.retain(|id| {
            let cited = self.memories.get(id);
            cited.is_some_and(|cited| self.shows_citation(who, *id, &cited.labels))
        });
        shown
    }

    /// Returns a recall that exists for a caller.
    pub(crate) fn recall(&self, who: &Who, id: RecallId) -> Result<&Recall, ErrorResponse> {
        let found = self.recalls.get(&id);
        found
            .filter(|found| self.recall_exists(who, found))
            .ok_or(ErrorResponse::NotFound)
    }

    /// Returns true if a recall exists for a caller: its maker, or one who may read all it cites.
    pub(crate) fn recall_exists(&self, who: &Who, recall: &Recall) -> bool {
        self.recall_existed(who, recall, |id| Some(&self.memories.get(&id)?.labels))
    }

    /// Returns true if a recall exists for a caller while its memories have these labels.
    pub(crate) fn recall_existed<'l>(
        &self,
        who: &Who,
        recall: &Recall,
        labels: impl Fn(MemoryId) -> Option<&'l MemoryLabels>,
    ) -> bool {
        let is_direct = who.scope.audience.is_none() && who.via.is_none();
        let is_own = is_direct && recall.created_by == who.member;
        let mut cited = recall.memory_ids.iter();
        let rules = self.rules(who);
        let is_readable = |id, labels| rules.sight(id, labels) == Verdict::Everything;
        is_own || cited.all(|id| labels(*id).is_none_or(|labels| is_readable(*id, labels)))
    }

    /// Returns true if a change decides the review of what the caller wrote itself.
    pub(crate) fn reviews_own(&self, who: &Who, id: MemoryId, change: &MemoryChange) -> bool {
        let status = change.review_status;
        let memory = self.memories.get(&id);
        memory.is_some_and(|memory| memory.is_written_by(who))
            && status.is_some_and(|status| status != ReviewStatus::Pending)
    }

    /// Changes a memory and returns true if anything is different.
    pub(crate) fn relabel(&mut self, id: MemoryId, change: &MemoryChange) -> bool {
        let memory = self.memories.get_mut(&id).expect("the memory was found");
        let labels = &mut memory.labels;
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
    pub(crate) fn backlog(&self, workspace: WorkspaceId) -> u64 {
        let waits = |memory: &&Memory| {
            memory.labels.workspace_id == workspace && memory.labels.review == ReviewStatus::Pending
        };
        self.memories.values().filter(waits).count() as u64
    }
}

impl Org {
    /// Records a change to one memory with its event.
    ///
    /// `is_own` is true if the caller decided the review of what it had written itself.
    pub(crate) fn leave(
        &mut self,
        who: &Who,
        (action, event): (AuditAction, EventType),
        id: MemoryId,
        (before, after): (Option<&MemoryLabels>, Option<&MemoryLabels>),
        is_own: bool,
        at: Timestamp,
    ) {
        let workspace = after.or(before).map(|labels| labels.workspace_id);
        let workspace = workspace.expect("the memory has labels");
        let changes = [(id, (before.cloned(), after.cloned()))];
        self.announce_memories(event, workspace, changes.into());
        let entry = AuditFacts {
            is_own,
            ..AuditFacts::ok(id, labels_state(before), labels_state(after))
        };
        self.audit(who, action, entry, at);
    }
}

/// Stored memory whose source key an ingested one has.
struct KnownMemory {
    id: MemoryId,
    /// True if the text is another one.
    is_changed: bool,
    /// True if the caller may update it, given the permission.
    is_own: bool,
    /// Audience label after the entry.
    audience: AudienceLabel,
    outcome: IngestOutcome,
}

impl KnownMemory {
    /// Returns true if the entry is stored and audited.
    fn is_written(&self) -> bool {
        use IngestOutcome::{LabelKept, Moved, Updated};
        [LabelKept, Moved, Updated].contains(&self.outcome)
    }
}

impl Org {
    /// Returns for each memory true if its name was erased, and the batch does not revive it.
    fn left_out(&self, batch: Batch, memories: &[NewMemory]) -> Vec<bool> {
        let is_left_out = |memory: &NewMemory| {
            let name = memory.source_key.clone();
            let name = name.map(|name| (batch.workspace, batch.source, name));
            !batch.revives && name.is_some_and(|name| self.erased_names.contains(&name))
        };
        memories.iter().map(is_left_out).collect()
    }

    /// Returns the stored memory of each ingested one, if there is one with its source key.
    fn known_memories(
        &self,
        who: &Who,
        batch: Batch,
        memories: &[NewMemory],
    ) -> Vec<Option<KnownMemory>> {
        let rules = self.rules(who);
        let known = |memory: &NewMemory| {
            let name = (batch.workspace, batch.source, memory.source_key.clone()?);
            let id = *self.names.get(&name)?;
            let Memory { labels, content } = &self.memories[&id];
            let is_hidden = rules.sight(id, labels) != Verdict::Everything;
            let is_author = content.created_by == who.member;
            let is_own = batch.is_signed || (is_author && who.scope.audience.is_none());
            let is_changed = content.title != memory.title || content.content != memory.content;
            let audience = self.declared(batch.workspace, memory.audience_tag.as_ref());
            let outcome = if is_hidden && !is_own {
                IngestOutcome::Forbidden
            } else {
                match self.outcome_of_declaration(who, batch, id, audience) {
                    IngestOutcome::Unchanged if is_changed || is_hidden => IngestOutcome::Updated,
                    outcome => outcome,
                }
            };
            let is_moved = outcome == IngestOutcome::Moved;
            let audience = if is_moved { audience } else { &labels.audience };
            Some(KnownMemory {
                id,
                is_changed,
                is_own: is_own || !is_hidden,
                audience: audience.clone(),
                outcome,
            })
        };
        memories.iter().map(known).collect()
    }

    /// Returns the audience label that an entry declares, by default that of the workspace.
    fn declared<'m>(
        &'m self,
        workspace: WorkspaceId,
        label: Option<&'m AudienceLabel>,
    ) -> &'m AudienceLabel {
        label.unwrap_or(&self.workspaces[&workspace].audience)
    }

    /// Returns what an entry that declares an audience means for the label of a stored memory.
    fn outcome_of_declaration(
        &self,
        who: &Who,
        batch: Batch,
        id: MemoryId,
        audience: &AudienceLabel,
    ) -> IngestOutcome {
        let Memory { labels, content } = &self.memories[&id];
        let before = self.declared(batch.workspace, content.declared_audience.as_ref());
        if before == audience {
            return IngestOutcome::Unchanged;
        }
        if labels.audience != *before {
            let exists = batch.is_signed || self.rules(who).exists(id, labels);
            return if exists {
                IngestOutcome::LabelKept
            } else {
                IngestOutcome::Forbidden
            };
        }
        let change = MemoryChange::builder().audience_tag(audience.clone());
        match self.denied(who, id, &change.build()) {
            None => IngestOutcome::Moved,
            Some(_) => IngestOutcome::Forbidden,
        }
    }
}

impl Memory {
    /// Returns true if a caller, or the service account that acts for it, added the memory or last
    /// changed its text, for itself or for another member.
    pub(crate) fn is_written_by(&self, who: &Who) -> bool {
        let content = &self.content;
        let writers = [
            Some(content.created_by),
            Some(content.updated_by),
            content.created_via,
            content.updated_via,
        ];
        let callers = [Some(who.member), who.via];
        let mut writers = writers.iter().flatten();
        writers.any(|writer| callers.contains(&Some(*writer)))
    }

    /// Takes the text and the audience of an entry. If either is another one, the memory is to be
    /// reviewed again.
    fn rewrite(&mut self, new: &NewMemory, known: &KnownMemory, by: &Who, now: Timestamp) {
        if known.is_changed {
            self.content.updated_by = by.member;
            self.content.updated_via = by.via;
            self.content.title.clone_from(&new.title);
            self.content.content.clone_from(&new.content);
            self.content.updated_at = now;
        }
        if known.is_changed || self.labels.audience != known.audience {
            self.labels.review = ReviewStatus::Pending;
        }
        self.labels.audience.clone_from(&known.audience);
        self.content.declared_audience.clone_from(&new.audience_tag);
    }

    pub(crate) fn summary(&self, id: MemoryId, sight: Verdict) -> MemorySummary {
        self.details(id, sight).summary
    }

    pub(crate) fn details(&self, id: MemoryId, sight: Verdict) -> MemoryDetails {
        let is_readable = sight == Verdict::Everything;
        let shown = |text: &String| is_readable.then(|| text.clone());
        MemoryDetails {
            summary: MemorySummary {
                id,
                workspace_id: self.labels.workspace_id,
                source_id: self.labels.source_id,
                origin_source_id: self.content.origin_source_id,
                source_key: self.content.source_key.as_ref().and_then(shown),
                audience_tag: self.labels.audience.clone(),
                sensitivity_label: self.labels.sensitivity,
                review_status: self.labels.review,
                title: shown(&self.content.title),
                created_by: self.content.created_by,
                created_at: self.content.created_at,
                updated_at: self.content.updated_at,
                provenance: self.content.provenance.clone().filter(|_| is_readable),
            },
            content: shown(&self.content.content),
        }
    }
}

impl RequestErrors {
    /// Checks a memory by itself.
    pub(crate) fn memory(
        &mut self,
        prefix: &str,
        source_key: &str,
        memory: &NewMemory,
        bytes_max: usize,
    ) {
        self.name(&format!("{prefix}title"), &memory.title);
        self.text(&format!("{prefix}content"), &memory.content, bytes_max);
        if let Some(key) = &memory.source_key {
            let is_wrong = key.contains('\0') || !(1..=512).contains(&key.chars().count());
            let path = format!("{prefix}{source_key}");
            self.when(is_wrong, &path, ProblemCode::InvalidValue);
        }
    }
}

impl Model {
    pub(crate) fn errors_of_batch(&self, memories: &[NewMemory]) -> RequestErrors {
        let mut errors = RequestErrors::default();
        errors.count("memories", memories.len(), 100);
        for (index, memory) in memories.iter().enumerate() {
            let prefix = format!("memories[{index}].");
            errors.memory(&prefix, "source_key", memory, self.limits.content_bytes_max);
            if let Some(key) = &memory.source_key {
                let mut before = memories[..index].iter();
                let is_second = before.any(|other| other.source_key.as_ref() == Some(key));
                let path = format!("{prefix}source_key");
                errors.when(is_second, &path, ProblemCode::Duplicate);
            }
        }
        errors
    }

    /// Ingests a batch for an authorised caller. `ids` are the learned identifiers of its memories.
    pub(crate) fn ingest(
        &mut self,
        who: &Who,
        batch: Batch,
        memories: &[NewMemory],
        now: Timestamp,
        id: impl Fn(usize) -> Option<Uuid>,
    ) -> Expected {
        let Batch {
            workspace, source, ..
        } = batch;
        let org = self.org(who.org);
        let known = org.known_memories(who, batch, memories);
        let erased = org.left_out(batch, memories);
        let created = known.iter().zip(&erased);
        let created = created
            .filter(|(known, erased)| known.is_none() && !**erased)
            .count();
        self.check_quota(who.org, Quota::Memories, created)?;
        let to_update = "to update a memory with a known source key";
        let updates = org
            .rules(who)
            .may(Operation::IngestMemories, to_update, workspace);
        let is_forbidden = |known: &KnownMemory| known.outcome == IngestOutcome::Forbidden;
        // Without the permission to update, whether a memory may be moved is not asked.
        let needs_update =
            |known: &KnownMemory| known.is_own && known.outcome != IngestOutcome::Unchanged;
        if (batch.is_signed && known.iter().flatten().any(is_forbidden))
            || (!updates && known.iter().flatten().any(needs_update))
        {
            return Err(ErrorResponse::Forbidden.into());
        }
        let (mut ingested, mut audit) = (Vec::new(), Vec::new());
        let mut changes = LabelChanges::new();
        for (index, (memory, known)) in memories.iter().zip(known).enumerate() {
            let (id, outcome) = match known {
                None if erased[index] => (None, IngestOutcome::Erased),
                None if batch.is_dry => (None, IngestOutcome::Created),
                None => {
                    let id = MemoryId(self.made(id(index)));
                    let added = self.add_memory(who, (workspace, source), id, memory, now);
                    audit.push(AuditFacts::ok(id, (), labels_state(Some(&added.labels))));
                    changes.insert(id, (None, Some(added.labels)));
                    (Some(id), IngestOutcome::Created)
                }
                Some(known) if known.outcome == IngestOutcome::Forbidden => (None, known.outcome),
                Some(known) if known.is_written() && !batch.is_dry => {
                    let stored = self.org_mut(who.org).memories.get_mut(&known.id);
                    let stored = stored.expect("a name belongs to a memory");
                    let before = stored.labels.clone();
                    stored.rewrite(memory, &known, who, now);
                    let after = stored.labels.clone();
                    let [old, new] = [&before, &after].map(|labels| labels_state(Some(labels)));
                    audit.push(AuditFacts::ok(known.id, old, new));
                    let org = self.org_mut(who.org);
                    org.note_activity((Some(&before), &after), known.is_changed, now);
                    changes.insert(known.id, (Some(before), Some(after)));
                    (Some(known.id), known.outcome)
                }
                Some(known) => (Some(known.id), known.outcome),
            };
            ingested.push(IngestedMemory { id, outcome });
        }
        if !audit.is_empty() {
            let org = self.org_mut(who.org);
            org.announce_ingest(workspace, changes, now);
            org.audit_all(Some(who), AuditAction::MemoryIngest, None, audit, now);
        }
        Ok(Response::of(&IngestResult { memories: ingested }))
    }

    pub(crate) fn add_memory(
        &mut self,
        who: &Who,
        (workspace, source): (WorkspaceId, SourceId),
        id: MemoryId,
        memory: &NewMemory,
        now: Timestamp,
    ) -> Memory {
        let org = self.org_mut(who.org);
        let audience = memory.audience_tag.as_ref();
        let audience = audience.unwrap_or(&org.workspaces[&workspace].audience);
        let labels = MemoryLabels {
            workspace_id: workspace,
            source_id: source,
            audience: audience.clone(),
            sensitivity: memory
                .sensitivity_label
                .unwrap_or(SensitivityLabel::Internal),
            review: ReviewStatus::Pending,
        };
        let content = MemoryContent {
            title: memory.title.clone(),
            content: memory.content.clone(),
            origin_source_id: source,
            source_key: memory.source_key.clone(),
            declared_audience: memory.source_key.as_ref().and(memory.audience_tag.clone()),
            created_by: who.member,
            created_at: now,
            updated_by: who.member,
            updated_at: now,
            created_via: who.via,
            updated_via: None,
            provenance: None,
        };
        let added = Memory { labels, content };
        org.note_activity((None, &added.labels), false, now);
        org.memories.insert(id, added.clone());
        if let Some(name) = &memory.source_key {
            let name = (workspace, source, name.clone());
            org.erased_names.remove(&name);
            org.names.insert(name, id);
        }
        added
    }
}

impl Org {
    fn announce_ingest(&mut self, workspace: WorkspaceId, changes: LabelChanges, now: Timestamp) {
        let all = changes.clone().into_iter();
        let (created, updated): (LabelChanges, LabelChanges) =
            all.partition(|(_, (before, _))| before.is_none());
        let ingest = Announcement::Ingest(workspace, created.len(), updated.len());
        self.announce_changes(ingest, changes);
        self.announce_memories(EventType::ChunkCreated, workspace, created);
        self.announce_memories(EventType::MemoryUpdated, workspace, updated);
        self.last_ingest.insert(workspace, now);
    }
}

pub(crate) fn wire_memory(id: MemoryId, labels: &MemoryLabels) -> WireMemory {
    WireMemory {
        id,
        source_id: labels.source_id,
        audience_tag: labels.audience.clone(),
        sensitivity_label: labels.sensitivity,
    }
}

/// Returns labels as an entry of the audit log has them.
pub(crate) fn labels_state(labels: Option<&MemoryLabels>) -> Value {
    labels.map_or(Value::Null, |labels| {
        json!({
            "workspace_id": labels.workspace_id,
            "source_id": labels.source_id,
            "audience": labels.audience,
            "sensitivity": labels.sensitivity,
            "review": labels.review,
        })
    })
}
