//! Sources, memories and dashboards, on behalf of members.

use super::Operator;
use crate::error::{EntityKind, Error};
use crate::model::{DashboardSummary, Source, WorkspaceId};
use crate::service::{Caller, IngestBatch, IngestResult, NewSource, Page, PageRequest};

of_organization! {
    list_sources(page: &PageRequest) -> Page<Source> = list_sources;
}

impl Operator<'_> {
    pub(super) async fn create_source(
        self,
        org: &str,
        member: &str,
        new: &NewSource,
    ) -> Result<Source, Error> {
        let org = self.org(org).await?;
        let member = self.require_member(&org, member).await?.id;
        let caller = self.on_behalf_of(org.id, member);
        let created = self.service.sources().create(&caller, new).await;
        created.map_err(without_member)
    }

    pub(super) async fn ingest_memories(
        self,
        org: &str,
        member: &str,
        workspace: &str,
        batch: &IngestBatch,
    ) -> Result<IngestResult, Error> {
        let (caller, workspace) = self.member_in(org, member, workspace).await?;
        let memories = self
            .service
            .memories()
            .ingest_batch(&caller, workspace, batch)
            .await
            .map_err(without_member)?;
        Ok(IngestResult { memories })
    }

    pub(super) async fn get_dashboard_summary(
        self,
        org: &str,
        member: &str,
        workspace: &str,
    ) -> Result<DashboardSummary, Error> {
        let (caller, workspace) = self.member_in(org, member, workspace).await?;
        let dashboard = self
            .service
            .workspaces()
            .get_dashboard_summary(&caller, workspace)
            .await;
        Ok(dashboard.map_err(without_member)?.value)
    }

    /// Finds the member and the workspace that a path names.
    async fn member_in(
        self,
        org: &str,
        member: &str,
        workspace: &str,
    ) -> Result<(Caller, WorkspaceId), Error> {
        let org = self.org(org).await?;
        let member = self.require_member(&org, member).await?.id;
        let workspace = self.workspace_in_path(org.id, workspace).await?;
        Ok((self.on_behalf_of(org.id, member), workspace.id))
    }
}

/// Converts the error of a member that was removed in the meantime.
fn without_member(error: Error) -> Error {
    match error {
        Error::Unauthenticated { .. } => Error::not_found(EntityKind::Member),
        error => error,
    }
}
