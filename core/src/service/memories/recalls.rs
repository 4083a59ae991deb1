//! Recalls: answers of an assistant, with the memories that they cite.

use std::collections::HashSet;

use serde::Serialize;

use crate::access::{Credential, CredentialKind, permissions};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::RECALL_MEMORIES_MAX;
use crate::model::{MemoryId, MemoryLabels, Recall, RecallId, RecallSummary, WorkspaceId};
use crate::service::KnowledgeService;
use crate::service::kit::audit::{Actor, AuditedOperation};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::Principal;
use crate::service::kit::validate::Problems;
use crate::service::memories::view::{MemoryReader, Visibility};
use crate::store::{Direction, StoreExt};

/// A new recall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewRecall {
    /// Query that was answered, at most 1,024 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Description"))]
    pub query: String,
    /// Memories of the workspace that the answer cites, 1 to 500, without duplicates.
    #[cfg_attr(
        feature = "openapi",
        schemars(length(min = 1, max = RECALL_MEMORIES_MAX), extend("uniqueItems" = true))
    )]
    pub memory_ids: Vec<MemoryId>,
}

impl NewRecall {
    /// Checks the request and collects all problems.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`].
    pub fn validate(&self) -> Result<(), Error> {
        let mut problems = Problems::default();
        problems.description("query", &self.query);
        problems.count("memory_ids", self.memory_ids.len(), RECALL_MEMORIES_MAX);
        let mut seen = HashSet::new();
        for (index, id) in self
            .memory_ids
            .iter()
            .enumerate()
            .filter(|(_, id)| !seen.insert(**id))
        {
            problems.push(
                format!("memory_ids[{index}]"),
                ProblemCode::Duplicate,
                format!("must not repeat {id}"),
            );
        }
        problems.into_result()
    }
}

impl KnowledgeService {
    /// Registers a recall.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values, or a memory that is not in the workspace or
    /// that the caller may not know of; [`Error::Unauthenticated`]; [`Error::NotFound`] for an
    /// unknown workspace; [`Error::Forbidden`] without `recall:create` there.
    pub async fn create_recall(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        new: &NewRecall,
    ) -> Result<Recall, Error> {
        new.validate()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let found = caller
                .authorize_in(&mut transaction, workspace, permissions::CREATE_RECALL)
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
                        && caller.is_covered_by(&labels.audience, std::slice::from_ref(&found))
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
            transaction.put(keys::workspace_recall(org, workspace, recall.id), &());
            for memory in &recall.memory_ids {
                transaction.put(keys::cited_by(org, *memory, recall.id), &());
            }
            // The audit log stores identifiers, not the query.
            let audited = serde_json::json!({
                "id": recall.id,
                "workspace_id": workspace,
                "memory_ids": recall.memory_ids,
            });
            AuditedOperation::begin(&transaction, self.env(), now).created(
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

    /// Lists the recalls of a workspace, newest first, without the memories that they cite.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without `memory:read`
    /// there.
    pub async fn list_recalls(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<RecallSummary>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            caller
                .authorize_in(&mut reading, workspace, permissions::LIST_RECALLS)
                .await?;
            let org = caller.org_id();
            let range = keys::workspace_recalls(org, workspace);
            let listing = Listing::new("recalls", &(), range, Direction::Reverse);
            let found = listing.page_of(self.store(), page, |marks| async move {
                let ids = marks.iter().map(|mark| keys::last_id(&mark.key));
                let ids = ids.map(|id| RecallId(id.unwrap_or_default()));
                let records: Vec<_> = ids.map(|id| keys::recall(org, id)).collect();
                let recalls = self.store().get_many_as::<Recall>(&records).await?;
                let shown = recalls
                    .into_iter()
                    .map(|recall| Some(RecallSummary::from(recall?.value)));
                Ok(shown.collect())
            });
            reading.done(found.await?)
        })
        .await
    }

    /// Reads one recall.
    ///
    /// Of the memories that it cites, it returns those that still exist and that the caller may
    /// know of.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`]; [`Error::Forbidden`] without `memory:read`
    /// in its workspace.
    pub async fn recall(&self, credential: &Credential, recall: RecallId) -> Result<Recall, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            let org = caller.org_id();
            let found = reading.read::<Recall>(&keys::recall(org, recall)).await?;
            let mut found = found.ok_or(Error::NotFound { what: "recall" })?;
            let permissions = [permissions::READ_RECALL];
            let (_, held) = caller
                .authorize_in_for_any(&mut reading, found.workspace_id, &permissions)
                .await?;
            let cited = found.memory_ids.iter();
            let cited: Vec<_> = cited.map(|id| keys::memory(org, *id)).collect();
            let cited = self.store().get_many_as::<MemoryLabels>(&cited).await?;
            let labels: Vec<_> = cited.into_iter().map(|found| Some(found?.value)).collect();
            let there = labels.iter().flatten();
            let reader = MemoryReader::of(self.store(), &caller, held, there).await?;
            let mut sights = labels.iter().map(|labels| {
                let labels = labels.as_ref();
                labels.is_some_and(|labels| reader.visibility(labels) != Visibility::Nothing)
            });
            found
                .memory_ids
                .retain(|_| sights.next().unwrap_or_default());
            reading.done(found)
        })
        .await
    }
}
