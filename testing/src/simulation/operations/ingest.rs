//! Ingestion of batches of memories.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Op, Weighted, of, requests};
use crate::model::{ErrorResponse, Expected, Model, Moment, Response};
use crate::simulation::call::{Request, Run};
use crate::simulation::indeterminate::Changes;
use crate::simulation::world::OrgState;
use crate::strategies::{actor, entity, new_memory};
use knowledge_core::ProblemCode;
use knowledge_core::access::Action;
use knowledge_core::model::{MemoryId, SourceId, WorkspaceId};
use knowledge_core::service::{IngestOutcome, IngestedMemory, KnowledgeService, NewMemory};

requests! {
    IngestMemories { workspace: WorkspaceId, source: SourceId, memories: Vec<NewMemory> }
}

pub(super) fn strategies() -> Vec<Weighted> {
    vec![of(
        10,
        (actor(), entity(), entity(), vec(new_memory(), 1..4)).prop_map(
            |(by, place, source, memories)| {
                Op::by(by, move |view| IngestMemories {
                    by: view.bearer(by),
                    workspace: view.workspace(place),
                    source: view.source(source),
                    memories: memories.clone(),
                })
            },
        ),
    )]
}

impl Request for IngestMemories {
    fn run<'a>(&'a self, service: &'a KnowledgeService) -> Run<'a> {
        Box::pin(async move {
            let (by, place) = (&self.by.credential, self.workspace);
            let ingested = service.ingest_memories(by, place, self.source, &self.memories);
            Ok(Response::of(&ingested.await?))
        })
    }

    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let errors = model.errors_of_batch(&self.memories);
        let action = Action::MemoryCreate;
        let who = errors.then(model.authorize_in(&self.by, self.workspace, action, at.now))?;
        if !model.org(who.org).sources.contains_key(&self.source) {
            return Err(ErrorResponse::invalid("source_id", ProblemCode::NotFound).into());
        }
        if model.org(who.org).closed_sources.contains(&self.source) {
            return Err(ErrorResponse::Forbidden.into());
        }
        let place = (self.workspace, self.source, false);
        model.ingest(&who, place, &self.memories, at.now, |index| {
            at.learned?.get(&format!("/{index}/id"))
        })
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let ids = (0..).map_while(|index| response.get(&format!("/{index}/id")));
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
        let ingested = |memory: &NewMemory| {
            let name = (self.workspace, self.source, memory.source_key.clone()?);
            org.names.get(&name).copied()
        };
        let ingested = self.memories.iter().map(|memory| match ingested(memory) {
            Some(id) => Ok((id, IngestOutcome::Unchanged)),
            None => {
                let id = added.next().ok_or("a memory has no entry")?;
                Ok((MemoryId(id), IngestOutcome::Created))
            }
        });
        let ingested = ingested.map(|result: Result<_, String>| {
            let (id, outcome) = result?;
            Ok(IngestedMemory { id, outcome })
        });
        let ingested: Result<Vec<_>, String> = ingested.collect();
        Ok(Response::of(&ingested?))
    }
}
