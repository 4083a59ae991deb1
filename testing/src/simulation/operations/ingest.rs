//! Ingestion of batches of memories.

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
            let (memories, by, batch) = (service.memories(), self.by.of_service(), &self.batch);
            let ingested = memories.ingest(&by, self.workspace, batch.source_id, &batch.memories);
            let memories = ingested.await?;
            Ok(Response::of(&IngestResult { memories }))
        })
    }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let what = (entity(), entity(), vec(new_memory(), 1..4));
    let ingest = by_bearer(actor(), what, |view, by, (place, source, memories)| {
        let batch = IngestBatch::builder().source_id(view.source(source));
        IngestMemories {
            by,
            workspace: view.workspace(place),
            batch: batch.memories(memories).build(),
        }
    });
    vec![of(10, ingest)]
}

impl Request for IngestMemories {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let errors = model.errors_of_batch(&self.batch.memories);
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let source = self.batch.source_id;
        model.org(who.org).require_source(source, "source_id")?;
        let batch = Batch {
            workspace: self.workspace,
            source,
            is_signed: false,
        };
        model.ingest(&who, batch, &self.batch.memories, at.now, |index| {
            at.learned?.get(&format!("/memories/{index}/id"))
        })
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let ids = (0..).map_while(|index| response.get(&format!("/memories/{index}/id")));
        for id in ids {
            let place = (MemoryId(id), self.workspace);
            if !org_state.memories.contains(&place) {
                org_state.memories.push(place);
            }
        }
    }

    fn reconstruct(&self, model: &Model, changes: &Changes<'_>) -> Result<Response, String> {
        let mut added = changes.added_memories()?.into_iter();
        let org = self.by.org().and_then(|org| model.find_org(org));
        let org = org.ok_or("nobody calls")?;
        let known = |memory: &NewMemory| {
            let source_key = memory.source_key.clone()?;
            let name = (self.workspace, self.batch.source_id, source_key);
            org.names.get(&name).copied()
        };
        let mut memories = Vec::new();
        for memory in &self.batch.memories {
            let (id, outcome) = match known(memory) {
                Some(id) => (id, IngestOutcome::Unchanged),
                None => {
                    let id = added.next().ok_or("a memory has no entry")?;
                    (MemoryId(id), IngestOutcome::Created)
                }
            };
            memories.push(IngestedMemory { id, outcome });
        }
        Ok(Response::of(&IngestResult { memories }))
    }
}
