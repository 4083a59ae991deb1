//! Creation, change and deletion of single memories.

use serde::Serialize;

use crate::access::{ActionSet, Credential, CredentialKind, permissions};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::Limits;
use crate::model::{
    AudienceLabel, EventType, MemoryContent, MemoryDetails, MemoryId, MemoryLabels, MemoryUpdate,
    OrgId, ReviewStatus, SensitivityLabel, Source, SourceId, Timestamp, WorkspaceId,
};
use crate::service::kit::audit::{Actor, AuditedOperation};
use crate::service::kit::audit_entry::{AuditAction, AuditOutcome};
use crate::service::kit::audit_runs::MemoryAudit;
use crate::service::kit::outbox::Outbox;
use crate::service::kit::principal::Principal;
use crate::service::kit::validate::Problems;
use crate::service::memories::ingest::{IngestContext, NewMemory};
use crate::service::memories::read::FoundMemory;
use crate::service::memories::view::{MemoryReader, Visibility};
use crate::service::{IfMatch, KnowledgeService, WithEtag};
use crate::store::Transaction;

/// Request to add a memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CreateMemory {
    /// Source of the memory.
    pub source_id: SourceId,
    /// Title, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub title: String,
    /// Text, at most 32 KiB.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Content"))]
    pub content: String,
    /// Key of the memory at its source, 1 to 512 characters.
    ///
    /// No other memory of the workspace from that source may have it.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::SourceKey>")
    )]
    pub source_key: Option<String>,
    /// Audience label; by default that of the workspace.
    pub audience_tag: Option<AudienceLabel>,
    /// Sensitivity label; `internal` by default.
    pub sensitivity_label: Option<SensitivityLabel>,
}

impl CreateMemory {
    /// Checks the request and collects all problems.
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
    /// Checks the request and collects all problems.
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

    /// Returns true if the update sets the title or the content.
    fn rewrites(&self) -> bool {
        self.title.is_some() || self.content.is_some()
    }

    /// Returns the actions required to change a memory with these labels.
    fn required_actions(&self, labels: &MemoryLabels) -> ActionSet {
        let change = &self.change;
        let lowers = change
            .sensitivity_label
            .is_some_and(|wanted| wanted < labels.sensitivity);
        let parts = [
            (
                self.rewrites() || change.relabels(),
                permissions::UPDATE_MEMORY,
            ),
            (change.review_status.is_some(), permissions::REVIEW_MEMORY),
            (lowers, permissions::DECLASSIFY_MEMORY),
        ];
        let needed = parts.into_iter().filter(|(is_needed, _)| *is_needed);
        needed.fold(ActionSet::EMPTY, |all, (_, permission)| {
            all | permission.actions()
        })
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

impl KnowledgeService {
    /// Adds one memory, which waits for review.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values, an unknown source, or a key that another
    /// memory from the source has; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace; [`Error::Forbidden`] without `memory:create` there.
    pub async fn create_memory(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        request: &CreateMemory,
    ) -> Result<WithEtag<MemoryDetails>, Error> {
        request.validate(self.limits())?;
        let memory = &request.memory();
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let workspace = caller
                .authorize_in(&mut transaction, workspace, permissions::CREATE_MEMORY)
                .await?;
            let (org, source) = (caller.org_id(), request.source_id);
            check_source(&mut transaction, org, Some(source)).await?;
            if let Some(name) = &memory.source_key {
                let key = keys::source_key(org, workspace.id, source, name);
                if transaction.read::<MemoryId>(&key).await?.is_some() {
                    let message = "must not be the key of another memory from the source";
                    return Err(Error::invalid("sourceKey", ProblemCode::Duplicate, message));
                }
            }
            let context = IngestContext {
                caller: &caller,
                workspace: &workspace,
                source,
            };
            let added = context.add(&mut transaction, self.env(), now, memory);
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
            let reader = found.reader(&transaction, &caller).await?;
            let shown = found.shown(reader.visibility(&found.labels).max(Visibility::Labels));
            transaction.done(shown)
        })
        .await
    }

    /// Changes one memory. An update that sets nothing returns the memory unchanged.
    ///
    /// Labels change by the rules of a bulk update. The title and the text can be changed only by a
    /// caller that may read the memory; a new title or text has to be reviewed again, unless the
    /// same update sets a review status.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values or an unknown source;
    /// [`Error::Unauthenticated`]; [`Error::NotFound`], also for a memory that the caller may
    /// neither know of nor govern; [`Error::Forbidden`] without those of `memory:update`,
    /// `memory:review` and `memory:declassify` that the update requires in the workspace of the
    /// memory, or if it sets the title or the text of a memory that the caller may not read;
    /// [`Error::PreconditionFailed`] if the memory is at none of the versions of `if_match`.
    pub async fn update_memory(
        &self,
        credential: &Credential,
        memory: MemoryId,
        update: &MemoryUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<WithEtag<MemoryDetails>, Error> {
        update.validate(self.limits())?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let found = FoundMemory::read(&mut transaction, &caller, memory).await?;
            let reader = found.reader(&transaction, &caller).await?;
            let visibility = authorise(&reader, &found, update)?;
            let org = caller.org_id();
            check_source(&mut transaction, org, update.change.source_id).await?;
            if let Some(IfMatch::Tags(tags)) = if_match
                && !tags.contains(&found.shown(visibility).etag)
            {
                return Err(Error::PreconditionFailed);
            }
            let (labels, mut content) = update.applied_to(&found.labels, &found.content);
            if labels == found.labels && content == found.content {
                return transaction.done(found.shown(visibility));
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
            let reader = changed.reader(&transaction, &caller).await?;
            let visibility = reader.visibility(&changed.labels).max(Visibility::Labels);
            transaction.done(changed.shown(visibility))
        })
        .await
    }

    /// Deletes one memory and frees its key at the source.
    ///
    /// The content is erased. The audit log keeps the identifier and the labels. Recalls that cite
    /// the memory keep its identifier, so that their subscribers can be notified.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`], also for a memory that the caller may
    /// neither know of nor govern; [`Error::Forbidden`] without `memory:delete` in its workspace.
    pub async fn delete_memory(
        &self,
        credential: &Credential,
        memory: MemoryId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let found = FoundMemory::read(&mut transaction, &caller, memory).await?;
            let needed = permissions::DELETE_MEMORY.action;
            if !found.held.contains(needed) {
                let reader = found.reader(&transaction, &caller).await?;
                return Err(reader.denial(&found.labels, needed));
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

    /// Writes the audit entry and the event of a change to one memory.
    async fn leave(
        &self,
        transaction: &mut Transaction,
        caller: &Principal,
        memory: MemoryId,
        trace: Trace,
    ) -> Result<(), Error> {
        let operation = AuditedOperation::begin(transaction, self.env(), trace.at);
        let labels = trace.after.as_ref().or(trace.before.as_ref());
        if let Some(labels) = labels {
            let outbox = Outbox::begin(
                transaction,
                caller.org_id(),
                labels.workspace_id,
                operation.at,
            )
            .await?;
            let (event, memories) = (trace.event, [memory]);
            outbox.emit_memories(transaction, self.env(), event, operation.id, &memories);
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

/// Contents of the audit entry and the event of a change to one memory.
struct Trace {
    at: Timestamp,
    action: AuditAction,
    event: EventType,
    before: Option<MemoryLabels>,
    after: Option<MemoryLabels>,
}

/// Rejects a caller that may not make this change.
///
/// Returns the part of the memory that the response may show: at least its labels.
fn authorise(
    reader: &MemoryReader<'_>,
    found: &FoundMemory,
    update: &MemoryUpdate,
) -> Result<Visibility, Error> {
    let labels = &found.labels;
    let visibility = reader.visibility(labels);
    let needed = update.required_actions(labels);
    if let Some(missing) = (needed - found.held).iter().next() {
        return Err(reader.denial(labels, missing));
    }
    if needed == ActionSet::EMPTY && visibility == Visibility::Nothing {
        return Err(reader.denial(labels, permissions::READ_MEMORY.action));
    }
    if update.rewrites() && visibility != Visibility::Everything {
        return Err(match Principal::missing_for_reading(labels, found.held) {
            Some(missing) => reader.denial(labels, missing),
            None => Error::forbidden("only the audience of a memory may change its content"),
        });
    }
    Ok(visibility.max(Visibility::Labels))
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
