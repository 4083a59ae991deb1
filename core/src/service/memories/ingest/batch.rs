//! Writing of a validated batch, with its audit entries and events.

use std::collections::HashMap;

use serde::de::DeserializeOwned;

use super::{IngestContext, IngestOutcome, IngestedMemory, NewMemory, by_source_key};
use crate::access::Action;
use crate::error::Error;
use crate::keys;
use crate::model::{
    AudienceLabel, AuditAction, EventData, IngestSummary, MemoryChange, MemoryContent, MemoryId,
    MemoryLabels, Quota, ReviewStatus,
};
use crate::service::KnowledgeService;
use crate::service::access::monitor::{Monitor, Subject, Use, Visibility};
use crate::service::access::principal::Denial;
use crate::service::audit::entry::AuditOutcome;
use crate::service::audit::runs::MemoryAudit;
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::erasures::erased_keys::ErasedKeys;
use crate::service::memories::change_log::{Changed, is_logged, log_changes};
use crate::service::memories::derived;
use crate::service::outbox::Outbox;
use crate::service::quota::reserve_units;
use crate::store::{Entry, Key, Transaction, decode};

impl KnowledgeService {
    /// Writes a validated batch with its audit entries and events.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if a memory changes and the caller does not have `memory:update`;
    /// [`Error::QuotaExceeded`]; those of the store.
    pub(crate) async fn ingest_batch(
        &self,
        transaction: &mut Transaction,
        context: IngestContext<'_>,
        (operation, actor): (AuditedOperation, Actor),
        memories: &[NewMemory],
    ) -> Result<Vec<IngestedMemory>, Error> {
        let batch = Batch {
            service: self,
            operation,
            actor,
            context,
        };
        batch.ingest(transaction, memories).await
    }
}

fn value<T: DeserializeOwned>(key: &Key, entry: &Option<Entry>) -> Result<Option<T>, Error> {
    let found = entry.as_ref().map(|entry| decode(key, entry)).transpose()?;
    Ok(found.map(|found| found.value))
}

/// A memory that is already stored.
struct Known {
    id: MemoryId,
    labels: MemoryLabels,
    content: MemoryContent,
}

impl IngestedMemory {
    /// Creates the result of an entry that is not stored.
    fn not_stored(outcome: IngestOutcome) -> Self {
        Self { id: None, outcome }
    }
}

/// A batch being ingested.
struct Batch<'b> {
    service: &'b KnowledgeService,
    context: IngestContext<'b>,
    operation: AuditedOperation,
    actor: Actor,
}

impl Batch<'_> {
    async fn ingest(
        &self,
        transaction: &mut Transaction,
        memories: &[NewMemory],
    ) -> Result<Vec<IngestedMemory>, Error> {
        let mut known = self.known(transaction, memories).await?;
        let erased = self.erased(transaction, memories, &known).await?;
        let monitor = self.monitor(transaction, &known).await?;
        let (limits, org) = (self.service.limits(), self.context.caller.org_id());
        let kept_out = if self.context.revives {
            0
        } else {
            erased.len()
        };
        let created = memories.len() - known.len() - kept_out;
        let quota = Quota::Memories;
        reserve_units(transaction, limits, org, quota, created).await?;
        // What would be added could be taken for what is being erased.
        let caller = self.context.caller;
        if created > 0 && caller.org.erases_member(caller.member_id()) {
            return Err(Error::Conflict);
        }
        let mut ingested = Vec::with_capacity(memories.len());
        let mut audit = Vec::new();
        for memory in memories {
            let name = memory.source_key.as_deref();
            let mark = name.and_then(|name| erased.get(name));
            let (item, entry) = match name.and_then(|name| known.remove(name)) {
                Some(known) => self.update(transaction, &monitor, known, memory)?,
                None if mark.is_some() && !self.context.revives => {
                    (IngestedMemory::not_stored(IngestOutcome::Erased), None)
                }
                None => {
                    if let Some(mark) = mark {
                        transaction.delete(mark.clone());
                    }
                    self.create(transaction, memory)
                }
            };
            audit.extend(entry);
            ingested.push(item);
        }
        if audit.is_empty() {
            return Ok(ingested);
        }
        let logged = audit
            .iter()
            .filter(|entry: &&MemoryAudit| is_logged(entry.before.as_ref(), entry.after.as_ref()));
        let logged = logged.map(|entry| entry.memory_id).collect();
        let (org, first) = (self.context.caller.org_id(), self.operation.first_audit_id);
        let place = (org, self.context.workspace.id);
        log_changes(transaction, place, first, logged, Changed::Anything);
        self.announce(transaction, &audit).await?;
        let action = AuditAction::MemoryIngest;
        self.operation
            .record_memories(transaction, self.actor, action, None, audit);
        Ok(ingested)
    }

    /// Finds the stored memories that have source keys of the batch, by key.
    ///
    /// It takes two reads, however large the batch is.
    async fn known<'m>(
        &self,
        transaction: &mut Transaction,
        memories: &'m [NewMemory],
    ) -> Result<HashMap<&'m str, Known>, Error> {
        let (org, workspace) = (self.context.caller.org_id(), self.context.workspace.id);
        let names = memories
            .iter()
            .filter_map(|memory| memory.source_key.as_deref());
        let names: Vec<&str> = names.collect();
        if names.is_empty() {
            return Ok(HashMap::new());
        }
        let by_name = by_source_key(org, workspace, self.context.source, memories);
        let by_name: Vec<_> = by_name.collect();
        let ids = transaction.get_many::<MemoryId>(&by_name).await?;
        let named = names.into_iter().zip(ids);
        let named: Vec<(&str, MemoryId)> =
            named.filter_map(|(name, id)| Some((name, id?))).collect();
        let labels = named.iter().map(|(_, id)| keys::memory(org, *id));
        let contents = named.iter().map(|(_, id)| keys::content(org, *id));
        let records: Vec<Key> = labels.chain(contents).collect();
        let found = transaction.get_many::<Entry>(&records).await?;
        let mut known = HashMap::with_capacity(named.len());
        let (labels, contents) = records.split_at(named.len());
        let (found_labels, found_contents) = found.split_at(named.len());
        for (index, (name, id)) in named.into_iter().enumerate() {
            let labels = value::<MemoryLabels>(&labels[index], &found_labels[index])?;
            let content = value::<MemoryContent>(&contents[index], &found_contents[index])?;
            let (Some(labels), Some(content)) = (labels, content) else {
                return Err(Error::internal(format!(
                    "the source key of memory {id} refers to a missing record"
                )));
            };
            known.insert(
                name,
                Known {
                    id,
                    labels,
                    content,
                },
            );
        }
        Ok(known)
    }

    /// Finds the marks of erased keys of the batch, by key. Without an erasure in the organisation,
    /// there are none to read.
    async fn erased<'m>(
        &self,
        transaction: &mut Transaction,
        memories: &'m [NewMemory],
        known: &HashMap<&str, Known>,
    ) -> Result<HashMap<&'m str, Key>, Error> {
        let (org, workspace) = (self.context.caller.org_id(), self.context.workspace.id);
        let Some(hashes) = ErasedKeys::read(self.service, transaction, org).await? else {
            return Ok(HashMap::new());
        };
        let names = memories.iter();
        let names = names.filter_map(|memory| memory.source_key.as_deref());
        let names: Vec<&'m str> = names.filter(|name| !known.contains_key(*name)).collect();
        let marks = names.iter();
        let marks = marks.map(|name| hashes.mark(workspace, self.context.source, name));
        let marks: Vec<Key> = marks.collect();
        let found = transaction.get_many::<()>(&marks).await?;
        let erased = names.into_iter().zip(marks).zip(found);
        let erased = erased.filter(|(_, found)| found.is_some());
        Ok(erased.map(|(erased, _)| erased).collect())
    }

    async fn monitor(
        &self,
        transaction: &mut Transaction,
        known: &HashMap<&str, Known>,
    ) -> Result<Monitor, Error> {
        let subjects = known.values().map(|known| Subject {
            id: known.id,
            labels: &known.labels,
            content: Some(&known.content),
        });
        let subjects: Vec<Subject<'_>> = subjects.collect();
        let held = vec![(self.context.workspace.id, self.context.held)];
        Monitor::new(transaction, self.context.caller, held, &subjects).await
    }

    fn create(
        &self,
        transaction: &mut Transaction,
        memory: &NewMemory,
    ) -> (IngestedMemory, Option<MemoryAudit>) {
        let added = self
            .context
            .add(transaction, self.service.env(), self.operation.at, memory);
        let entry = MemoryAudit {
            memory_id: added.id,
            is_own: false,
            outcome: AuditOutcome::Ok,
            before: None,
            after: Some(added.labels),
        };
        let item = IngestedMemory {
            id: Some(added.id),
            outcome: IngestOutcome::Created,
        };
        (item, Some(entry))
    }

    /// Updates a stored memory that the caller may read or has added.
    ///
    /// Of one that it has added and may no longer read, the outcome does not tell the content. The
    /// key of one that is being erased is not free yet.
    fn update(
        &self,
        transaction: &mut Transaction,
        monitor: &Monitor,
        known: Known,
        memory: &NewMemory,
    ) -> Result<(IngestedMemory, Option<MemoryAudit>), Error> {
        if monitor.is_erased(known.id, &known.labels) {
            return Err(Error::Conflict);
        }
        let declared = self.context.declared(memory);
        let is_same =
            known.content.title == memory.title && known.content.content == memory.content;
        let is_declared_again = self.is_declared_again(&known, declared);
        let visibility = monitor.visibility(known.id, &known.labels);
        let is_readable = visibility == Some(Visibility::Everything);
        let id = Some(known.id);
        if is_readable && is_same && is_declared_again {
            let outcome = IngestOutcome::Unchanged;
            return Ok((IngestedMemory { id, outcome }, None));
        }
        let caller = self.context.caller;
        let is_author = known.content.created_by == caller.member_id();
        let is_own = self.context.is_signed || (is_author && !caller.has_audience_list());
        if !is_readable && !is_own {
            return self.forbidden();
        }
        if !self.context.held.contains(Action::MemoryUpdate) {
            return Err(Denial::MissingPermission(Action::MemoryUpdate).into());
        }
        let Some((audience, outcome)) = self.audience_after(monitor, &known, declared) else {
            return self.forbidden();
        };
        let entry = self.write(transaction, known, (memory, is_same), audience);
        Ok((IngestedMemory { id, outcome }, Some(entry)))
    }

    /// Answers an entry that the caller may not store.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for a signed message, whose sender gets no outcomes.
    fn forbidden(&self) -> Result<(IngestedMemory, Option<MemoryAudit>), Error> {
        if self.context.is_signed {
            return Err(Error::forbidden(
                "the member of the inbound webhook may not move a memory to the declared audience",
            ));
        }
        let item = IngestedMemory::not_stored(IngestOutcome::Forbidden);
        Ok((item, None))
    }

    /// Returns true if an entry declares the audience that was declared before.
    fn is_declared_again(&self, known: &Known, declared: Option<&AudienceLabel>) -> bool {
        let default = &self.context.workspace.audience;
        let before = known.content.declared_audience.as_ref();
        before.unwrap_or(default) == declared.unwrap_or(default)
    }

    /// Returns the audience label of a memory after an entry, with its outcome; `None` if the caller
    /// may not move the memory there.
    fn audience_after(
        &self,
        monitor: &Monitor,
        known: &Known,
        declared: Option<&AudienceLabel>,
    ) -> Option<(AudienceLabel, IngestOutcome)> {
        let (labels, default) = (&known.labels, &self.context.workspace.audience);
        if self.is_declared_again(known, declared) {
            return Some((labels.audience.clone(), IngestOutcome::Updated));
        }
        let before = known.content.declared_audience.as_ref();
        if labels.audience != *before.unwrap_or(default) {
            // A caller that cannot see the label learns nothing of it.
            let is_known = self.context.is_signed || monitor.exists(known.id, labels);
            return is_known.then(|| (labels.audience.clone(), IngestOutcome::LabelKept));
        }
        let declared = declared.unwrap_or(default);
        let change = MemoryChange::builder().audience_tag(declared.clone());
        let change = change.build();
        let decided = monitor.decide(known.id, labels, Use::Relabel(&change));
        decided
            .is_ok()
            .then(|| (declared.clone(), IngestOutcome::Moved))
    }

    /// Writes an entry over a stored memory, which has to be reviewed again if its text or its
    /// audience is another one.
    fn write(
        &self,
        transaction: &mut Transaction,
        known: Known,
        (memory, is_same): (&NewMemory, bool),
        audience: AudienceLabel,
    ) -> MemoryAudit {
        let (org, at) = (self.context.caller.org_id(), self.operation.at);
        let Known {
            id,
            labels,
            content,
        } = known;
        let mut after = MemoryLabels {
            audience,
            ..labels.clone()
        };
        if !is_same || after != labels {
            after.review = ReviewStatus::Pending;
        }
        let mut changed = MemoryContent {
            declared_audience: self.context.declared(memory).cloned(),
            ..content.clone()
        };
        if !is_same {
            changed.title.clone_from(&memory.title);
            changed.content.clone_from(&memory.content);
            changed.updated_by = self.context.caller.member_id();
            changed.updated_via = self.context.caller.via();
            changed.updated_at = at;
        }
        if changed != content {
            transaction.put(keys::content(org, id), &changed);
        }
        if after != labels {
            transaction.put(keys::memory(org, id), &after);
        }
        let states = (Some(&labels), Some(&after));
        derived::keep(transaction, (org, id), states, !is_same, at);
        MemoryAudit {
            memory_id: id,
            is_own: false,
            outcome: AuditOutcome::Ok,
            before: Some(labels),
            after: Some(after),
        }
    }

    async fn announce(
        &self,
        transaction: &mut Transaction,
        written: &[MemoryAudit],
    ) -> Result<(), Error> {
        let (env, org, at) = (
            self.service.env(),
            self.context.caller.org_id(),
            self.operation.at,
        );
        let outbox = Outbox::begin(transaction, org, self.context.workspace.id, at).await?;
        let of = |is_new: bool| -> Vec<MemoryId> {
            let of_kind = written.iter();
            let of_kind = of_kind.filter(|entry| entry.before.is_none() == is_new);
            of_kind.map(|entry| entry.memory_id).collect()
        };
        let (created, updated) = (of(true), of(false));
        let operation = self.operation;
        outbox.emit_memories(
            transaction,
            env,
            EventData::ChunkCreated,
            operation,
            &created,
        );
        outbox.emit_memories(
            transaction,
            env,
            EventData::MemoryUpdated,
            operation,
            &updated,
        );
        let data = EventData::IngestCompleted(IngestSummary {
            created: created.len(),
            operation_id: operation.id,
            source_id: self.context.source,
            updated: updated.len(),
            workspace_id: self.context.workspace.id,
        });
        outbox.emit(transaction, env, data, Some(operation.first_audit_id));
        transaction.put(keys::last_ingest(org, self.context.workspace.id), &at);
        Ok(())
    }
}
