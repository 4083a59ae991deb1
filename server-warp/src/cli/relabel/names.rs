//! Workspaces and sources, found by the names that users type.

use knowledge_core::model::{Source, WorkspaceId};
use serde::Deserialize;

use super::api::Api;
use super::labels::Labels;
use crate::cli::args::known;
use crate::cli::failure::Failure;

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
    let (mut seen, mut found, mut cursor) = (Vec::new(), Vec::new(), None);
    loop {
        let (page, next) = api
            .page::<Source>("/v1/sources", &[], cursor.as_deref())
            .await?;
        for source in page {
            if source.name == name {
                found.push(source.id);
            }
            seen.push(source.name);
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    match found.as_slice() {
        [source] => labels.set_source(*source),
        [] => {
            let known = known(seen.iter().map(String::as_str));
            return Err(Failure::new(format!(
                "unknown source {name:?}; sources of this token: {known}"
            )));
        }
        several => {
            let ids: Vec<String> = several.iter().map(ToString::to_string).collect();
            return Err(Failure::new(format!(
                "several sources are named {name:?}; choose one by its identifier: {}",
                ids.join(", ")
            )));
        }
    }
    Ok(())
}

/// Finds the workspace with this slug or identifier.
pub(super) async fn find_workspace(api: &Api, name: &str) -> Result<ListedWorkspace, Failure> {
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let (page, next) = api
            .page::<ListedWorkspace>("/v1/workspaces", &[], cursor.as_deref())
            .await?;
        for workspace in page {
            if workspace.slug == name || workspace.id.to_string() == name {
                return Ok(workspace);
            }
            seen.push(workspace.slug);
        }
        cursor = next;
        if cursor.is_none() {
            let known = known(seen.iter().map(String::as_str));
            return Err(Failure::new(format!(
                "unknown workspace {name:?}; workspaces of this token: {known}"
            )));
        }
    }
}
