//! Writing of a validated batch, with its audit entries and events.

use std::collections::HashMap;

use serde::de::DeserializeOwned;

use super::{IngestContext, IngestOutcome, IngestedMemory, NewMemory, by_source_key};
use crate::access::Action;
use crate::error::Error;
use crate::keys;
use crate::model::{
    AuditAction, EventData, IngestSummary, MemoryContent, MemoryId, MemoryLabels, Quota,
    ReviewStatus,
};
use crate::service::KnowledgeService;
use crate::service::access::monitor::{Monitor, Subject, Visibility};
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
    /// [`Error::Forbidden`] if a memory changes and the caller does not have `memory:update`, or if
    /// it may neither read a stored memory nor has added it; [`Error::QuotaExceeded`]; those of the
    /// store.
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
        batch.write(transaction, memories).await
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

/// A batch being ingested.
struct Batch<'b> {
    service: &'b KnowledgeService,
    context: IngestContext<'b>,
    operation: AuditedOperation,
    actor: Actor,
}

impl Batch<'_> {
    async fn write(
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
            let (id, entry, outcome) = match name.and_then(|name| known.remove(name)) {
                Some(known) => self.update(transaction, &monitor, known, memory)?,
                None if mark.is_some() && !self.context.revives => {
                    let (id, outcome) = (None, IngestOutcome::Erased);
                    ingested.push(IngestedMemory { id, outcome });
                    continue;
                }
                None => {
                    if let Some(mark) = mark {
                        transaction.delete(mark.clone());
                    }
                    self.create(transaction, memory)
                }
            };
            audit.extend(entry);
            let id = Some(id);
            ingested.push(IngestedMemory { id, outcome });
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
        self.announce(transaction, &ingested).await?;
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
    ) -> (MemoryId, Option<MemoryAudit>, IngestOutcome) {
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
        (added.id, Some(entry), IngestOutcome::Created)
    }

    /// Updates a stored memory that the caller may read or has added.
    ///
    /// Of one that it has added and may no longer read, the outcome does not tell the content. The
    /// key of one that is being erased is not free yet.
    fn update(
        &self,
        transaction: &mut Transaction,
        monitor: &Monitor,
        Known {
            id,
            labels,
            content,
        }: Known,
        memory: &NewMemory,
    ) -> Result<(MemoryId, Option<MemoryAudit>, IngestOutcome), Error> {
        let org = self.context.caller.org_id();
        if monitor.is_erased(id, &labels) {
            return Err(Error::Conflict);
        }
        let is_same = content.title == memory.title && content.content == memory.content;
        let is_readable = monitor.visibility(id, &labels) == Some(Visibility::Everything);
        if is_readable && is_same {
            return Ok((id, None, IngestOutcome::Unchanged));
        }
        let caller = self.context.caller;
        let is_author = content.created_by == caller.member_id() && !caller.has_audience_list();
        let is_own = self.context.is_signed || is_author;
        if !is_readable && !is_own {
            return Err(Error::forbidden(
                "a source key belongs to a memory that the caller may not read",
            ));
        }
        if !self.context.held.contains(Action::MemoryUpdate) {
            return Err(Denial::MissingPermission(Action::MemoryUpdate).into());
        }
        let mut after = labels.clone();
        if !is_same {
            after.review = ReviewStatus::Pending;
            let content = MemoryContent {
                title: memory.title.clone(),
                content: memory.content.clone(),
                updated_by: caller.member_id(),
                updated_via: caller.via(),
                updated_at: self.operation.at,
                ..content
            };
            transaction.put(keys::content(org, id), &content);
        }
        if after != labels {
            transaction.put(keys::memory(org, id), &after);
        }
        let (states, at) = ((Some(&labels), Some(&after)), self.operation.at);
        derived::keep(transaction, (org, id), states, !is_same, at);
        let entry = MemoryAudit {
            memory_id: id,
            is_own: false,
            outcome: AuditOutcome::Ok,
            before: Some(labels),
            after: Some(after),
        };
        Ok((id, Some(entry), IngestOutcome::Updated))
    }

    async fn announce(
        &self,
        transaction: &mut Transaction,
        ingested: &[IngestedMemory],
    ) -> Result<(), Error> {
        let (env, org, at) = (
            self.service.env(),
            self.context.caller.org_id(),
            self.operation.at,
        );
        let outbox = Outbox::begin(transaction, org, self.context.workspace.id, at).await?;
        let of = |outcome| -> Vec<MemoryId> {
            ingested
                .iter()
                .filter(|memory| memory.outcome == outcome)
                .filter_map(|memory| memory.id)
                .collect()
        };
        let (created, updated) = (of(IngestOutcome::Created), of(IngestOutcome::Updated));
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
