//! Creation, change and deletion of single memories.

use crate::access::Action;
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::model::{
    AudienceLabel, AuditAction, ChangedMemories, CredentialId, EventData, MemoryContent,
    MemoryDetails, MemoryId, MemoryLabels, MemoryUpdate, Provenance, Quota, Recall, RecallId,
    ReviewStatus, SensitivityLabel, SourceId, WorkspaceId,
};
use crate::operation::Operation;
use crate::request::request;
use crate::request::rules::{Content, Flag, Id, Name, Parsed, SourceKey};
use crate::service::access::monitor::{Subject, Use, Visibility, slugs_read};
use crate::service::audit::entry::AuditOutcome;
use crate::service::audit::runs::MemoryAudit;
use crate::service::erasures::erased_keys::ErasedKeys;
use crate::service::memories::change_log::{Changed, is_logged, log_changes};
use crate::service::memories::derived;
use crate::service::memories::ingest::{IngestContext, NewMemory, Origin, by_source_key};
use crate::service::memories::read::FoundMemory;
use crate::service::memories::recalls::find_existing;
use crate::service::memories::sources::{check_source, require_open_source, source_keys};
use crate::service::operation::{Authorized, Prefetch, Unauthenticated};
use crate::service::outbox::{Outbox, sequences_read};
use crate::service::workspace::mcp_key_types::McpKey;
use crate::service::{Caller, IfMatch, Memories, WithEtag};
use crate::store::Transaction;

request! {
    /// Request to add a memory.
    pub struct CreateMemory {
        /// Source of the memory.
        source_id ("sourceId"): SourceId as Id<SourceId>,
        /// Title, 1 to 128 characters.
        title: String as Name,
        /// Text, at most 32 KiB.
        content: String as Content,
        /// Key of the memory at its source, 1 to 512 characters.
        ///
        /// No other memory of the workspace from that source may have it.
        source_key ("sourceKey"): Option<String> as Option<SourceKey>,
        /// Audience label; by default that of the workspace.
        audience_tag ("audienceTag"): Option<AudienceLabel> as Option<Parsed<AudienceLabel>>,
        /// Sensitivity label; `internal` by default.
        sensitivity_label ("sensitivityLabel"): Option<SensitivityLabel>
            as Option<Parsed<SensitivityLabel>>,
        /// True to add a memory whose key was erased, and to forget that it was. False by default.
        revive: bool as Flag = false,
        /// Recall of the member in the workspace, whose answer led to the memory.
        recall_id ("recallId"): Option<RecallId> as Option<Id<RecallId>>,
    }
}

impl CreateMemory {
    /// Returns true if the memory has labels of the caller's choice, or a key that was erased.
    fn chooses(&self) -> bool {
        self.audience_tag.is_some() || self.sensitivity_label.is_some() || self.revive
    }

    fn memory(&self) -> NewMemory {
        NewMemory {
            title: self.title.clone(),
            content: self.content.clone(),
            source_key: self.source_key.clone(),
            audience_tag: self.audience_tag.clone(),
            sensitivity_label: self.sensitivity_label,
        }
    }
}

impl MemoryUpdate {
    /// Returns true if the update sets the title or the content.
    fn rewrites(&self) -> bool {
        self.title.is_some() || self.content.is_some()
    }

    /// Returns the use of the memory that the update asks for.
    fn wanted(&self) -> Use<'_> {
        if self.rewrites() {
            Use::Rewrite(&self.change)
        } else if self.change.is_empty() {
            Use::Read
        } else {
            Use::Relabel(&self.change)
        }
    }

    /// Returns the labels and the content after the change.
    ///
    /// A changed title or text has to be reviewed again, unless the change sets a review status.
    fn applied_to(
        &self,
        labels: &MemoryLabels,
        content: &MemoryContent,
    ) -> (MemoryLabels, MemoryContent) {
        let title = self.title.as_ref().unwrap_or(&content.title);
        let text = self.content.as_ref().unwrap_or(&content.content);
        let rewritten = MemoryContent {
            title: title.clone(),
            content: text.clone(),
            ..content.clone()
        };
        let mut relabelled = self.change.applied_to(labels);
        if rewritten != *content && self.change.review_status.is_none() {
            relabelled.review = ReviewStatus::Pending;
        }
        (relabelled, rewritten)
    }
}

/// # Changes of memories
impl Memories<'_> {
    /// Adds one memory, which waits for review.
    ///
    /// A caller without `memory:create` proposes it: with the default labels, and from an MCP key
    /// from the source of the key.
    ///
    /// # Errors
    /// Those of [`Operation::CreateMemory`]; [`Error::InvalidRequest`] for an unknown source, for a
    /// key that another memory from the source has, or that was erased, unless the request revives
    /// it, or for a recall that the member has not registered in the workspace;
    /// [`Error::Forbidden`] for labels or a source that the caller may not choose, or the source of
    /// an inbound webhook; [`Error::Conflict`] while memories of the source, of the caller or with
    /// the key are being erased.
    pub async fn create(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        request: &CreateMemory,
    ) -> Result<WithEtag<MemoryDetails>, Error> {
        self.service.checks().check(request)?;
        let memory = &request.memory();
        self.service
            .once(
                Operation::CreateMemory,
                caller,
                &(workspace, request),
                |caller| async move {
                    let source = request.source_id;
                    let mut op = self.begin(caller, workspace, (request, memory)).await?;
                    if request.chooses() {
                        op.require(Action::MemoryCreate, workspace)?;
                    }
                    let origin = origin(&mut op, request).await?;
                    let named = ("sourceId", Some(source));
                    check_source(&mut op.transaction, &op.principal, named).await?;
                    require_open_source(&mut op.transaction, &op.principal.org, source).await?;
                    require_free_key(&mut op, request).await?;
                    op.reserve(Quota::Memories, 1).await?;
                    let found = add(&mut op, (request, memory), origin);
                    let trace = Trace {
                        action: AuditAction::MemoryCreate,
                        is_own: false,
                        event: EventData::ChunkCreated,
                        before: None,
                        after: Some(found.labels.clone()),
                    };
                    op.set_created_id(found.id.0);
                    op.leave(found.id, trace).await?;
                    let monitor = op.monitor(&[found.subject()]).await?;
                    // Whoever adds a memory sees its labels, even if it is for others.
                    let visibility = monitor.visibility(found.id, &found.labels);
                    let shown = found.shown(visibility.unwrap_or(Visibility::Labels));
                    if !monitor.exists(found.id, &found.labels) {
                        // A replay must not tell what became of it.
                        op.set_replay_data(&(&found.labels, found.kept_content()));
                    }
                    op.done(shown)
                },
                |caller, replay| async move {
                    let memory = MemoryId(replay.created);
                    if replay.kept.is_none() {
                        return self.get(&caller, memory).await;
                    }
                    let (labels, content) = replay.response()?;
                    let found = FoundMemory {
                        id: memory,
                        labels,
                        content,
                    };
                    Ok(found.shown(Visibility::Labels))
                },
            )
            .await
    }

    /// Authorises the creation of a memory, and prefetches what it reads.
    async fn begin<'c>(
        self,
        caller: Unauthenticated<'c>,
        workspace: WorkspaceId,
        (request, memory): (&CreateMemory, &NewMemory),
    ) -> Result<Authorized<'c>, Error> {
        let (org, source) = (caller.org(), request.source_id);
        let recall = request.recall_id.map(|id| keys::recall(org, id));
        let memories = std::slice::from_ref(memory);
        let prefetch = Prefetch::keys(by_source_key(org, workspace, source, memories))
            .and_keys(source_keys(org, source))
            .and_keys(recall)
            .and_keys([
                keys::endpoint_sequence(org, workspace),
                keys::erasure_key(org),
                keys::usage(org, Quota::Memories),
            ])
            .and_range(slugs_read(org));
        let marks = |transaction: &Transaction| {
            let place = (workspace, source);
            let marks = self.service.erased_marks(transaction, org, place, memories);
            Prefetch::keys(marks)
        };
        caller.in_workspace_then(workspace, prefetch, &marks).await
    }

    /// Changes one memory. An update that changes nothing returns the memory as it is, which is
    /// audited as a read.
    ///
    /// Labels change by the rules of a bulk update. The title and the text can be changed only by a
    /// caller that may read the memory; a new title or text has to be reviewed again, unless the
    /// same update sets a review status.
    ///
    /// # Errors
    /// Those of [`Operation::UpdateMemory`]; [`Error::InvalidRequest`] for an unknown source;
    /// [`Error::NotFound`], also for a memory that does not exist for the caller.
    pub async fn update(
        self,
        caller: &Caller,
        memory: MemoryId,
        update: &MemoryUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<WithEtag<MemoryDetails>, Error> {
        self.service.checks().check(update)?;
        self.service
            .perform(Operation::UpdateMemory, caller, |caller| async move {
                let (org, source) = (caller.org(), update.change.source_id);
                let of_source = source.into_iter();
                let prefetch =
                    Prefetch::keys(of_source.flat_map(|source| source_keys(org, source)))
                        .and_ranges([sequences_read(org), slugs_read(org)]);
                let (mut op, found) = FoundMemory::read(caller, memory, prefetch).await?;
                let (labels, content) = update.applied_to(&found.labels, &found.content);
                let after = Subject {
                    labels: &labels,
                    ..found.subject()
                };
                let mut monitor = op.monitor(&[found.subject(), after]).await?;
                let authored = [found.subject()];
                monitor
                    .find_authors(&mut op.transaction, &authored, false)
                    .await?;
                let visibility = monitor.decide(memory, &found.labels, update.wanted())?;
                check_source(&mut op.transaction, &op.principal, ("sourceId", source)).await?;
                if labels.source_id != found.labels.source_id {
                    let source = labels.source_id;
                    require_open_source(&mut op.transaction, &op.principal.org, source).await?;
                }
                if let Some(IfMatch::Tags(tags)) = if_match
                    && !tags.contains(&found.shown(visibility).etag)
                {
                    return Err(Error::PreconditionFailed);
                }
                if labels == found.labels && content == found.content {
                    let shown = found.into_answer(&mut op, visibility);
                    return op.done(shown);
                }
                let changed = FoundMemory {
                    id: memory,
                    labels,
                    content,
                };
                let changed = op.put_changed(&found, changed);
                let is_rewritten = changed.content != found.content;
                let trace = Trace {
                    action: AuditAction::MemoryUpdate,
                    is_own: monitor.reviews_own(memory, &update.change)
                        || (update.change.decides_review() && is_rewritten),
                    event: EventData::MemoryUpdated,
                    before: Some(found.labels),
                    after: Some(changed.labels.clone()),
                };
                op.leave(memory, trace).await?;
                // Whoever changes a memory sees its new labels, even if it is for others now.
                let visibility = monitor.visibility(memory, &changed.labels);
                op.done(changed.shown(visibility.unwrap_or(Visibility::Labels)))
            })
            .await
    }

    /// Deletes one memory and frees its key at the source.
    ///
    /// The content is erased. The audit log keeps the identifier and the labels. Recalls that cite
    /// the memory keep its identifier, so that their subscribers can be notified.
    ///
    /// # Errors
    /// Those of [`Operation::DeleteMemory`]; [`Error::NotFound`], also for a memory that does not
    /// exist for the caller.
    pub async fn delete(self, caller: &Caller, memory: MemoryId) -> Result<(), Error> {
        self.service
            .perform(Operation::DeleteMemory, caller, |caller| async move {
                let org = caller.org();
                let prefetch = Prefetch::none().and_ranges([sequences_read(org), slugs_read(org)]);
                let (mut op, found) = FoundMemory::read(caller, memory, prefetch).await?;
                let monitor = op.monitor(&[found.subject()]).await?;
                monitor.decide(memory, &found.labels, Use::Delete)?;
                found.remove(&mut op.transaction, (org, op.now));
                let trace = Trace {
                    action: AuditAction::MemoryDelete,
                    is_own: false,
                    event: EventData::ChunkDeleted,
                    before: Some(found.labels),
                    after: None,
                };
                op.leave(memory, trace).await?;
                op.done(())
            })
            .await
    }
}

impl Authorized<'_> {
    /// Rejects the source key of a memory that is being erased, which becomes free.
    async fn require_not_erased(&mut self, holder: MemoryId) -> Result<(), Error> {
        let key = keys::memory(self.org(), holder);
        let Some(labels) = self.transaction.get::<MemoryLabels>(&key).await? else {
            return Ok(());
        };
        let monitor = self.monitor(&[Subject::new(holder, &labels)]).await?;
        if monitor.is_erased(holder, &labels) {
            Err(Error::Conflict)
        } else {
            Ok(())
        }
    }

    /// Writes what changes of a memory, and returns it as it is stored then.
    fn put_changed(&mut self, found: &FoundMemory, mut changed: FoundMemory) -> FoundMemory {
        let (org, id, at) = (self.org(), changed.id, self.now);
        if changed.labels != found.labels {
            let key = keys::memory(org, id);
            self.transaction.put(key, &changed.labels);
        }
        let is_rewritten = changed.content != found.content;
        if is_rewritten {
            changed.content.updated_by = self.principal.member_id();
            changed.content.updated_via = self.principal.via();
            changed.content.updated_at = at;
            let key = keys::content(org, id);
            self.transaction.put(key, &changed.content);
        }
        let labels = (Some(&found.labels), Some(&changed.labels));
        derived::keep(&mut self.transaction, (org, id), labels, is_rewritten, at);
        changed
    }

    /// Writes the audit entry and the event of a change to one memory.
    async fn leave(&mut self, memory: MemoryId, trace: Trace) -> Result<(), Error> {
        let (operation, actor) = self.audit(trace.action);
        let (org, env) = (self.org(), self.service.env());
        let transaction = &mut self.transaction;
        let labels = trace.after.as_ref().or(trace.before.as_ref());
        if let Some(labels) = labels {
            if is_logged(trace.before.as_ref(), trace.after.as_ref()) {
                let (place, first) = ((org, labels.workspace_id), operation.first_audit_id);
                log_changes(transaction, place, first, vec![memory], Changed::Anything);
            }
            let outbox = Outbox::begin(transaction, org, labels.workspace_id, operation.at).await?;
            let (event, memories) = (trace.event, [memory]);
            outbox.emit_memories(transaction, env, event, operation, &memories);
        }
        let entry = MemoryAudit {
            memory_id: memory,
            outcome: AuditOutcome::Ok,
            is_own: trace.is_own,
            before: trace.before,
            after: trace.after,
        };
        operation.record_memories(transaction, actor, trace.action, None, vec![entry]);
        Ok(())
    }
}

/// Contents of the audit entry and the event of a change to one memory.
struct Trace {
    action: AuditAction,
    event: fn(ChangedMemories) -> EventData,
    /// True if the caller decides the review of what it wrote itself.
    is_own: bool,
    before: Option<MemoryLabels>,
    after: Option<MemoryLabels>,
}

/// Returns the origin of a new memory. The audience that an MCP key gives it is the first of its
/// labels that covers its member.
///
/// # Errors
/// [`Error::InvalidRequest`] for a recall that does not exist for the caller, or that the member has
/// not registered in the workspace; [`Error::Forbidden`] for an MCP key that proposes from another
/// source than its own, or none of whose labels covers its member any more; those of the store.
async fn origin(op: &mut Authorized<'_>, request: &CreateMemory) -> Result<Origin, Error> {
    let mut provenance = Provenance::default();
    if let Some(id) = request.recall_id {
        require_own_recall(op, id).await?;
        provenance.recall_id = Some(id);
    }
    let caller = &op.principal;
    let limited = caller.credential.filter(|_| caller.has_audience_list());
    let key = match limited {
        Some(id) => find_mcp_key(op, id).await?,
        None => None,
    };
    let mut audience = None;
    if let Some(key) = key {
        if key.proposal_source_id != Some(request.source_id) {
            return Err(Error::forbidden(
                "an MCP key proposes memories from its own source only",
            ));
        }
        let place = op.workspace();
        let named = |slug: &str| (slug == place.slug).then_some(place.id);
        let mut labels = key.audience.into_iter();
        audience = labels.find(|label| op.principal.is_covered_by(label, named));
        if audience.is_none() {
            return Err(Error::forbidden(
                "no audience label of the MCP key covers its member",
            ));
        }
        provenance.mcp_key_id = Some(key.id);
        provenance.client = Some(key.client);
    }
    let provenance = Some(provenance).filter(|found| *found != Provenance::default());
    Ok(Origin {
        provenance,
        audience,
    })
}

/// Requires a recall that exists for the caller, and that the member has registered in the workspace.
async fn require_own_recall(op: &mut Authorized<'_>, id: RecallId) -> Result<(), Error> {
    let (workspace, member) = (op.workspace().id, op.principal.member_id());
    let key = keys::recall(op.org(), id);
    let recall = op.transaction.get::<Recall>(&key).await?;
    let is_own = |recall: &Recall| recall.workspace_id == workspace && recall.created_by == member;
    let exists = match recall.filter(is_own) {
        Some(_) => match find_existing(op, id, EntityKind::Recall).await {
            Ok(_) => true,
            Err(Error::NotFound { .. }) => false,
            Err(error) => return Err(error),
        },
        None => false,
    };
    if exists {
        return Ok(());
    }
    let message = "must be a recall that the member has registered in the workspace";
    Err(Error::invalid("recallId", ProblemCode::NotFound, message))
}

/// Returns the MCP key with this identifier in the workspace of the operation, if there is one.
async fn find_mcp_key(op: &mut Authorized<'_>, id: CredentialId) -> Result<Option<McpKey>, Error> {
    let key = keys::mcp_key(op.org(), op.workspace().id, id);
    Ok(op.transaction.get(&key).await?)
}

/// Adds the memory of a request to the workspace in which the caller was authorised.
fn add(
    op: &mut Authorized<'_>,
    (request, memory): (&CreateMemory, &NewMemory),
    origin: Origin,
) -> FoundMemory {
    let (place, now) = (op.workspace().clone(), op.now);
    let context = IngestContext {
        caller: &op.principal,
        workspace: &place,
        held: op.held_in(place.id),
        source: request.source_id,
        is_signed: false,
        revives: request.revive,
        origin,
    };
    let added = context.add(&mut op.transaction, op.service.env(), now, memory);
    let last_ingest = keys::last_ingest(op.org(), place.id);
    op.transaction.put(last_ingest, &now);
    FoundMemory {
        id: added.id,
        labels: added.labels,
        content: added.content,
    }
}

/// Requires that no other memory from the source has this key, and that it was not erased.
///
/// The hash of an erased one is forgotten if the request revives it.
///
/// # Errors
/// [`Error::InvalidRequest`]; [`Error::Conflict`] while the memory that has it is being erased.
async fn require_free_key(op: &mut Authorized<'_>, request: &CreateMemory) -> Result<(), Error> {
    let Some(name) = &request.source_key else {
        return Ok(());
    };
    let (service, org) = (op.service, op.org());
    let (workspace, source) = (op.workspace().id, request.source_id);
    let key = keys::source_key(org, workspace, source, name);
    if let Some(holder) = op.transaction.get::<MemoryId>(&key).await? {
        op.require_not_erased(holder).await?;
        let message = "must not be the key of another memory from the source";
        return Err(Error::invalid("sourceKey", ProblemCode::Duplicate, message));
    }
    let Some(hashes) = ErasedKeys::read(service, &mut op.transaction, org).await? else {
        return Ok(());
    };
    let mark = hashes.mark(workspace, source, name);
    if op.transaction.get::<()>(&mark).await?.is_some() {
        if !request.revive {
            let message = "must not be a key that was erased, unless revive is true";
            return Err(Error::invalid("sourceKey", ProblemCode::Erased, message));
        }
        op.transaction.delete(mark);
    }
    Ok(())
}
