//! Ingestion of batches of memories.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::json;

use crate::access::{Credential, CredentialKind, permissions};
use crate::env::Env;
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::{INGEST_MEMORIES_MAX, Limits, SOURCE_KEY_CHARS_MAX};
use crate::model::{
    AudienceLabel, EventType, MemoryContent, MemoryId, MemoryLabels, ReviewStatus,
    SensitivityLabel, Source, SourceId, Timestamp, Workspace, WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::kit::audit::{Actor, AuditedOperation};
use crate::service::kit::audit_entry::{AuditAction, AuditOutcome};
use crate::service::kit::audit_runs::MemoryAudit;
use crate::service::kit::outbox::Outbox;
use crate::service::kit::principal::{Denial, Principal};
use crate::service::kit::validate::Problems;
use crate::store::Transaction;

/// A memory to ingest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewMemory {
    /// Title, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub title: String,
    /// Text, at most 32 KiB.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Content"))]
    pub content: String,
    /// Key of the memory at its source, 1 to 512 characters. A known key updates that memory.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::SourceKey>")
    )]
    pub source_key: Option<String>,
    /// Audience label; by default that of the workspace. An update keeps the current label.
    pub audience_tag: Option<AudienceLabel>,
    /// Sensitivity label; `internal` by default. An update keeps the current label.
    pub sensitivity_label: Option<SensitivityLabel>,
}

crate::model::names::string_enum! {
    /// Outcome for one memory of a batch.
    IngestOutcome {
        /// The memory was added.
        Created = "created",
        /// The title or the text of the memory changed.
        Updated = "updated",
        /// The memory already had this title and text.
        Unchanged = "unchanged",
    }
}

/// Request to ingest a batch of memories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IngestBatch {
    /// Source of the memories.
    pub source_id: SourceId,
    /// Memories, 1 to 100, no two with the same key.
    #[cfg_attr(feature = "openapi", schemars(length(min = 1, max = INGEST_MEMORIES_MAX)))]
    pub memories: Vec<NewMemory>,
}

/// Result of an ingested batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IngestResult {
    /// One item for each memory, in the order of the batch.
    pub memories: Vec<IngestedMemory>,
}

/// Result of one memory of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IngestedMemory {
    /// Identifier of the memory.
    pub id: MemoryId,
    /// Outcome for the memory.
    pub outcome: IngestOutcome,
}

impl NewMemory {
    /// Checks the memory and collects all problems.
    ///
    /// Callers use it to remove memories for which [`KnowledgeService::ingest`] would reject the
    /// whole batch.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`].
    pub fn validate(&self, limits: &Limits) -> Result<(), Error> {
        let mut problems = Problems::default();
        self.check("", "source_key", limits, &mut problems);
        problems.into_result()
    }

    /// Collects the problems of the memory by itself.
    ///
    /// `source_key` is the name of that field in the request.
    pub(crate) fn check(
        &self,
        prefix: &str,
        source_key: &str,
        limits: &Limits,
        problems: &mut Problems,
    ) {
        let path = |field: &str| format!("{prefix}{field}");
        problems.name(&path("title"), &self.title, limits);
        problems.content(&path("content"), &self.content, limits.content_bytes_max);
        if let Some(key) = &self.source_key
            && (key.is_empty() || key.chars().count() > SOURCE_KEY_CHARS_MAX)
        {
            let message = format!("must have 1 to {SOURCE_KEY_CHARS_MAX} characters");
            problems.push(path(source_key), ProblemCode::InvalidValue, message);
        }
    }
}

pub(crate) fn check_batch(memories: &[NewMemory], limits: &Limits) -> Result<(), Error> {
    let mut problems = Problems::default();
    for (index, memory) in memories.iter().enumerate() {
        let prefix = format!("memories[{index}].");
        memory.check(&prefix, "source_key", limits, &mut problems);
    }
    check_together(memories, &mut problems);
    problems.into_result()
}

/// Collects the problems of the batch as a whole: its size and duplicate keys.
pub(crate) fn check_together(memories: &[NewMemory], problems: &mut Problems) {
    problems.count("memories", memories.len(), INGEST_MEMORIES_MAX);
    let mut seen = HashMap::new();
    for (index, memory) in memories.iter().enumerate() {
        if let Some(first) = memory
            .source_key
            .as_ref()
            .and_then(|key| seen.insert(key, index))
        {
            let message = format!("must not repeat the key of memories[{first}]");
            problems.push(
                format!("memories[{index}].source_key"),
                ProblemCode::Duplicate,
                message,
            );
        }
    }
}

impl KnowledgeService {
    /// Ingests up to 100 memories from a source, all or none.
    ///
    /// They wait for review. A known `source_key` updates the title and the text of that memory,
    /// which then has to be reviewed again; its other labels are unchanged. A memory that already
    /// has this title and text is not touched, so repeating a batch changes nothing.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values or an unknown source;
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace;
    /// [`Error::Forbidden`] without `memory:create` there, or without `memory:update` if a memory
    /// changes.
    pub async fn ingest(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        source: SourceId,
        memories: &[NewMemory],
    ) -> Result<Vec<IngestedMemory>, Error> {
        check_batch(memories, self.limits())?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let workspace = caller
                .authorize_in(&mut transaction, workspace, permissions::INGEST)
                .await?;
            if transaction
                .read::<Source>(&keys::source(caller.org_id(), source))
                .await?
                .is_none()
            {
                let message = "must be a source of the organisation";
                return Err(Error::invalid("source_id", ProblemCode::NotFound, message));
            }
            let context = IngestContext {
                caller: &caller,
                workspace: &workspace,
                source,
            };
            let ingested = self
                .ingest_memories(&mut transaction, context, memories, now)
                .await?;
            transaction.done(ingested)
        })
        .await
    }

    /// Writes a validated batch with its audit entries and events.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if a memory changes and the caller does not have `memory:update`; those
    /// of the store.
    pub(crate) async fn ingest_memories(
        &self,
        transaction: &mut Transaction,
        context: IngestContext<'_>,
        memories: &[NewMemory],
        now: Timestamp,
    ) -> Result<Vec<IngestedMemory>, Error> {
        let place = context.workspace.id;
        let actions = context.caller.actions_in(transaction, &[place]).await?;
        let batch = Batch {
            service: self,
            operation: AuditedOperation::begin(transaction, self.env(), now),
            may_update: actions[&place].contains(permissions::INGEST_UPDATE.action),
            context,
        };
        batch.write(transaction, memories).await
    }
}

/// A memory that is already stored.
struct Known {
    id: MemoryId,
    labels: MemoryLabels,
    content: MemoryContent,
}

/// Caller, workspace and source of new memories.
pub(crate) struct IngestContext<'m> {
    pub(crate) caller: &'m Principal,
    pub(crate) workspace: &'m Workspace,
    pub(crate) source: SourceId,
}

/// A memory that was added.
pub(crate) struct Added {
    pub(crate) id: MemoryId,
    pub(crate) labels: MemoryLabels,
    pub(crate) content: MemoryContent,
}

impl IngestContext<'_> {
    /// Adds a memory with its index entries and updates the counters.
    pub(crate) fn add(
        &self,
        transaction: &mut Transaction,
        env: &Env,
        at: Timestamp,
        memory: &NewMemory,
    ) -> Added {
        let (org, workspace) = (self.caller.org_id(), self.workspace.id);
        let id = MemoryId(env.uuid_at(at));
        let audience = memory.audience_tag.as_ref();
        let labels = MemoryLabels {
            workspace_id: workspace,
            source_id: self.source,
            audience: audience.unwrap_or(&self.workspace.audience).clone(),
            sensitivity: memory.sensitivity_label.unwrap_or_default(),
            review: ReviewStatus::Pending,
        };
        let content = MemoryContent {
            title: memory.title.clone(),
            content: memory.content.clone(),
            origin_source_id: self.source,
            source_key: memory.source_key.clone(),
            created_by: self.caller.member_id(),
            created_at: at,
            updated_at: at,
        };
        transaction.create(keys::memory(org, id), &labels);
        transaction.create(keys::content(org, id), &content);
        transaction.put(keys::workspace_memory(org, workspace, id), &());
        if let Some(name) = &memory.source_key {
            transaction.put(keys::source_key(org, workspace, self.source, name), &id);
        }
        transaction.add(keys::memory_count(org, workspace), 1);
        transaction.add(keys::pending_count(org, workspace), 1);
        Added {
            id,
            labels,
            content,
        }
    }
}

/// A batch being ingested.
struct Batch<'b> {
    service: &'b KnowledgeService,
    context: IngestContext<'b>,
    operation: AuditedOperation,
    may_update: bool,
}

impl Batch<'_> {
    async fn write(
        &self,
        transaction: &mut Transaction,
        memories: &[NewMemory],
    ) -> Result<Vec<IngestedMemory>, Error> {
        let mut known = self.known(transaction, memories).await?;
        let mut ingested = Vec::with_capacity(memories.len());
        let mut audit = Vec::new();
        for memory in memories {
            let name = memory.source_key.as_deref();
            let (id, entry, outcome) = match name.and_then(|name| known.remove(name)) {
                Some(known) => self.update(transaction, known, memory)?,
                None => self.create(transaction, memory),
            };
            audit.extend(entry);
            ingested.push(IngestedMemory { id, outcome });
        }
        if audit.is_empty() {
            return Ok(ingested);
        }
        self.announce(transaction, &ingested).await?;
        let actor = Actor::from(self.context.caller);
        self.operation
            .record_memories(transaction, actor, AuditAction::MemoryIngest, None, audit);
        Ok(ingested)
    }

    /// Finds the stored memories that have source keys of the batch, by key.
    ///
    /// It takes three reads, however large the batch is.
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
        let by_name: Vec<_> = names
            .iter()
            .map(|name| keys::source_key(org, workspace, self.context.source, name))
            .collect();
        let ids = transaction.read_many::<MemoryId>(&by_name).await?;
        let named = names.into_iter().zip(ids);
        let named: Vec<(&str, MemoryId)> =
            named.filter_map(|(name, id)| Some((name, id?))).collect();
        let labels: Vec<_> = named.iter().map(|(_, id)| keys::memory(org, *id)).collect();
        let labels = transaction.read_many::<MemoryLabels>(&labels).await?;
        let contents: Vec<_> = named
            .iter()
            .map(|(_, id)| keys::content(org, *id))
            .collect();
        let contents = transaction.read_many::<MemoryContent>(&contents).await?;
        let mut known = HashMap::with_capacity(named.len());
        for (((name, id), labels), content) in named.into_iter().zip(labels).zip(contents) {
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
            outcome: AuditOutcome::Ok,
            before: None,
            after: Some(added.labels),
        };
        (added.id, Some(entry), IngestOutcome::Created)
    }

    fn update(
        &self,
        transaction: &mut Transaction,
        Known {
            id,
            labels,
            content,
        }: Known,
        memory: &NewMemory,
    ) -> Result<(MemoryId, Option<MemoryAudit>, IngestOutcome), Error> {
        let org = self.context.caller.org_id();
        if content.title == memory.title && content.content == memory.content {
            return Ok((id, None, IngestOutcome::Unchanged));
        }
        if !self.may_update {
            return Err(Denial::MissingPermission(permissions::INGEST_UPDATE.action).into());
        }
        let after = MemoryLabels {
            review: ReviewStatus::Pending,
            ..labels.clone()
        };
        if after != labels {
            transaction.put(keys::memory(org, id), &after);
            transaction.add(keys::pending_count(org, labels.workspace_id), 1);
        }
        let content = MemoryContent {
            title: memory.title.clone(),
            content: memory.content.clone(),
            updated_at: self.operation.at,
            ..content
        };
        transaction.put(keys::content(org, id), &content);
        let entry = MemoryAudit {
            memory_id: id,
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
                .map(|memory| memory.id)
                .collect()
        };
        let (created, updated) = (of(IngestOutcome::Created), of(IngestOutcome::Updated));
        let operation = self.operation.id;
        outbox.emit_memories(
            transaction,
            env,
            EventType::ChunkCreated,
            operation,
            &created,
        );
        outbox.emit_memories(
            transaction,
            env,
            EventType::MemoryUpdated,
            operation,
            &updated,
        );
        let data = json!({
            "workspace_id": self.context.workspace.id,
            "source_id": self.context.source,
            "operation_id": operation,
            "created": created.len(),
            "updated": updated.len(),
        });
        outbox.emit(transaction, env, EventType::IngestCompleted, data);
        transaction.put(keys::last_ingest(org, self.context.workspace.id), &at);
        Ok(())
    }
}
