//! Recalls: what an assistant answered, with the memories that it cites.

use std::collections::HashSet;

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::validate::Problems;
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::{Error, ProblemCode};
use crate::limits::RECALL_MEMORIES_MAX;
use crate::model::{MemoryId, MemoryLabels, Recall, RecallId, WorkspaceId};
use crate::store::keys;

/// A new recall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecall {
    /// What was asked: at most 1,024 characters.
    pub query: String,
    /// The memories of the workspace that the answer cites, 1 to 500, without duplicates.
    pub memory_ids: Vec<MemoryId>,
}

impl KnowledgeService {
    /// Registers a recall.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values, or a memory that the workspace does not have or the caller may not
    /// know of; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without
    /// `recall:create` there.
    pub async fn create_recall(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        new: &NewRecall,
    ) -> Result<Recall, Error> {
        let mut problems = Problems::default();
        problems.description("query", &new.query);
        problems.count("memory_ids", new.memory_ids.len(), RECALL_MEMORIES_MAX);
        let mut seen = HashSet::new();
        for (index, id) in new
            .memory_ids
            .iter()
            .enumerate()
            .filter(|(_, id)| !seen.insert(**id))
        {
            problems.push(
                format!("memory_ids[{index}]"),
                ProblemCode::Duplicate,
                format!("must not name {id} twice"),
            );
        }
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let entered = caller
                .enter(&mut transaction, workspace, needs::CREATE_RECALL)
                .await?;
            let org = caller.org_id();
            let memories: Vec<_> = new
                .memory_ids
                .iter()
                .map(|id| keys::memory(org, *id))
                .collect();
            let memories = transaction.read_many::<MemoryLabels>(&memories).await?;
            let mut problems = Problems::default();
            for (index, labels) in memories.iter().enumerate() {
                let is_visible = labels.as_ref().is_some_and(|labels| {
                    labels.workspace_id == workspace
                        && caller.is_covered_by(&labels.audience, std::slice::from_ref(&entered))
                });
                if !is_visible {
                    let message = "must be a memory of the workspace";
                    problems.push(
                        format!("memory_ids[{index}]"),
                        ProblemCode::NotFound,
                        message,
                    );
                }
            }
            problems.into_result()?;
            let recall = Recall {
                id: RecallId(self.env().uuid_at(now)),
                workspace_id: workspace,
                query: new.query.clone(),
                memory_ids: new.memory_ids.clone(),
                created_by: caller.member_id(),
                created_at: now,
            };
            transaction.create(keys::recall(org, recall.id), &recall);
            for memory in &recall.memory_ids {
                transaction.put(keys::cited_by(org, *memory, recall.id), &());
            }
            // The audit log keeps identifiers, not what was asked.
            let audited = serde_json::json!({
                "id": recall.id,
                "workspace_id": workspace,
                "memory_ids": recall.memory_ids,
            });
            Operation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::RecallCreate,
                (ResourceKind::Recall, recall.id.0),
                &audited,
            );
            transaction.done(recall)
        })
        .await
    }
}
