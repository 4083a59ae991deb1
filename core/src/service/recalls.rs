//! Recalls: what an assistant answered, with the memories that it cites.

use std::collections::HashSet;

use serde::Serialize;

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::memory_view::{Sight, Viewer};
use super::page::{Listing, Page, PageRequest};
use super::validate::Problems;
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::{Error, ProblemCode};
use crate::limits::RECALL_MEMORIES_MAX;
use crate::model::{MemoryId, MemoryLabels, Recall, RecallId, RecallSummary, WorkspaceId};
use crate::keys;
use crate::store::{Direction, StoreExt};

/// A new recall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewRecall {
    /// What was asked: at most 1,024 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Description"))]
    pub query: String,
    /// The memories of the workspace that the answer cites, 1 to 500, without duplicates.
    #[cfg_attr(
        feature = "openapi",
        schemars(length(min = 1, max = RECALL_MEMORIES_MAX), extend("uniqueItems" = true))
    )]
    pub memory_ids: Vec<MemoryId>,
}

impl NewRecall {
    /// What is wrong with the request, all of it.
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
                format!("must not name {id} twice"),
            );
        }
        problems.into_result()
    }
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
        new.validate()?;
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
            transaction.put(keys::workspace_recall(org, workspace, recall.id), &());
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

    /// The recalls of a workspace, the newest first, without the memories that they cite.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace; [`Error::Forbidden`] without `memory:read` there.
    pub async fn list_recalls(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<RecallSummary>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut reading, credential, CredentialKind::Bearer, now).await?;
            caller
                .enter(&mut reading, workspace, needs::LIST_RECALLS)
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

    /// One recall, with those of the memories it cites that are still there and that the caller may know of.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`]; [`Error::Forbidden`] without `memory:read` in its workspace.
    pub async fn recall(&self, credential: &Credential, recall: RecallId) -> Result<Recall, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut reading, credential, CredentialKind::Bearer, now).await?;
            let org = caller.org_id();
            let found = reading.read::<Recall>(&keys::recall(org, recall)).await?;
            let mut found = found.ok_or(Error::NotFound { what: "recall" })?;
            let needs = [needs::READ_RECALL];
            let (_, held) = caller
                .enter_for_any(&mut reading, found.workspace_id, &needs)
                .await?;
            let cited = found.memory_ids.iter();
            let cited: Vec<_> = cited.map(|id| keys::memory(org, *id)).collect();
            let cited = self.store().get_many_as::<MemoryLabels>(&cited).await?;
            let labels: Vec<_> = cited.into_iter().map(|found| Some(found?.value)).collect();
            let there = labels.iter().flatten();
            let viewer = Viewer::of(self.store(), &caller, held, there).await?;
            let mut sights = labels.iter().map(|labels| {
                let labels = labels.as_ref();
                labels.is_some_and(|labels| viewer.sight(labels) != Sight::Nothing)
            });
            found
                .memory_ids
                .retain(|_| sights.next().unwrap_or_default());
            reading.done(found)
        })
        .await
    }
}
