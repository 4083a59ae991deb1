//! Ingestion of batches of memories.

use proptest::bool::weighted;
use proptest::collection::vec;

use super::{Weighted, by_bearer, of};
use crate::call::ApiCall;
use crate::model::{Batch, Caller, Expected, Model, Moment, Response};
use crate::simulation::call::{Described, Request, Run};
use crate::simulation::indeterminate::Changes;
use crate::simulation::part::Part;
use crate::simulation::world::OrgState;
use crate::strategies::{actor, entity, new_memory};
use knowledge_core::api::Operation;
use knowledge_core::model::{MemoryId, Timestamp, WorkspaceId};
use knowledge_core::service::{
    IngestBatch, IngestOutcome, IngestResult, IngestedMemory, KnowledgeService, NewMemory,
};

/// Ingestion of a batch.
#[derive(Clone, Debug)]
pub(in crate::simulation) struct IngestMemories {
    pub(in crate::simulation) by: Caller,
    pub(in crate::simulation) workspace: WorkspaceId,
    pub(in crate::simulation) batch: IngestBatch,
}

impl Described for IngestMemories {
    fn operation(&self) -> Option<Operation> {
        Some(Operation::IngestMemories)
    }

    fn caller(&self) -> Option<&Caller> {
        Some(&self.by)
    }

    fn api_call(&self, _now: Timestamp) -> Option<ApiCall> {
        let mut call = ApiCall::new(Operation::IngestMemories);
        self.workspace.add_to(&mut call);
        self.batch.add_to(&mut call);
        Some(call)
    }

    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let (memories, by) = (service.memories(), self.by.of_service());
            let ingested = memories.ingest_batch(&by, self.workspace, &self.batch);
            let memories = ingested.await?;
            Ok(Response::of(&IngestResult { memories }))
        })
    }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let flags = (weighted(0.3), weighted(0.1));
    let what = (entity(), entity(), vec(new_memory(), 1..4), flags);
    let ingest = by_bearer(
        actor(),
        what,
        |view, by, (place, source, memories, (revive, dry_run))| {
            let batch = IngestBatch::builder().source_id(view.source(source));
            IngestMemories {
                by,
                workspace: view.workspace(place),
                batch: batch
                    .memories(memories)
                    .revive(revive)
                    .dry_run(dry_run)
                    .build(),
            }
        },
    );
    vec![of(10, ingest)]
}

impl Request for IngestMemories {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let errors = model.errors_of_batch(&self.batch.memories);
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let source = self.batch.source_id;
        model
            .org(who.org)
            .require_source(&who, source, "source_id")?;
        let batch = Batch {
            workspace: self.workspace,
            source,
            is_signed: false,
            revives: self.batch.revive,
            is_dry: self.batch.dry_run,
        };
        model.ingest(&who, batch, &self.batch.memories, at.now, |index| {
            at.learned?.get(&format!("/memories/{index}/id"))
        })
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let ingested = response.get::<Vec<IngestedMemory>>("/memories");
        let ids = ingested.into_iter().flatten();
        for id in ids.filter_map(|memory| memory.id) {
            let place = (id, self.workspace);
            if !org_state.memories.contains(&place) {
                org_state.memories.push(place);
            }
        }
    }

    fn reconstruct(&self, model: &Model, changes: &Changes<'_>) -> Result<Response, String> {
        let mut added = changes.added_memories()?.into_iter();
        let org = self.by.org().and_then(|org| model.find_org(org));
        let org = org.ok_or("nobody calls")?;
        let name = |memory: &NewMemory| {
            let source_key = memory.source_key.clone()?;
            Some((self.workspace, self.batch.source_id, source_key))
        };
        let known = |memory: &NewMemory| org.names.get(&name(memory)?).copied();
        let is_erased = |memory: &NewMemory| {
            let name = name(memory).filter(|_| !self.batch.revive);
            name.is_some_and(|name| org.erased_names.contains(&name))
        };
        let mut memories = Vec::new();
        for memory in &self.batch.memories {
            let (id, outcome) = match known(memory) {
                Some(id) => (Some(id), IngestOutcome::Unchanged),
                None if is_erased(memory) => (None, IngestOutcome::Erased),
                None => {
                    let id = added.next().ok_or("a memory has no entry")?;
                    (Some(MemoryId(id)), IngestOutcome::Created)
                }
            };
            memories.push(IngestedMemory { id, outcome });
        }
        Ok(Response::of(&IngestResult { memories }))
    }
}
