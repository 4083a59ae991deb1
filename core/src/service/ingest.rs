//! Knowledge coming in: batches of memories.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::json;

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, AuditOutcome, Operation};
use super::audit_pages::MemoryAudit;
use super::events::Occasion;
use super::validate::Problems;
use crate::access::{Credential, CredentialKind, Denial, Principal, needs};
use crate::env::Env;
use crate::error::{Error, ProblemCode};
use crate::limits::{INGEST_MEMORIES_MAX, Limits};
use crate::model::{
    AudienceLabel, EventType, MemoryContent, MemoryId, MemoryLabels, ReviewStatus,
    SensitivityLabel, Source, SourceId, Timestamp, Workspace, WorkspaceId,
};
use crate::keys;
use crate::store::Transaction;

/// The longest name of a memory at its source, in characters.
pub(crate) const SOURCE_KEY_CHARS_MAX: usize = 512;

/// A memory that comes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewMemory {
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub title: String,
    /// At most 32 KiB.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Content"))]
    pub content: String,
    /// The name of the memory at its source, 1 to 512 characters. One seen before updates that memory.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::SourceKey>")
    )]
    pub source_key: Option<String>,
    /// Who may know of it; without one, the audience of the workspace. An update keeps the label it has.
    pub audience_tag: Option<AudienceLabel>,
    /// How sensitive it is; without one, `internal`. An update keeps the label it has.
    pub sensitivity_label: Option<SensitivityLabel>,
}

crate::model::names::string_enum! {
    /// What became of a memory that came in.
    IngestOutcome {
        /// It is new.
        Created = "created",
        /// Its content changed.
        Updated = "updated",
        /// It was there as it is.
        Unchanged = "unchanged",
    }
}

/// The request to take in a batch of memories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IngestBatch {
    /// The source that they come from.
    pub source_id: SourceId,
    /// 1 to [`INGEST_MEMORIES_MAX`] memories, no two with the same key.
    #[cfg_attr(feature = "openapi", schemars(length(min = 1, max = INGEST_MEMORIES_MAX)))]
    pub memories: Vec<NewMemory>,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IngestResult {
    /// An item for each memory, in the order of the batch.
    pub memories: Vec<IngestedMemory>,
}

/// What became of one memory that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IngestedMemory {
    /// The memory.
    pub id: MemoryId,
    /// Whether it is new.
    pub outcome: IngestOutcome,
}

impl NewMemory {
    /// What is wrong with the memory, all of it: for callers that sort out what [`KnowledgeService::ingest`] would
    /// refuse together with the rest of its batch.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`].
    pub fn validate(&self, limits: &Limits) -> Result<(), Error> {
        let mut problems = Problems::default();
        self.check("", "source_key", limits, &mut problems);
        problems.into_result()
    }

    /// Notes what is wrong with the memory by itself. `source_key` is what the key is called there.
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

pub(super) fn check_batch(memories: &[NewMemory], limits: &Limits) -> Result<(), Error> {
    let mut problems = Problems::default();
    for (index, memory) in memories.iter().enumerate() {
        let prefix = format!("memories[{index}].");
        memory.check(&prefix, "source_key", limits, &mut problems);
    }
    check_together(memories, &mut problems);
    problems.into_result()
}

/// Notes what is wrong with memories as one batch: how many they are, and keys that two of them have.
pub(crate) fn check_together(memories: &[NewMemory], problems: &mut Problems) {
    problems.count("memories", memories.len(), INGEST_MEMORIES_MAX);
    let mut seen = HashMap::new();
    for (index, memory) in memories.iter().enumerate() {
        if let Some(first) = memory
            .source_key
            .as_ref()
            .and_then(|key| seen.insert(key, index))
        {
            let message = format!("must not be that of memories[{first}]");
            problems.push(
                format!("memories[{index}].source_key"),
                ProblemCode::Duplicate,
                message,
            );
        }
    }
}

impl KnowledgeService {
    /// Takes in up to 100 memories from a source, all or none. They wait for review. A `source_key` seen before
    /// updates that memory: its content, and with it the review starts anew; labels are changed by a bulk update
    /// alone. What is as it was stays untouched, so that the same batch twice changes nothing.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values or an unknown source; [`Error::Unauthenticated`]; [`Error::NotFound`]
    /// for an unknown workspace; [`Error::Forbidden`] without `memory:create` there, or without `memory:update` where
    /// a memory changes.
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
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let workspace = caller
                .enter(&mut transaction, workspace, needs::INGEST)
                .await?;
            if transaction
                .read::<Source>(&keys::source(caller.org_id(), source))
                .await?
                .is_none()
            {
                let message = "must be a source of the organisation";
                return Err(Error::invalid("source_id", ProblemCode::NotFound, message));
            }
            let maker = Maker {
                caller: &caller,
                workspace: &workspace,
                source,
            };
            let ingested = self.take_in(&mut transaction, maker, memories, now).await?;
            transaction.done(ingested)
        })
        .await
    }

    /// Writes a batch that was checked, with its audit and its events.
    ///
    /// # Errors
    /// [`Error::Forbidden`] where a memory changes and the caller may not `memory:update`; those of the store.
    pub(super) async fn take_in(
        &self,
        transaction: &mut Transaction,
        maker: Maker<'_>,
        memories: &[NewMemory],
        now: Timestamp,
    ) -> Result<Vec<IngestedMemory>, Error> {
        let place = maker.workspace.id;
        let actions = maker.caller.actions_in(transaction, &[place]).await?;
        let batch = Batch {
            service: self,
            operation: Operation::begin(transaction, self.env(), now),
            may_update: actions[&place].contains(needs::INGEST_UPDATE.action),
            maker,
        };
        batch.write(transaction, memories).await
    }
}

/// A memory that is there already.
struct Known {
    id: MemoryId,
    labels: MemoryLabels,
    content: MemoryContent,
}

/// Who adds memories, and where.
pub(super) struct Maker<'m> {
    pub(super) caller: &'m Principal,
    pub(super) workspace: &'m Workspace,
    pub(super) source: SourceId,
}

/// A memory that was added.
pub(super) struct Added {
    pub(super) id: MemoryId,
    pub(super) labels: MemoryLabels,
    pub(super) content: MemoryContent,
}

impl Maker<'_> {
    /// Adds a memory with everything that leads to it and counts it.
    pub(super) fn add(
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

/// One batch on its way in.
struct Batch<'b> {
    service: &'b KnowledgeService,
    maker: Maker<'b>,
    operation: Operation,
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
        let actor = Actor::from(self.maker.caller);
        self.operation
            .record_memories(transaction, actor, AuditAction::MemoryIngest, None, audit);
        Ok(ingested)
    }

    /// The memories that have the names of the batch at the source, by name: three reads, however large the batch.
    async fn known<'m>(
        &self,
        transaction: &mut Transaction,
        memories: &'m [NewMemory],
    ) -> Result<HashMap<&'m str, Known>, Error> {
        let (org, workspace) = (self.maker.caller.org_id(), self.maker.workspace.id);
        let names = memories
            .iter()
            .filter_map(|memory| memory.source_key.as_deref());
        let names: Vec<&str> = names.collect();
        if names.is_empty() {
            return Ok(HashMap::new());
        }
        let by_name: Vec<_> = names
            .iter()
            .map(|name| keys::source_key(org, workspace, self.maker.source, name))
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
                    "the source key of memory {id} leads nowhere"
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
            .maker
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
        let org = self.maker.caller.org_id();
        if content.title == memory.title && content.content == memory.content {
            return Ok((id, None, IngestOutcome::Unchanged));
        }
        if !self.may_update {
            return Err(Denial::Lacks(needs::INGEST_UPDATE.action).into());
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
            self.maker.caller.org_id(),
            self.operation.at,
        );
        let occasion = Occasion::begin(transaction, org, self.maker.workspace.id, at).await?;
        let of = |outcome| -> Vec<MemoryId> {
            ingested
                .iter()
                .filter(|memory| memory.outcome == outcome)
                .map(|memory| memory.id)
                .collect()
        };
        let (created, updated) = (of(IngestOutcome::Created), of(IngestOutcome::Updated));
        let operation = self.operation.id;
        occasion.emit_memories(
            transaction,
            env,
            EventType::ChunkCreated,
            operation,
            &created,
        );
        occasion.emit_memories(
            transaction,
            env,
            EventType::MemoryUpdated,
            operation,
            &updated,
        );
        let data = json!({
            "workspace_id": self.maker.workspace.id,
            "source_id": self.maker.source,
            "operation_id": operation,
            "created": created.len(),
            "updated": updated.len(),
        });
        occasion.emit(transaction, env, EventType::IngestCompleted, data);
        transaction.put(keys::last_ingest(org, self.maker.workspace.id), &at);
        Ok(())
    }
}
