//! Ingestion of batches of memories.
//!
//! This file has the requests, their checks, and what all ways of adding a memory share. `batch`
//! writes a batch.

mod batch;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::access::ActionSet;
use crate::env::Env;
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::INGEST_MEMORIES_MAX;
use crate::model::{
    AudienceLabel, AuditAction, MemoryContent, MemoryId, MemoryLabels, OrgId, Provenance, Quota,
    ReviewStatus, SensitivityLabel, SourceId, Timestamp, Workspace, WorkspaceId,
};
use crate::operation::Operation;
use crate::request::request;
use crate::request::rules::{
    Check, Content, Flag, Id, Items, List, Name, Object, Parsed, SourceKey,
};
use crate::request::{Checks, Path, Problems};
use crate::service::access::monitor::slugs_read;
use crate::service::access::principal::Principal;
use crate::service::memories::derived;
use crate::service::memories::sources::{check_source, require_open_source, source_keys};
use crate::service::operation::Prefetch;
use crate::service::{Caller, Memories};
use crate::store::{Key, Transaction};

request! {
    /// A memory to ingest.
    pub struct NewMemory {
        /// Title, 1 to 128 characters.
        title: String as Name,
        /// Text, at most 32 KiB.
        content: String as Content,
        /// Key of the memory at its source, 1 to 512 characters. A known key updates that memory.
        source_key: Option<String> as Option<SourceKey>,
        /// Audience label; by default that of the workspace. A known key that declares another
        /// audience than before moves its memory, unless a person has set another label.
        audience_tag: Option<AudienceLabel> as Option<Parsed<AudienceLabel>>,
        /// Sensitivity label; `internal` by default. An update keeps the current label.
        sensitivity_label: Option<SensitivityLabel> as Option<Parsed<SensitivityLabel>>,
    }
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
        /// The memory moved to another audience, which its entry declares; its title and text are
        /// those of the entry.
        Moved = "moved",
        /// The entry declares another audience than before, and the memory keeps the label that a
        /// person set; its title and text are those of the entry.
        LabelKept = "label_kept",
        /// The caller may not change the memory that has the key, or not move it to the declared
        /// audience; nothing was stored.
        Forbidden = "forbidden",
        /// The key was erased; nothing was stored.
        Erased = "erased",
    }
}

request! {
    /// Request to ingest a batch of memories.
    pub struct IngestBatch {
        /// Source of the memories.
        source_id: SourceId as Id<SourceId>,
        /// Memories, 1 to 100, no two with the same key.
        memories: Vec<NewMemory> as NewMemories,
        /// True to bring back memories whose keys were erased, and to forget that they were. False
        /// by default.
        revive: bool as Flag = false,
        /// True for the outcomes only: nothing is stored. False by default.
        dry_run: bool as Flag = false,
    }
}

/// Result of an ingested batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IngestResult {
    /// One item for each memory, in the order of the batch.
    pub memories: Vec<IngestedMemory>,
}

/// Result of one memory of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IngestedMemory {
    /// Identifier of the memory; `null` if its key was erased, if its outcome is `forbidden`, and
    /// for one that a dry run would add.
    pub id: Option<MemoryId>,
    /// Outcome for the memory.
    pub outcome: IngestOutcome,
}

/// The memories of a batch.
pub(crate) type NewMemories = List<Object<NewMemory>, Items<1, INGEST_MEMORIES_MAX>, DistinctKeys>;

/// No two memories have the same key.
pub(crate) enum DistinctKeys {}

impl Check<NewMemory> for DistinctKeys {
    fn check(memories: &[NewMemory], path: &Path<'_>, problems: &mut Problems) {
        // A batch that is too long has to be cut anyway.
        if memories.len() > INGEST_MEMORIES_MAX {
            return;
        }
        let mut seen = HashMap::new();
        for (index, memory) in memories.iter().enumerate() {
            let key = memory.source_key.as_ref();
            if let Some(first) = key.and_then(|key| seen.insert(key, index)) {
                let item = Path::Item(path, index);
                let message = format!("must not repeat the key of {}", Path::Item(path, first));
                problems.push(
                    &Path::Field(&item, "source_key"),
                    ProblemCode::Duplicate,
                    message,
                );
            }
        }
    }
}

/// Checks the memories of a batch.
///
/// # Errors
/// [`Error::InvalidRequest`] with all problems.
pub(crate) fn check_batch(memories: &[NewMemory], checks: &Checks<'_>) -> Result<(), Error> {
    let mut problems = Problems::default();
    let path = Path::Field(Path::ROOT, "memories");
    NewMemories::check_items(memories, &path, checks, &mut problems);
    problems.into_result()
}

/// # Ingestion
impl Memories<'_> {
    /// Ingests up to 100 memories from a source, all or none.
    ///
    /// They wait for review. A known `source_key` updates the title and the text of that memory,
    /// which then has to be reviewed again. A memory that already has this title and text is not
    /// touched, so repeating a batch changes nothing. A key that was
    /// [erased](crate::service::Erasures::create) stays so: its memory is not stored.
    /// [`Self::ingest_batch`] can bring it back.
    ///
    /// A text never appears under an audience that its entry did not declare, unless a person chose
    /// that audience. If the entry of a known key declares the same audience as before, the label
    /// stays as people set it. If it declares another one, the memory moves there as long as it has
    /// the label declared before; a label that a person has set stays. The sensitivity label is
    /// only that of a new memory.
    ///
    /// An entry is `forbidden`, and not stored, if the caller can neither read the memory that has
    /// its key nor has added it, or if the caller may not move it to the declared audience by a
    /// bulk update. Through a credential with a list of audience labels, having added it does not
    /// count. A memory that the caller added and can no longer read is always reported as updated,
    /// even if it had this title and text.
    ///
    /// # Errors
    /// Those of [`Operation::IngestMemories`]; [`Error::InvalidRequest`] for an unknown source;
    /// [`Error::Forbidden`] without `memory:update` if a memory changes, or for the source of an
    /// inbound webhook; [`Error::Conflict`] while memories of the source, of the caller or with one
    /// of the keys are being erased.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../../example.txt")]
    /// use knowledge_core::service::IngestOutcome::{Created, Unchanged, Updated};
    /// use knowledge_core::service::NewMemory;
    ///
    /// // A sync names each memory by its key at the source, so that it can be repeated.
    /// let mut outcomes = Vec::new();
    /// for text in ["Ask Ada.", "Ask Ada.", "Ask Grace."] {
    ///     let page = NewMemory::builder().source_key("pages/42").title("On call").content(text);
    ///     let result =
    ///         service.memories().ingest(&owner, workspace, source, &[page.build()]).await?;
    ///     outcomes.push(result[0].outcome);
    /// }
    /// assert_eq!(outcomes, [Created, Unchanged, Updated]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ingest(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        source: SourceId,
        memories: &[NewMemory],
    ) -> Result<Vec<IngestedMemory>, Error> {
        let batch = BatchRef {
            source,
            memories,
            revive: false,
            dry_run: false,
        };
        self.ingest_as(caller, workspace, batch).await
    }

    /// Ingests a batch as [`Self::ingest`] does.
    ///
    /// With `revive`, memories whose keys were erased are added too, and the hashes forgotten. With
    /// `dry_run` the result is that of a batch, and nothing is stored, audited or announced.
    ///
    /// # Errors
    /// Those of [`Self::ingest`].
    pub async fn ingest_batch(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        batch: &IngestBatch,
    ) -> Result<Vec<IngestedMemory>, Error> {
        let batch = BatchRef {
            source: batch.source_id,
            memories: &batch.memories,
            revive: batch.revive,
            dry_run: batch.dry_run,
        };
        self.ingest_as(caller, workspace, batch).await
    }

    async fn ingest_as(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        BatchRef {
            source,
            memories,
            revive,
            dry_run,
        }: BatchRef<'_>,
    ) -> Result<Vec<IngestedMemory>, Error> {
        check_batch(memories, &self.service.checks())?;
        self.service
            .once(
                Operation::IngestMemories,
                caller,
                &(workspace, source, memories, revive, dry_run),
                |caller| async move {
                    let org = caller.org();
                    let by_name = || by_source_key(org, workspace, source, memories);
                    let prefetch = Prefetch::keys(by_name())
                        .and_keys(source_keys(org, source))
                        .and_keys([
                            keys::endpoint_sequence(org, workspace),
                            keys::erasure_key(org),
                            keys::usage(org, Quota::Memories),
                        ])
                        .and_range(slugs_read(org));
                    let known = |transaction: &Transaction| {
                        let place = (workspace, source);
                        let erased = self.service.erased_marks(transaction, org, place, memories);
                        known_memories(transaction, org, by_name()).and_keys(erased)
                    };
                    let mut op = caller
                        .in_workspace_then(workspace, prefetch, &known)
                        .await?;
                    let named = ("source_id", Some(source));
                    check_source(&mut op.transaction, &op.principal, named).await?;
                    require_open_source(&mut op.transaction, &op.principal.org, source).await?;
                    let audit = op.audit(AuditAction::MemoryIngest);
                    let place = op.workspace().clone();
                    let held = op.held_in(workspace);
                    let context = IngestContext {
                        caller: &op.principal,
                        workspace: &place,
                        held,
                        source,
                        is_signed: false,
                        revives: revive,
                        origin: Origin::default(),
                    };
                    let mut ingested = self
                        .service
                        .ingest_batch(&mut op.transaction, context, audit, memories)
                        .await?;
                    if dry_run {
                        let created =
                            |memory: &&mut IngestedMemory| memory.outcome == IngestOutcome::Created;
                        ingested
                            .iter_mut()
                            .filter(created)
                            .for_each(|memory| memory.id = None);
                        return Ok(op.discard(ingested));
                    }
                    let result = IngestResult { memories: ingested };
                    op.set_created_id(audit.0.id.0);
                    op.set_replay_data(&result);
                    op.done(result.memories)
                },
                |_, replay| async move {
                    replay
                        .response::<IngestResult>()
                        .map(|result| result.memories)
                },
            )
            .await
    }
}

/// A batch to ingest.
#[derive(Clone, Copy)]
struct BatchRef<'m> {
    source: SourceId,
    memories: &'m [NewMemory],
    /// True to bring back memories whose keys were erased.
    revive: bool,
    /// True for the outcomes only.
    dry_run: bool,
}

/// Returns the keys under which memories of a batch are stored by source key.
pub(crate) fn by_source_key(
    org: OrgId,
    workspace: WorkspaceId,
    source: SourceId,
    memories: &[NewMemory],
) -> impl Iterator<Item = Key> {
    let names = memories
        .iter()
        .filter_map(|memory| memory.source_key.as_ref());
    names.map(move |name| keys::source_key(org, workspace, source, name))
}

/// Returns the reads of the stored memories with source keys that were prefetched.
///
/// An unreadable entry is left out: using it returns the error.
pub(crate) fn known_memories(
    transaction: &Transaction,
    org: OrgId,
    by_name: impl Iterator<Item = Key>,
) -> Prefetch {
    let ids = by_name.filter_map(|key| transaction.prefetched().get::<MemoryId>(&key).ok()?);
    Prefetch::keys(ids.flat_map(|id| [keys::memory(org, id), keys::content(org, id)]))
}

/// Caller, workspace and source of new memories.
pub(crate) struct IngestContext<'m> {
    pub(crate) caller: &'m Principal,
    pub(crate) workspace: &'m Workspace,
    /// Actions of the caller in the workspace.
    pub(crate) held: ActionSet,
    pub(crate) source: SourceId,
    /// True for a signed message to the inbound webhook of the source, which added all of its
    /// memories.
    pub(crate) is_signed: bool,
    /// True if memories whose keys were erased are added, and their hashes forgotten.
    pub(crate) revives: bool,
    /// Origin of new memories.
    pub(crate) origin: Origin,
}

/// Origin of new memories, and what follows from it.
#[derive(Default)]
pub(crate) struct Origin {
    /// Provenance, if it is known.
    pub(crate) provenance: Option<Provenance>,
    /// Audience of those that name none, in place of that of the workspace.
    pub(crate) audience: Option<AudienceLabel>,
}

/// A memory that was added.
pub(crate) struct Added {
    pub(crate) id: MemoryId,
    pub(crate) labels: MemoryLabels,
    pub(crate) content: MemoryContent,
}

impl IngestContext<'_> {
    /// Returns the audience label that an entry declares; `None` for that of the workspace.
    pub(crate) fn declared<'m>(&'m self, memory: &'m NewMemory) -> Option<&'m AudienceLabel> {
        memory
            .audience_tag
            .as_ref()
            .or(self.origin.audience.as_ref())
    }

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
        let audience = self.declared(memory);
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
            declared_audience: memory.source_key.as_ref().and(audience).cloned(),
            created_by: self.caller.member_id(),
            created_at: at,
            updated_by: self.caller.member_id(),
            updated_at: at,
            created_via: self.caller.via(),
            updated_via: None,
            provenance: self.origin.provenance.clone(),
        };
        transaction.create(keys::memory(org, id), &labels);
        transaction.create(keys::content(org, id), &content);
        transaction.put(keys::workspace_memory(org, workspace, id), &());
        if let Some(name) = &memory.source_key {
            transaction.put(keys::source_key(org, workspace, self.source, name), &id);
        }
        derived::keep(transaction, (org, id), (None, Some(&labels)), false, at);
        Added {
            id,
            labels,
            content,
        }
    }
}
