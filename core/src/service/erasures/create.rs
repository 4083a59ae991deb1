//! Requests for erasures.

use std::time::Duration;

use super::erased_keys::ErasedKeys;
use super::removal::{Removal, citations_read, citing};
use super::work::{ErasureWork, Phase, StoredErasure, mark};
use crate::access::Action;
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::limits::ERASURES_RUNNING_MAX;
use crate::model::{
    AuditAction, Erasure, ErasureCounts, ErasureId, ErasureRemainder, ErasureStatus, Member,
    MemoryContent, MemoryId, MemoryLabels, NewErasure, OrgId, Source, Timestamp,
};
use crate::operation::Operation;
use crate::service::access::monitor::{Subject, Use, slugs_read};
use crate::service::access::principal::{Denial, workspace_roles_read};
use crate::service::audit::entry::AuditOutcome;
use crate::service::audit::runs::MemoryAudit;
use crate::service::audit::write::{AuditedOperation, memory_pages};
use crate::service::memories::read::FoundMemory;
use crate::service::operation::idempotency::{IdempotencyKey, IdempotencyRecord};
use crate::service::operation::{Authorized, Prefetch};
use crate::service::outbox::sequences_read;
use crate::service::tasks::ScheduledTask;
use crate::service::{Caller, Erasures};
use crate::store::{Key, RangeRead};

/// Name of the operation in idempotency records.
pub(crate) const ERASURE_OPERATION: &str = "create_erasure";

/// Waiting time that is suggested when too many run.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Result of a request for an erasure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureResult {
    /// Receipt, as it is now.
    pub erasure: Erasure,
    /// True if an earlier request with the same idempotency key made it.
    pub replayed: bool,
}

impl Erasures<'_> {
    /// Erases named memories, everything from a source, or everything of a member.
    ///
    /// The first commit takes everything away: from then on, nothing of it exists for anybody. It
    /// removes named memories; the rest is removed in steps, the first ones before this returns,
    /// the others by [`KnowledgeService::maintain`](crate::service::KnowledgeService::maintain).
    /// The receipt says when it is complete. Until then, nothing can be added to the source, or by
    /// the member: [`Error::Conflict`].
    ///
    /// Unless the request has `suppress` set to false, a keyed hash of each erased source key
    /// stays, and an ingest does not bring the memory back:
    /// [`IngestOutcome::Erased`](crate::service::IngestOutcome::Erased).
    ///
    /// The same request with the same key, by the same member and within the retention of results,
    /// returns the receipt with `replayed` set to true.
    ///
    /// # Errors
    /// Those of [`Operation::CreateErasure`]; [`Error::InvalidRequest`] for a request without
    /// exactly one scope, an unknown member or source, or a dry run, which
    /// [`preview`](Self::preview) answers; [`Error::Forbidden`] for a source or a
    /// member, with a narrowed credential, without `erasure:manage` in a workspace, or while a
    /// private workspace does not exist for the caller;
    /// [`Error::RateLimited`] while 16 erasures of the organisation run.
    pub async fn create(
        self,
        caller: &Caller,
        key: &IdempotencyKey,
        request: &NewErasure,
    ) -> Result<ErasureResult, Error> {
        self.service.checks().check(request)?;
        if request.dry_run {
            let message = "must be false to erase something";
            return Err(Error::invalid("dryRun", ProblemCode::InvalidValue, message));
        }
        let fingerprint = &self.service.request_fingerprint(request);
        let result = self
            .service
            .perform(Operation::CreateErasure, caller, |caller| async move {
                let org = caller.org();
                let prefetch = erasure_prefetch(org, request)
                    .and_idempotency(ERASURE_OPERATION, key)
                    .and_ranges([sequences_read(org), slugs_read(org)]);
                let caller = caller.authenticate(prefetch).await?;
                let member = caller.member();
                let record_key = keys::idempotency(org, member, ERASURE_OPERATION, key.as_str());
                let mut op = caller.in_organization(None).await?;
                let mut creation = Creation {
                    op: &mut op,
                    request,
                    fingerprint,
                    record_key,
                };
                if let Some(stored) = creation.earlier_erasure().await? {
                    return op.done((org, stored, true));
                }
                creation.require_capacity()?;
                require_scope(creation.op, request).await?;
                let stored = creation.start().await?;
                op.done((org, stored, false))
            })
            .await;
        let (org, mut stored, replayed) = result?;
        if !replayed {
            // Without an answer of the store, the receipt of the first commit is true too.
            stored = self.service.erase_now(org, stored).await;
        }
        Ok(ErasureResult {
            erasure: self.service.shown_receipt(stored),
            replayed,
        })
    }
}

/// The first commit of an erasure, which takes its whole scope away.
struct Creation<'c, 'o> {
    op: &'c mut Authorized<'o>,
    request: &'c NewErasure,
    fingerprint: &'c str,
    /// Key of the idempotency record.
    record_key: Key,
}

impl Creation<'_, '_> {
    /// Returns the erasure of an earlier request with the same idempotency key.
    async fn earlier_erasure(&mut self) -> Result<Option<StoredErasure>, Error> {
        let op = &mut *self.op;
        let record = op
            .transaction
            .get::<IdempotencyRecord>(&self.record_key)
            .await?;
        let Some(record) = record.filter(|record| op.now < record.expires_at) else {
            return Ok(None);
        };
        if record.fingerprint != self.fingerprint {
            return Err(Error::IdempotencyKeyReused);
        }
        let receipt = keys::erasure(op.org(), ErasureId(record.operation_id.0));
        op.find(&receipt, EntityKind::Erasure).await.map(Some)
    }

    fn require_capacity(&self) -> Result<(), Error> {
        if self.op.principal.org.erasing.len() >= ERASURES_RUNNING_MAX {
            let retry_after = RETRY_AFTER;
            return Err(Error::RateLimited { retry_after });
        }
        Ok(())
    }

    /// Hides the scope, removes the memories that are named, and schedules the rest.
    async fn start(mut self) -> Result<StoredErasure, Error> {
        let (operation, actor) = self.op.audit(AuditAction::ErasureCreate);
        self.write_record(&operation);
        let mut receipt = self.receipt(&operation);
        let mut work = ErasureWork {
            credential: actor.credential,
            phase: Some(Phase::Memories),
            ..ErasureWork::default()
        };
        let org = self.op.org();
        let op = &mut *self.op;
        mark(&mut op.transaction, op.principal.org.clone(), &receipt);
        let mut removal = Removal::new(op.service, org, op.now);
        if receipt.suppress {
            removal.suppress(Some(ErasedKeys::read_or_create(op).await?));
        }
        if let Some(memories) = &self.request.memory_ids {
            work.phase = None;
            let removed = erase_named(op, &mut removal, &mut receipt, memories).await?;
            let (recalls, _) = citing(&mut op.transaction, org, &removed, None).await?;
            removal
                .recalls_without_memories(&mut op.transaction, &recalls)
                .await?;
            // Whoever cited them meanwhile is found by the next step.
            work.memories = removed;
        }
        let task = ScheduledTask::Erasure {
            org,
            erasure: receipt.id,
        };
        task.schedule(&mut op.transaction, op.now, op.service.env());
        let stored = StoredErasure {
            receipt,
            work: Some(work),
        };
        removal
            .finish(&mut op.transaction, (operation, actor), stored)
            .await
    }

    /// Writes the idempotency record, and schedules its expiry.
    fn write_record(&mut self, operation: &AuditedOperation) {
        let items = self.request.scope().memories_named.unwrap_or(0);
        let op = &mut *self.op;
        let service = op.service;
        let expires_at = op.now.plus(service.limits().idempotency_retention);
        let record = IdempotencyRecord {
            operation_id: operation.id,
            fingerprint: self.fingerprint.to_owned(),
            first_audit_id: operation.first_audit_id,
            items,
            kept: None,
            expires_at,
        };
        op.transaction.put(self.record_key.clone(), &record);
        let expiry = ScheduledTask::record(self.record_key.clone());
        expiry.schedule(&mut op.transaction, expires_at, service.env());
    }

    /// Returns the receipt before anything is removed.
    fn receipt(&self, operation: &AuditedOperation) -> Erasure {
        let request = self.request;
        Erasure {
            id: ErasureId(operation.id.0),
            created_by: self.op.principal.member_id(),
            created_at: self.op.now,
            scope: request.scope(),
            suppress: request.suppress,
            status: ErasureStatus::Running,
            completed_at: None,
            counts: ErasureCounts::default(),
            not_found: 0,
            forbidden: 0,
            remains: ErasureRemainder::default(),
        }
    }
}

/// Returns the reads of a request.
pub(super) fn erasure_prefetch(org: OrgId, request: &NewErasure) -> Prefetch {
    let memories = || request.memory_ids.iter().flatten();
    let member = request.member_id.iter();
    Prefetch::keys([keys::erasure_key(org)])
        .and_keys(memories().map(|id| keys::memory(org, *id)))
        .and_keys(memories().map(|id| keys::content(org, *id)))
        .and_keys(request.source_id.map(|id| keys::source(org, id)))
        .and_keys(member.flat_map(|id| [keys::member(org, *id), keys::former_member(org, *id)]))
        .and_ranges(memories().map(|id| citations_read(org, *id, None)))
}

/// Checks that the scope exists, and that the caller may erase everything in it.
///
/// Named memories are decided on one by one. The counts of a source or a member show what the caller
/// may not know of, unless it may erase everywhere, also in each private workspace.
pub(super) async fn require_scope(
    op: &mut Authorized<'_>,
    request: &NewErasure,
) -> Result<(), Error> {
    let org = op.org();
    if request.memory_ids.is_some() {
        return Ok(());
    }
    if op.principal.is_narrowed() {
        return Err(Denial::OutOfScope.into());
    }
    op.principal.require_every_workspace()?;
    if !op.principal.is_owner() {
        let read = workspace_roles_read(org, op.principal.member_id());
        let roles = op.transaction.scan(&RangeRead::all(read.range)).await?;
        for role in &roles {
            let workspace = keys::last_id(&role.key).unwrap_or_default().into();
            if !op.principal.works_in(workspace) {
                continue; // It is being removed.
            }
            let actions = op.actions_in(workspace).await?;
            if !actions.contains(Action::ErasureManage) {
                return Err(Denial::MissingPermission(Action::ErasureManage).into());
            }
        }
    }
    if let Some(source) = request.source_id {
        let key = keys::source(org, source);
        if op.transaction.get::<Source>(&key).await?.is_none() {
            let message = "must be a source of the organisation";
            return Err(Error::invalid("sourceId", ProblemCode::NotFound, message));
        }
    }
    if let Some(member) = request.member_id {
        let present = keys::member(org, member);
        let present = op.transaction.get::<Member>(&present).await?;
        let former = keys::former_member(org, member);
        let former = op.transaction.get::<Timestamp>(&former).await?;
        if present.is_none() && former.is_none() {
            let message = "must be a member of the organisation, or a former one";
            return Err(Error::invalid("memberId", ProblemCode::NotFound, message));
        }
    }
    Ok(())
}

/// A named memory, as far as it is stored, with the decision on it.
pub(super) struct NamedMemory {
    pub(super) id: MemoryId,
    labels: Option<MemoryLabels>,
    pub(super) content: Option<MemoryContent>,
    pub(super) outcome: AuditOutcome,
}

/// Decides for each of the named memories whether the caller may erase it.
pub(super) async fn decide_named(
    op: &mut Authorized<'_>,
    ids: &[MemoryId],
) -> Result<Vec<NamedMemory>, Error> {
    let org = op.org();
    let labels: Vec<Key> = ids.iter().map(|id| keys::memory(org, *id)).collect();
    let labels = op.transaction.get_many::<MemoryLabels>(&labels).await?;
    let contents: Vec<Key> = ids.iter().map(|id| keys::content(org, *id)).collect();
    let contents = op.transaction.get_many::<MemoryContent>(&contents).await?;
    let subjects = ids.iter().zip(&labels).zip(&contents);
    let subjects = subjects.filter_map(|((id, labels), content)| {
        Some(Subject {
            id: *id,
            labels: labels.as_ref()?,
            content: content.as_ref(),
        })
    });
    let subjects: Vec<Subject<'_>> = subjects.collect();
    let monitor = op.monitor(&subjects).await?;
    let mut named = Vec::with_capacity(ids.len());
    for ((id, labels), content) in ids.iter().zip(labels).zip(contents) {
        let outcome = match labels.as_ref().filter(|_| content.is_some()) {
            None => AuditOutcome::NotFound,
            Some(labels) => monitor.outcome(*id, labels, Use::Erase),
        };
        named.push(NamedMemory {
            id: *id,
            labels,
            content,
            outcome,
        });
    }
    Ok(named)
}

/// Counts the named memories that are not erased, in the receipt or in a preview.
pub(super) fn count_kept(named: &[NamedMemory], not_found: &mut u32, forbidden: &mut u32) {
    for memory in named {
        match memory.outcome {
            AuditOutcome::Ok => {}
            AuditOutcome::NotFound | AuditOutcome::Denied(Denial::Invisible) => *not_found += 1,
            AuditOutcome::Denied(_) | AuditOutcome::Rejected => *forbidden += 1,
        }
    }
}

/// Removes those of the named memories that the caller may erase, and returns them.
async fn erase_named(
    op: &mut Authorized<'_>,
    removal: &mut Removal<'_>,
    receipt: &mut Erasure,
    ids: &[MemoryId],
) -> Result<Vec<MemoryId>, Error> {
    let named = decide_named(op, ids).await?;
    count_kept(&named, &mut receipt.not_found, &mut receipt.forbidden);
    let (mut entries, mut removed) = (Vec::with_capacity(ids.len()), Vec::new());
    for memory in named {
        let NamedMemory {
            id,
            labels,
            content,
            outcome,
        } = memory;
        entries.push(MemoryAudit {
            memory_id: id,
            is_own: false,
            outcome,
            before: labels.clone().filter(|_| !outcome.is_hidden()),
            after: None,
        });
        if let (AuditOutcome::Ok, Some(labels), Some(content)) = (outcome, labels, content) {
            removed.push(id);
            let found = FoundMemory {
                id,
                labels,
                content,
            };
            removal.memory(&mut op.transaction, &found);
        }
    }
    removal.note(memory_pages(None, entries));
    Ok(removed)
}
