//! Workspaces and sources, found by the names that users type.

use knowledge_core::model::{Source, SourceId, WorkspaceId};
use serde::Deserialize;

use super::api::Api;
use super::labels::Labels;
use crate::commands::args::known;
use crate::commands::failure::Failure;

/// Workspace in a list.
#[derive(Deserialize)]
pub(super) struct ListedWorkspace {
    pub(super) id: WorkspaceId,
    pub(super) slug: String,
}

/// Finds the source that the labels name, if they do.
pub(super) async fn find_source(api: &Api, labels: &mut Labels) -> Result<(), Failure> {
    let Some(name) = labels.source_name() else {
        return Ok(());
    };
    let sources: Vec<Source> = api.list("/v1/sources").await?;
    let found = sources.iter().filter(|source| source.name == name);
    let found: Vec<SourceId> = found.map(|source| source.id).collect();
    match found.as_slice() {
        [source] => {
            labels.set_source(*source);
            Ok(())
        }
        [] => {
            let known = known(sources.iter().map(|source| source.name.as_str()));
            Err(Failure::new(format!(
                "unknown source {name:?}; sources of this token: {known}"
            )))
        }
        several => {
            let ids: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(Failure::new(format!(
                "several sources are named {name:?}; choose one by its identifier: {}",
                ids.join(", ")
            )))
        }
    }
}

/// Finds the workspace with this slug or identifier.
pub(super) async fn find_workspace(api: &Api, name: &str) -> Result<ListedWorkspace, Failure> {
    let mut workspaces: Vec<ListedWorkspace> = api.list("/v1/workspaces").await?;
    let is_named =
        |workspace: &ListedWorkspace| workspace.slug == name || workspace.id.to_string() == name;
    match workspaces.iter().position(is_named) {
        Some(index) => Ok(workspaces.swap_remove(index)),
        None => {
            let known = known(workspaces.iter().map(|workspace| workspace.slug.as_str()));
            Err(Failure::new(format!(
                "unknown workspace {name:?}; workspaces of this token: {known}"
            )))
        }
    }
}
