//! Bulk updates of memories, exactly once per idempotency key.
//!
//! The memories, the audit entries, the counters, the events and the idempotency record are one
//! commit. It requires that the idempotency record is absent, or expired at the version read. Of
//! two concurrent calls with the same key, one commits; the other finds the record and replays the
//! result. There is no intermediate state.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use uuid::Uuid;

use crate::access::{Action, ActionSet};
use crate::digest::sha256;
use crate::error::Error;
use crate::keys;
use crate::model::{
    AudienceLabel, AuditAction, AuditLogId, BulkItem, BulkItemError, BulkItemErrorCode, BulkResult,
    BulkSummary, BulkUpdate, EventData, Memory, MemoryChange, MemoryId, MemoryLabels, OperationId,
    OrgId, WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::monitor::{Monitor, Subject, Use, slugs_read};
use crate::service::access::principal::Denial;
use crate::service::audit::entry::AuditOutcome;
use crate::service::audit::pages::read_memory_entries;
use crate::service::audit::runs::MemoryAudit;
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::memories::audiences::{LabelChange, impact, people_read, without_members};
use crate::service::memories::change_log::{Changed, is_logged, log_changes};
use crate::service::memories::derived::{self, Changes};
use crate::service::memories::label_counts::count_labels;
use crate::service::memories::sources::{check_source, require_open_source, source_keys};
use crate::service::operation::idempotency::{IdempotencyKey, IdempotencyRecord, record_key};
use crate::service::operation::{Authorized, Prefetch};
use crate::service::outbox::{Outbox, sequences_read};
use crate::service::tasks::ScheduledTask;
use crate::service::{Caller, KnowledgeService, Memories};
use crate::store::{Entry, Key, Prepared, Transaction, decode_alike, encode, read_json};

/// Identifiers in the result of a dry run.
const NO_OPERATION: OperationId = OperationId(Uuid::nil());
const NO_ENTRY: AuditLogId = AuditLogId(Uuid::nil());
/// Name of the operation in idempotency records.
const OPERATION: &str = "bulk_update";
/// Number of different labels about which decisions are remembered in an update.
const KNOWN_LABELS_MAX: usize = 16;

impl BulkUpdate {
    /// Returns the actions that the change requires for every memory.
    fn required_actions(&self) -> ActionSet {
        let relabel = if self.change.relabels() {
            ActionSet::of(&[Action::MemoryUpdate])
        } else {
            ActionSet::EMPTY
        };
        match self.change.review_status {
            Some(_) => relabel | ActionSet::of(&[Action::MemoryReview]),
            None => relabel,
        }
    }
}

/// # Bulk updates
impl Memories<'_> {
    /// Changes attributes of many memories.
    ///
    /// A memory that cannot be changed does not affect the others: the result has an item for each
    /// memory, in the order of the request.
    ///
    /// The same request with the same key, by the same member and within the retention of results,
    /// returns the stored result with `replayed` set to true and changes nothing. The key is an
    /// argument because every bulk update needs one.
    ///
    /// A dry run returns the same items and its impact. It changes and audits nothing, and neither
    /// uses nor stores a result for the key.
    ///
    /// # Errors
    /// Those of [`Operation::BulkUpdateMemories`]; [`Error::InvalidRequest`] for a request outside
    /// the limits or an unknown source; [`Error::Forbidden`] if the caller has the required actions
    /// neither in the organisation nor in any workspace; [`Error::Conflict`] after repeated
    /// concurrent changes of the same memories.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::model::{BulkUpdate, MemoryChange, ReviewStatus};
    ///
    /// let approve = MemoryChange::builder().review_status(ReviewStatus::Approved).build();
    /// let update = BulkUpdate::builder().memory_ids(memories).change(approve).build();
    /// let key = "approve-runbooks-1".parse()?;
    /// let result = service.memories().bulk_update(&owner, &key, &update).await?;
    /// assert_eq!(result.summary.succeeded, 2);
    /// // Repeating a request whose response was lost is harmless.
    /// let again = service.memories().bulk_update(&owner, &key, &update).await?;
    /// assert!(again.replayed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bulk_update(
        self,
        caller: &Caller,
        key: &IdempotencyKey,
        request: &BulkUpdate,
    ) -> Result<BulkResult, Error> {
        self.service.checks().check(request)?;
        let fingerprint = &sha256(request.to_json());
        let queue = &self.service.inner.bulk_queue;
        let turn = &queue.begin(caller.credential().org(), &request.memory_ids);
        self.service
            .perform(Operation::BulkUpdateMemories, caller, |caller| async move {
                // A dry run meets no conflicts.
                if !request.dry_run {
                    turn.attempt().await;
                }
                let org = caller.org();
                let memory_keys = &keys::memories_named(org, &request.memory_ids);
                let source = request.change.source_id.into_iter();
                let audience = request.change.audience_tag.as_ref();
                let prefetch = Prefetch::keys(source.flat_map(|source| source_keys(org, source)))
                    .and_keys(audience.and_then(|label| people_read(org, label)))
                    .and_keys(memory_keys.iter().cloned())
                    .and_idempotency(OPERATION, key)
                    .and_range(sequences_read(org))
                    .and_range(slugs_read(org));
                let caller = caller.authenticate(prefetch).await?;
                let mut op = caller.authorize_per_resource().await?;
                let record_key = record_key(org, op.principal.sender(), OPERATION, key);
                op.require_somewhere(request.required_actions()).await?;
                if !request.dry_run {
                    let record = op.transaction.get::<IdempotencyRecord>(&record_key).await?;
                    if let Some(record) = record.filter(|record| op.now < record.expires_at) {
                        if record.fingerprint != *fingerprint {
                            return Err(Error::IdempotencyKeyReused);
                        }
                        let result = replay(&mut op, &record, request, memory_keys).await?;
                        return op.done(result);
                    }
                }
                let without_members = labels_without_members(&mut op, request).await?;
                let mut update = Update {
                    audited: None,
                    request,
                    memory_keys,
                    without_members,
                };
                if !request.dry_run {
                    update.begin(&mut op, record_key, fingerprint);
                }
                self.service.change_memories(op, update).await
            })
            .await
    }
}

/// A bulk update that is authorised.
struct Update<'u> {
    /// Operation and actor of the audit entries; `None` for a dry run.
    audited: Option<(AuditedOperation, Actor)>,
    request: &'u BulkUpdate,
    memory_keys: &'u [Key],
    /// Audience label that the update sets, if it covers nobody.
    without_members: Vec<AudienceLabel>,
}

impl Update<'_> {
    /// Begins the audit entries, and writes the idempotency record, whose expiry it schedules.
    fn begin(&mut self, op: &mut Authorized<'_>, record_key: Key, fingerprint: &str) {
        let service = op.service;
        let kept = (!self.without_members.is_empty())
            .then(|| serde_json::to_string(&self.without_members).expect("labels serialise"));
        let (operation, actor) = op.audit(AuditAction::MemoryBulkUpdate);
        let expires_at = op.now.plus(service.limits().idempotency_retention);
        let record = IdempotencyRecord {
            operation_id: operation.id,
            fingerprint: fingerprint.to_owned(),
            first_audit_id: operation.first_audit_id,
            items: u32::try_from(self.request.memory_ids.len()).unwrap_or(u32::MAX),
            kept,
            expires_at,
        };
        op.transaction.put(record_key.clone(), &record);
        let expiry = ScheduledTask::record(record_key);
        expiry.schedule(&mut op.transaction, expires_at, service.env());
        self.audited = Some((operation, actor));
    }
}

/// Returns the audience label that an update sets, if it covers nobody.
async fn labels_without_members(
    op: &mut Authorized<'_>,
    request: &BulkUpdate,
) -> Result<Vec<AudienceLabel>, Error> {
    let set = request.change.audience_tag.as_slice();
    if set.is_empty() {
        return Ok(Vec::new());
    }
    without_members(&mut op.transaction, &op.principal, set).await
}

/// Decisions about the memories of an update, and what they change.
struct Decided {
    entries: Vec<MemoryAudit>,
    effects: Effects,
    /// Changes that a dry run does not make.
    previewed: Vec<LabelChange>,
}

impl Decided {
    /// Decides about each memory, and puts what changes, unless it is a dry run.
    async fn of(op: &mut Authorized<'_>, update: &Update<'_>) -> Result<Self, Error> {
        let (org, request) = (op.org(), update.request);
        let change = &request.change;
        let found = op.transaction.get_many::<Entry>(update.memory_keys).await?;
        let found: Vec<Option<MemoryLabels>> = decode_alike(update.memory_keys, &found)?;
        let subjects = subjects(request, &found);
        let mut monitor = op.monitor(&subjects).await?;
        if change.decides_review() {
            monitor
                .find_authors(&mut op.transaction, &subjects, !request.dry_run)
                .await?;
        }
        let mut decided = Self {
            entries: Vec::with_capacity(found.len()),
            effects: Effects::default(),
            previewed: Vec::new(),
        };
        let mut decisions = Decisions {
            monitor: &monitor,
            change,
            known: Vec::new(),
        };
        for ((id, key), before) in request.memory_ids.iter().zip(update.memory_keys).zip(found) {
            let (outcome, changed) = match &before {
                None => (AuditOutcome::NotFound, None),
                Some(before) => decisions.of(*id, before),
            };
            if let (AuditOutcome::Ok, Some(before), Some((after, stored))) =
                (outcome, &before, changed)
            {
                if request.dry_run {
                    decided.previewed.push(LabelChange {
                        id: *id,
                        before: before.clone(),
                        after: after.clone(),
                    });
                } else {
                    op.transaction.put_encoded(key.clone(), stored.clone());
                    derived::file(&mut op.transaction, org, *id, Some(before), Some(after));
                    decided.effects.note(*id, before, after);
                }
            }
            // A hidden memory must not take more space in the audit log than an unknown one.
            decided.entries.push(MemoryAudit {
                memory_id: *id,
                outcome,
                is_own: outcome == AuditOutcome::Ok && monitor.reviews_own(*id, change),
                before: before.filter(|_| !outcome.is_hidden()),
                after: None,
            });
        }
        Ok(decided)
    }
}

impl KnowledgeService {
    async fn change_memories(
        &self,
        mut op: Authorized<'_>,
        update: Update<'_>,
    ) -> Result<Prepared<BulkResult>, Error> {
        let (org, change) = (op.org(), &update.request.change);
        let source = ("sourceId", change.source_id);
        check_source(&mut op.transaction, &op.principal, source).await?;
        if let Some(source) = change.source_id {
            require_open_source(&mut op.transaction, &op.principal.org, source).await?;
        }
        let Decided {
            entries,
            effects,
            previewed,
        } = Decided::of(&mut op, &update).await?;
        let after = entries.iter().map(|entry| entry.labels_after(Some(change)));
        let audited = update.audited;
        let ids = audited.map(|(operation, _)| (operation.id, operation.first_audit_id));
        let mut result = result(ids, false, entries.iter().zip(after));
        result
            .labels_without_members
            .clone_from(&update.without_members);
        let Some((operation, actor)) = audited else {
            result.impact = Some(impact(&mut op, previewed, update.without_members).await?);
            return op.done(result);
        };
        effects
            .write(&mut op.transaction, self, org, operation)
            .await?;
        let (action, change) = (AuditAction::MemoryBulkUpdate, Some(change));
        operation.record_memories(&mut op.transaction, actor, action, change, entries);
        op.done(result)
    }
}

/// Returns the stored memories of a request, whose labels stand in the order of the request.
fn subjects<'l>(request: &BulkUpdate, labels: &'l [Option<MemoryLabels>]) -> Vec<Subject<'l>> {
    let memories = request.memory_ids.iter().zip(labels);
    let stored = memories.filter_map(|(id, labels)| Some(Subject::new(*id, labels.as_ref()?)));
    stored.collect()
}

/// Decisions about a change, by the labels before: most memories of an update share theirs with
/// others.
struct Decisions<'c> {
    monitor: &'c Monitor,
    change: &'c MemoryChange,
    known: Vec<Decision>,
}

struct Decision {
    before: MemoryLabels,
    /// Outcome for the memories that these labels decide, once there is one.
    outcome: Option<AuditOutcome>,
    /// Labels after and their stored form, unless they stay as they are.
    changed: Option<(MemoryLabels, Bytes)>,
}

impl Decisions<'_> {
    /// Returns the outcome for a memory with these labels, and the labels that the change makes of
    /// them with their stored form, unless they stay as they are.
    fn of(
        &mut self,
        id: MemoryId,
        before: &MemoryLabels,
    ) -> (AuditOutcome, Option<&(MemoryLabels, Bytes)>) {
        let known = self.known.iter().position(|known| known.before == *before);
        let index = known.unwrap_or_else(|| self.add(before));
        let decision = &mut self.known[index];
        let decide = || {
            let wanted = Use::Relabel(self.change);
            self.monitor.outcome(id, before, wanted)
        };
        let outcome = if self.monitor.has_origin(id) {
            decide()
        } else {
            *decision.outcome.get_or_insert_with(decide)
        };
        (outcome, decision.changed.as_ref())
    }

    /// Adds labels, and returns their index.
    fn add(&mut self, before: &MemoryLabels) -> usize {
        let after = self.change.applied_to(before);
        let changed = (after != *before).then(|| {
            let stored = encode(&after);
            (after, stored)
        });
        self.known.truncate(KNOWN_LABELS_MAX - 1);
        self.known.push(Decision {
            before: before.clone(),
            outcome: None,
            changed,
        });
        self.known.len() - 1
    }
}

/// Effects of the changes: by workspace, the counts and the events; and the labels before and
/// after, with the number of successive memories that share them.
#[derive(Default)]
struct Effects {
    workspaces: BTreeMap<WorkspaceId, WorkspaceEffects>,
    labels: Vec<(MemoryLabels, MemoryLabels, i64)>,
}

/// Effects in one workspace.
#[derive(Default)]
struct WorkspaceEffects {
    changes: Changes,
    changed: Vec<MemoryId>,
    /// Those of the changed memories that the log of changes names.
    logged: Vec<MemoryId>,
}

impl Effects {
    fn note(&mut self, id: MemoryId, before: &MemoryLabels, after: &MemoryLabels) {
        match self.labels.last_mut() {
            Some((from, to, count)) if *from == *before && *to == *after => *count += 1,
            _ => self.labels.push((before.clone(), after.clone(), 1)),
        }
        let effects = self.workspaces.entry(before.workspace_id).or_default();
        effects.changes.note(Some(before), Some(after), false);
        effects.changed.push(id);
        if is_logged(Some(before), Some(after)) {
            effects.logged.push(id);
        }
    }

    async fn write(
        self,
        transaction: &mut Transaction,
        service: &KnowledgeService,
        org: OrgId,
        operation: AuditedOperation,
    ) -> Result<(), Error> {
        for (before, after, memories) in &self.labels {
            count_labels(transaction, org, (Some(before), Some(after)), *memories);
        }
        for (workspace, effects) in self.workspaces {
            let (place, memories) = ((org, workspace), effects.changed);
            effects.changes.count(transaction, place, operation.at);
            let first = operation.first_audit_id;
            log_changes(transaction, place, first, effects.logged, Changed::Labels);
            let outbox = Outbox::begin(transaction, org, workspace, operation.at).await?;
            let event = EventData::MemoryUpdated;
            outbox.emit_memories(transaction, service.env(), event, operation, &memories);
        }
        Ok(())
    }
}

/// Returns the stored result of an operation, as far as the caller may see it now.
///
/// A memory that no longer exists for the caller, or at all, has an item as if it had not existed.
/// An item that the operation itself took away from the caller stays as it was, whatever becomes of
/// the memory, until its workspace is removed.
async fn replay(
    op: &mut Authorized<'_>,
    record: &IdempotencyRecord,
    request: &BulkUpdate,
    memory_keys: &[Key],
) -> Result<BulkResult, Error> {
    let (org, count) = (op.org(), record.items as usize);
    let first = record.first_audit_id;
    // Taken as they were read with the record and with what authorises the caller, all at one point
    // in time. The stored result never changes.
    let now = op
        .transaction
        .unchecked()
        .get_many::<Entry>(memory_keys)
        .await?;
    let now: Vec<Option<MemoryLabels>> = decode_alike(memory_keys, &now)?;
    let mut entries = read_memory_entries(&mut op.transaction, org, first, count).await?;
    let mut known = subjects(request, &now);
    known.extend(entries.iter().flat_map(|(entry, after)| {
        let labels = entry.before.iter().chain(after);
        labels.map(|labels| Subject::new(entry.memory_id, labels))
    }));
    let monitor = op.monitor(&known).await?;
    let standings = entries.iter().map(|(entry, after)| {
        let exists = |labels: &MemoryLabels| monitor.exists(entry.memory_id, labels);
        let existed = entry.before.as_ref().is_some_and(exists);
        let is_given_away = existed && after.as_ref().is_some_and(|after| !exists(after));
        (existed, is_given_away)
    });
    let standings: Vec<(bool, bool)> = standings.collect();
    let given_away = entries
        .iter()
        .zip(&standings)
        .filter(|(_, (_, is_given_away))| *is_given_away);
    let workspaces: BTreeSet<WorkspaceId> = given_away
        .filter_map(|((entry, _), _)| Some(entry.before.as_ref()?.workspace_id))
        .collect();
    let present = existing_workspaces(&mut op.transaction, org, workspaces).await?;
    for (((entry, after), (existed, is_given_away)), now) in
        entries.iter_mut().zip(standings).zip(&now)
    {
        let before = entry.before.as_ref();
        let is_given =
            is_given_away && before.is_some_and(|before| present.contains(&before.workspace_id));
        let remains = || {
            let exists_now = |now| {
                monitor.exists(entry.memory_id, now) && !monitor.is_erased(entry.memory_id, now)
            };
            existed && now.as_ref().is_some_and(exists_now)
        };
        if !is_given && !remains() {
            entry.outcome = AuditOutcome::NotFound;
            *after = None;
        }
    }
    let entries = entries.iter().map(|(entry, after)| (entry, after.clone()));
    let ids = Some((record.operation_id, first));
    let mut result = result(ids, true, entries);
    if let Some(kept) = &record.kept {
        let kept = read_json::<Vec<AudienceLabel>>(kept.as_bytes());
        let unreadable = |_| Error::internal("the labels of an idempotency record are unreadable");
        result.labels_without_members = kept.map_err(unreadable)?;
    }
    Ok(result)
}

/// Returns those of these workspaces that exist.
async fn existing_workspaces(
    transaction: &mut Transaction,
    org: OrgId,
    workspaces: BTreeSet<WorkspaceId>,
) -> Result<BTreeSet<WorkspaceId>, Error> {
    if workspaces.is_empty() {
        return Ok(workspaces);
    }
    let ids = workspaces.iter();
    let records: Vec<Key> = ids.map(|id| keys::workspace(org, *id)).collect();
    let records = transaction.get_many::<Entry>(&records).await?;
    let existing = workspaces.into_iter().zip(records);
    let existing = existing.filter_map(|(id, record)| record.map(|_| id));
    Ok(existing.collect())
}

/// Builds the result of an operation from its audit entries, for the first response and replays.
///
/// `ids` are those of the operation and of its first entry; a dry run has none.
fn result<'e>(
    ids: Option<(OperationId, AuditLogId)>,
    replayed: bool,
    entries: impl Iterator<Item = (&'e MemoryAudit, Option<MemoryLabels>)>,
) -> BulkResult {
    let (operation_id, first_audit_id) = ids.unzip();
    let mut summary = BulkSummary::default();
    let mut results = Vec::with_capacity(entries.size_hint().0);
    for (index, (entry, after)) in entries.enumerate() {
        let error = match entry.outcome {
            AuditOutcome::Ok => None,
            AuditOutcome::NotFound | AuditOutcome::Denied(Denial::Invisible) => Some((
                BulkItemErrorCode::NotFound,
                "there is no such memory".to_owned(),
            )),
            AuditOutcome::Denied(denial) => {
                Some((BulkItemErrorCode::Forbidden, denial.to_string()))
            }
            // Never of one of many memories.
            AuditOutcome::Rejected => Some((BulkItemErrorCode::Forbidden, String::new())),
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
            audit_log_id: first_audit_id.map_or(NO_ENTRY, |first| first.plus(index as u128)),
            error: error.map(|(code, message)| BulkItemError { code, message }),
        });
    }
    BulkResult {
        operation_id: operation_id.unwrap_or(NO_OPERATION),
        replayed,
        summary,
        results,
        labels_without_members: Vec::new(),
        impact: None,
    }
}
