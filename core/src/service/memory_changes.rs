//! Memories one by one: added, changed and deleted.

use serde::Serialize;

use super::audit::{Actor, AuditAction, AuditOutcome, Operation};
use super::audit_pages::MemoryAudit;
use super::events::Occasion;
use super::ingest::{Maker, NewMemory};
use super::memories::FoundMemory;
use super::memory_view::{Sight, Viewer};
use super::validate::Problems;
use super::{IfMatch, KnowledgeService, Tagged};
use crate::access::{ActionSet, Credential, CredentialKind, Principal, needs};
use crate::error::{Error, ProblemCode};
use crate::limits::Limits;
use crate::model::{
    AudienceLabel, EventType, MemoryContent, MemoryDetails, MemoryId, MemoryLabels, MemoryUpdate,
    OrgId, ReviewStatus, SensitivityLabel, Source, SourceId, Timestamp, WorkspaceId,
};
use crate::keys;
use crate::store::Transaction;

/// The request to add one memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CreateMemory {
    /// The source that it comes from.
    pub source_id: SourceId,
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub title: String,
    /// At most 32 KiB.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Content"))]
    pub content: String,
    /// Its name at the source, 1 to 512 characters, which no memory from there has yet.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::SourceKey>")
    )]
    pub source_key: Option<String>,
    /// Who may know of it; without one, the audience of the workspace.
    pub audience_tag: Option<AudienceLabel>,
    /// How sensitive it is; without one, `internal`.
    pub sensitivity_label: Option<SensitivityLabel>,
}

impl CreateMemory {
    /// What is wrong with the request, all of it.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`].
    pub fn validate(&self, limits: &Limits) -> Result<(), Error> {
        let mut problems = Problems::default();
        self.memory().check("", "sourceKey", limits, &mut problems);
        problems.into_result()
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
    /// What is wrong with the request, all of it.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`].
    pub fn validate(&self, limits: &Limits) -> Result<(), Error> {
        let mut problems = Problems::default();
        if let Some(title) = &self.title {
            problems.name("title", title, limits);
        }
        if let Some(content) = &self.content {
            problems.content("content", content, limits.content_bytes_max);
        }
        problems.into_result()
    }

    /// Whether it sets what the memory says.
    fn rewrites(&self) -> bool {
        self.title.is_some() || self.content.is_some()
    }

    /// The actions that the change of a memory with these labels needs.
    fn needs(&self, labels: &MemoryLabels) -> ActionSet {
        let change = &self.change;
        let lowers = change
            .sensitivity_label
            .is_some_and(|wanted| wanted < labels.sensitivity);
        let parts = [
            (self.rewrites() || change.relabels(), needs::UPDATE_MEMORY),
            (change.review_status.is_some(), needs::REVIEW_MEMORY),
            (lowers, needs::DECLASSIFY_MEMORY),
        ];
        let needed = parts.into_iter().filter(|(is_needed, _)| *is_needed);
        needed.fold(ActionSet::EMPTY, |all, (_, need)| all | need.actions())
    }

    /// What the memory is after the change. What says something else waits for review, unless the change reviews it.
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

impl KnowledgeService {
    /// Adds one memory, which waits for review.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values, an unknown source or a key that a memory from there has already;
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without
    /// `memory:create` there.
    pub async fn create_memory(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        request: &CreateMemory,
    ) -> Result<Tagged<MemoryDetails>, Error> {
        request.validate(self.limits())?;
        let memory = &request.memory();
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let workspace = caller
                .enter(&mut transaction, workspace, needs::CREATE_MEMORY)
                .await?;
            let (org, source) = (caller.org_id(), request.source_id);
            check_source(&mut transaction, org, Some(source)).await?;
            if let Some(name) = &memory.source_key {
                let key = keys::source_key(org, workspace.id, source, name);
                if transaction.read::<MemoryId>(&key).await?.is_some() {
                    let message = "must not be that of another memory from the source";
                    return Err(Error::invalid("sourceKey", ProblemCode::Duplicate, message));
                }
            }
            let maker = Maker {
                caller: &caller,
                workspace: &workspace,
                source,
            };
            let added = maker.add(&mut transaction, self.env(), now, memory);
            transaction.put(keys::last_ingest(org, workspace.id), &now);
            let held = caller.actions_in(&mut transaction, &[workspace.id]).await?;
            let found = FoundMemory {
                id: added.id,
                labels: added.labels,
                content: added.content,
                held: held[&workspace.id],
            };
            let trace = Trace {
                at: now,
                action: AuditAction::MemoryCreate,
                event: EventType::ChunkCreated,
                before: None,
                after: Some(found.labels.clone()),
            };
            self.leave(&mut transaction, &caller, found.id, trace)
                .await?;
            let viewer = found.viewer(&transaction, &caller).await?;
            let shown = found.shown(viewer.sight(&found.labels).max(Sight::Labels));
            transaction.done(shown)
        })
        .await
    }

    /// Changes one memory. An update that sets nothing returns the memory as it is.
    ///
    /// The labels follow the rules of a bulk update. Who rewrites what a memory says has to be able to read it; what
    /// then says something else waits for review, unless the same update reviews it.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values or an unknown source; [`Error::Unauthenticated`]; [`Error::NotFound`],
    /// also for a memory that the caller may neither know of nor govern; [`Error::Forbidden`] without `memory:update`,
    /// `memory:review` or `memory:declassify` in its workspace, as the update needs them, or where the caller rewrites
    /// what it may not read; [`Error::PreconditionFailed`] where the memory is at none of the versions of `if_match`.
    pub async fn update_memory(
        &self,
        credential: &Credential,
        memory: MemoryId,
        update: &MemoryUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<Tagged<MemoryDetails>, Error> {
        update.validate(self.limits())?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let found = FoundMemory::read(&mut transaction, &caller, memory).await?;
            let viewer = found.viewer(&transaction, &caller).await?;
            let sight = authorise(&viewer, &found, update)?;
            let org = caller.org_id();
            check_source(&mut transaction, org, update.change.source_id).await?;
            if let Some(IfMatch::Tags(tags)) = if_match
                && !tags.contains(&found.shown(sight).etag)
            {
                return Err(Error::PreconditionFailed);
            }
            let (labels, mut content) = update.applied_to(&found.labels, &found.content);
            if labels == found.labels && content == found.content {
                return transaction.done(found.shown(sight));
            }
            if labels != found.labels {
                transaction.put(keys::memory(org, memory), &labels);
            }
            if content != found.content {
                content.updated_at = now;
                transaction.put(keys::content(org, memory), &content);
            }
            let delta = i64::from(labels.is_pending()) - i64::from(found.labels.is_pending());
            transaction.add(keys::pending_count(org, labels.workspace_id), delta);
            let trace = Trace {
                at: now,
                action: AuditAction::MemoryUpdate,
                event: EventType::MemoryUpdated,
                before: Some(found.labels.clone()),
                after: Some(labels.clone()),
            };
            self.leave(&mut transaction, &caller, memory, trace).await?;
            let changed = FoundMemory {
                labels,
                content,
                ..found
            };
            let viewer = changed.viewer(&transaction, &caller).await?;
            let sight = viewer.sight(&changed.labels).max(Sight::Labels);
            transaction.done(changed.shown(sight))
        })
        .await
    }

    /// Deletes one memory: what it says is erased, and its name at its source is free. The audit log keeps its identifier and
    /// its labels; recalls that cite it keep its identifier, so that those who subscribed to them hear of it.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`], also for a memory that the caller may neither know of nor
    /// govern; [`Error::Forbidden`] without `memory:delete` in its workspace.
    pub async fn delete_memory(
        &self,
        credential: &Credential,
        memory: MemoryId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let found = FoundMemory::read(&mut transaction, &caller, memory).await?;
            let needed = needs::DELETE_MEMORY.action;
            if !found.held.contains(needed) {
                let viewer = found.viewer(&transaction, &caller).await?;
                return Err(viewer.refusal(&found.labels, needed));
            }
            let (org, workspace) = (caller.org_id(), found.labels.workspace_id);
            transaction.delete(keys::memory(org, memory));
            transaction.delete(keys::content(org, memory));
            transaction.delete(keys::workspace_memory(org, workspace, memory));
            if let Some(name) = &found.content.source_key {
                let origin = found.content.origin_source_id;
                transaction.delete(keys::source_key(org, workspace, origin, name));
            }
            transaction.add(keys::memory_count(org, workspace), -1);
            let waited = i64::from(found.labels.is_pending());
            transaction.add(keys::pending_count(org, workspace), -waited);
            let trace = Trace {
                at: now,
                action: AuditAction::MemoryDelete,
                event: EventType::ChunkDeleted,
                before: Some(found.labels),
                after: None,
            };
            self.leave(&mut transaction, &caller, memory, trace).await?;
            transaction.done(())
        })
        .await
    }

    /// Writes the audit entry and the event of what became of one memory.
    async fn leave(
        &self,
        transaction: &mut Transaction,
        caller: &Principal,
        memory: MemoryId,
        trace: Trace,
    ) -> Result<(), Error> {
        let operation = Operation::begin(transaction, self.env(), trace.at);
        let labels = trace.after.as_ref().or(trace.before.as_ref());
        if let Some(labels) = labels {
            let occasion = Occasion::begin(
                transaction,
                caller.org_id(),
                labels.workspace_id,
                operation.at,
            )
            .await?;
            let (event, memories) = (trace.event, [memory]);
            occasion.emit_memories(transaction, self.env(), event, operation.id, &memories);
        }
        let entry = MemoryAudit {
            memory_id: memory,
            outcome: AuditOutcome::Ok,
            before: trace.before,
            after: trace.after,
        };
        let actor = Actor::from(caller);
        operation.record_memories(transaction, actor, trace.action, None, vec![entry]);
        Ok(())
    }
}

/// What a change of one memory leaves behind.
struct Trace {
    at: Timestamp,
    action: AuditAction,
    event: EventType,
    before: Option<MemoryLabels>,
    after: Option<MemoryLabels>,
}

/// Refuses a caller who may not make this change. How much of the memory it is shown then: its labels at least.
fn authorise(
    viewer: &Viewer<'_>,
    found: &FoundMemory,
    update: &MemoryUpdate,
) -> Result<Sight, Error> {
    let labels = &found.labels;
    let sight = viewer.sight(labels);
    let needed = update.needs(labels);
    if let Some(missing) = (needed - found.held).iter().next() {
        return Err(viewer.refusal(labels, missing));
    }
    if needed == ActionSet::EMPTY && sight == Sight::Nothing {
        return Err(viewer.refusal(labels, needs::READ_MEMORY.action));
    }
    if update.rewrites() && sight != Sight::Everything {
        return Err(match Principal::reading_needs(labels, found.held) {
            Some(missing) => viewer.refusal(labels, missing),
            None => Error::forbidden("who rewrites a memory has to be of its audience"),
        });
    }
    Ok(sight.max(Sight::Labels))
}

async fn check_source(
    transaction: &mut Transaction,
    org: OrgId,
    source: Option<SourceId>,
) -> Result<(), Error> {
    let Some(source) = source else {
        return Ok(());
    };
    let found = transaction
        .read::<Source>(&keys::source(org, source))
        .await?;
    let message = "must be a source of the organisation";
    let missing = || Error::invalid("sourceId", ProblemCode::NotFound, message);
    found.map(drop).ok_or_else(missing)
}
