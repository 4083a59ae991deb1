//! Bulk updates of memories, exactly once per idempotency key.
//!
//! The memories, the audit entries, the counters, the events and the idempotency record are one
//! commit. It requires that the idempotency record is absent, or expired at the version read. Of
//! two concurrent calls with the same key, one commits; the other finds the record and replays the
//! result. There is no intermediate state.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::access::{ActionSet, Credential, CredentialKind, permissions};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::Limits;
use crate::model::{
    AuditLogId, BulkItem, BulkItemError, BulkItemErrorCode, BulkResult, BulkSummary, BulkUpdate,
    EventType, Memory, MemoryId, MemoryLabels, OperationId, OrgId, Source, WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::kit::audit::{Actor, AuditedOperation};
use crate::service::kit::audit_entry::{AuditAction, AuditOutcome};
use crate::service::kit::audit_pages::read_memory_entries;
use crate::service::kit::audit_runs::MemoryAudit;
use crate::service::kit::idempotency::{IdempotencyKey, IdempotencyRecord, fingerprint};
use crate::service::kit::outbox::Outbox;
use crate::service::kit::principal::{Denial, Principal};
use crate::service::kit::validate::Problems;
use crate::service::maintain::ScheduledTask;
use crate::store::{Prepared, Transaction};

/// Name of the operation in idempotency records.
const OPERATION: &str = "bulk_update";

/// Problem of a request that sets no attribute.
pub(crate) const CHANGE_RULE: &str =
    "must set at least one of audienceTag, sensitivityLabel, sourceId, reviewStatus";

/// Checks that the list of memories is not empty, not too long and without duplicates.
pub(crate) fn check_memory_ids(problems: &mut Problems, ids: &[MemoryId], limits: &Limits) {
    problems.count("memoryIds", ids.len(), limits.bulk_memories_max);
    let mut seen = HashSet::with_capacity(ids.len());
    for (index, _) in ids.iter().enumerate().filter(|(_, id)| !seen.insert(**id)) {
        problems.push(
            format!("memoryIds[{index}]"),
            ProblemCode::Duplicate,
            "must not repeat an earlier memory of the list",
        );
    }
}

impl BulkUpdate {
    /// Checks the request and collects all problems.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`].
    pub fn validate(&self, limits: &Limits) -> Result<(), Error> {
        let mut problems = Problems::default();
        check_memory_ids(&mut problems, &self.memory_ids, limits);
        if self.change.is_empty() {
            problems.push("body", ProblemCode::Required, CHANGE_RULE);
        }
        problems.into_result()
    }

    /// Returns the actions that the change requires for every memory.
    fn required_actions(&self) -> ActionSet {
        let relabel = if self.change.relabels() {
            permissions::RELABEL.actions()
        } else {
            ActionSet::EMPTY
        };
        match self.change.review_status {
            Some(_) => relabel | permissions::REVIEW.actions(),
            None => relabel,
        }
    }
}

impl KnowledgeService {
    /// Changes attributes of many memories.
    ///
    /// A memory that cannot be changed does not affect the others: the result has an item for each
    /// memory, in the order of the request.
    ///
    /// The same request with the same key, by the same member and within the retention of results,
    /// returns the stored result with `replayed` set to true and changes nothing.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a request outside the limits or an unknown source;
    /// [`Error::Unauthenticated`]; [`Error::Forbidden`] if the caller has the required actions
    /// neither in the organisation nor in any workspace; [`Error::IdempotencyKeyReused`];
    /// [`Error::Conflict`] after repeated concurrent changes of the same memories.
    pub async fn bulk_update(
        &self,
        credential: &Credential,
        key: &IdempotencyKey,
        request: &BulkUpdate,
    ) -> Result<BulkResult, Error> {
        request.validate(self.limits())?;
        let fingerprint = &fingerprint(request);
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            caller
                .require_somewhere(&mut transaction, request.required_actions())
                .await?;
            let record_key =
                keys::idempotency(caller.org_id(), caller.member_id(), OPERATION, key.as_str());
            let record = transaction.read::<IdempotencyRecord>(&record_key).await?;
            if let Some(record) = record.filter(|record| now < record.expires_at) {
                if record.fingerprint != *fingerprint {
                    return Err(Error::IdempotencyKeyReused);
                }
                let result = replay(&transaction, &caller, &record).await?;
                return transaction.done(result);
            }
            let operation = AuditedOperation::begin(&transaction, self.env(), now);
            let expires_at = now.plus(self.limits().idempotency_retention);
            let record = IdempotencyRecord {
                operation_id: operation.id,
                fingerprint: fingerprint.clone(),
                first_audit_id: operation.first_audit_id,
                items: u32::try_from(request.memory_ids.len()).unwrap_or(u32::MAX),
                expires_at,
            };
            transaction.put(record_key.clone(), &record);
            ScheduledTask::record(record_key).schedule(&mut transaction, expires_at, self.env());
            self.change_memories(transaction, &caller, operation, request)
                .await
        })
        .await
    }

    async fn change_memories(
        &self,
        mut transaction: Transaction,
        caller: &Principal,
        operation: AuditedOperation,
        request: &BulkUpdate,
    ) -> Result<Prepared<BulkResult>, Error> {
        let org = caller.org_id();
        if let Some(source) = request.change.source_id
            && transaction
                .read::<Source>(&keys::source(org, source))
                .await?
                .is_none()
        {
            let message = "must be a source of the organisation";
            return Err(Error::invalid("sourceId", ProblemCode::NotFound, message));
        }
        let memory_keys: Vec<_> = request
            .memory_ids
            .iter()
            .map(|id| keys::memory(org, *id))
            .collect();
        let found: Vec<Option<MemoryLabels>> = transaction.read_many(&memory_keys).await?;
        let workspaces: BTreeSet<WorkspaceId> = found
            .iter()
            .flatten()
            .map(|labels| labels.workspace_id)
            .collect();
        let workspaces: Vec<_> = workspaces.into_iter().collect();
        let actions = caller.actions_in(&mut transaction, &workspaces).await?;

        let mut entries = Vec::with_capacity(found.len());
        let mut effects = Effects::default();
        for ((id, key), before) in request.memory_ids.iter().zip(memory_keys).zip(found) {
            let outcome = match &before {
                None => AuditOutcome::NotFound,
                Some(labels) => match denial(caller, request, labels, &actions) {
                    Some(denial) => AuditOutcome::Denied(denial),
                    None => AuditOutcome::Ok,
                },
            };
            if let (AuditOutcome::Ok, Some(before)) = (outcome, &before) {
                let after = request.change.applied_to(before);
                if after != *before {
                    transaction.put(key, &after);
                    effects.note(*id, before, &after);
                }
            }
            entries.push(MemoryAudit {
                memory_id: *id,
                outcome,
                before,
                after: None,
            });
        }
        effects
            .write(&mut transaction, self, org, operation)
            .await?;
        let after = entries
            .iter()
            .map(|entry| entry.labels_after(Some(&request.change)));
        let result = result(
            operation.id,
            operation.first_audit_id,
            false,
            entries.iter().zip(after),
        );
        let actor = Actor::from(caller);
        let (action, change) = (AuditAction::MemoryBulkUpdate, Some(&request.change));
        operation.record_memories(&mut transaction, actor, action, change, entries);
        transaction.done(result)
    }
}

/// Returns the reason for which the caller may not change a memory with these labels.
fn denial(
    caller: &Principal,
    request: &BulkUpdate,
    labels: &MemoryLabels,
    actions: &BTreeMap<WorkspaceId, ActionSet>,
) -> Option<Denial> {
    if !caller.works_in(labels.workspace_id) {
        return Some(Denial::OutOfScope);
    }
    let lowers = request
        .change
        .sensitivity_label
        .is_some_and(|wanted| wanted < labels.sensitivity);
    let declassify = if lowers {
        permissions::DECLASSIFY.actions()
    } else {
        ActionSet::EMPTY
    };
    let held = actions[&labels.workspace_id];
    ((request.required_actions() | declassify) - held)
        .iter()
        .next()
        .map(Denial::MissingPermission)
}

/// Effects of the changes by workspace: the review backlog and the events.
#[derive(Default)]
struct Effects {
    pending: BTreeMap<WorkspaceId, i64>,
    changed: BTreeMap<WorkspaceId, Vec<MemoryId>>,
}

impl Effects {
    fn note(&mut self, id: MemoryId, before: &MemoryLabels, after: &MemoryLabels) {
        *self.pending.entry(before.workspace_id).or_default() +=
            i64::from(after.is_pending()) - i64::from(before.is_pending());
        self.changed
            .entry(before.workspace_id)
            .or_default()
            .push(id);
    }

    async fn write(
        self,
        transaction: &mut Transaction,
        service: &KnowledgeService,
        org: OrgId,
        operation: AuditedOperation,
    ) -> Result<(), Error> {
        for (workspace, delta) in self.pending {
            transaction.add(keys::pending_count(org, workspace), delta);
        }
        for (workspace, memories) in self.changed {
            let outbox = Outbox::begin(transaction, org, workspace, operation.at).await?;
            let event_type = EventType::MemoryUpdated;
            outbox.emit_memories(
                transaction,
                service.env(),
                event_type,
                operation.id,
                &memories,
            );
        }
        Ok(())
    }
}

async fn replay(
    transaction: &Transaction,
    caller: &Principal,
    record: &IdempotencyRecord,
) -> Result<BulkResult, Error> {
    let (org, count) = (caller.org_id(), record.items as usize);
    let entries = read_memory_entries(transaction, org, record.first_audit_id, count).await?;
    // A credential whose scope excludes a changed memory must not see the result. Items that were
    // forbidden are replayed as such.
    let is_elsewhere = |entry: &MemoryAudit| {
        let workspace = entry.before.as_ref().map(|labels| labels.workspace_id);
        entry.outcome == AuditOutcome::Ok && workspace.is_some_and(|id| !caller.works_in(id))
    };
    if entries.iter().any(|(entry, _)| is_elsewhere(entry)) {
        return Err(Denial::OutOfScope.into());
    }
    let entries = entries.iter().map(|(entry, after)| (entry, after.clone()));
    Ok(result(
        record.operation_id,
        record.first_audit_id,
        true,
        entries,
    ))
}

/// Builds the result of an operation from its audit entries, for the first response and replays.
fn result<'e>(
    operation_id: OperationId,
    first_audit_id: AuditLogId,
    replayed: bool,
    entries: impl Iterator<Item = (&'e MemoryAudit, Option<MemoryLabels>)>,
) -> BulkResult {
    let mut summary = BulkSummary::default();
    let mut results = Vec::with_capacity(entries.size_hint().0);
    for (index, (entry, after)) in entries.enumerate() {
        let error = match entry.outcome {
            AuditOutcome::Ok => None,
            AuditOutcome::NotFound => Some((
                BulkItemErrorCode::NotFound,
                "there is no such memory".to_owned(),
            )),
            AuditOutcome::Denied(denial) => {
                Some((BulkItemErrorCode::Forbidden, denial.to_string()))
            }
        };
        summary.requested += 1;
        if error.is_none() {
            summary.succeeded += 1;
        } else {
            summary.failed += 1;
        }
        results.push(BulkItem {
            memory_id: entry.memory_id,
            ok: error.is_none(),
            memory: after.map(|labels| Memory::new(entry.memory_id, &labels)),
            audit_log_id: first_audit_id.plus(index as u128),
            error: error.map(|(code, message)| BulkItemError { code, message }),
        });
    }
    BulkResult {
        operation_id,
        replayed,
        summary,
        results,
    }
}
