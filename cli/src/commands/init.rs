//! `knowledge init`: the first organisation of an empty store.

use std::convert::Infallible;

use http::Method;
use knowledge_core::model::{Organization, Workspace};
use knowledge_core::service::NewWorkspace;
use knowledge_server::config::Config;
use serde_json::json;

use super::failure::Failure;
use super::operator::{CallError, Operator, path};
use super::org::{self, NewOrg};
use super::settings::AdminArgs;

/// Create an organisation with an owner and its workspaces
///
/// If run again, it adds the workspaces that are missing. Next steps: create a token with
/// `knowledge token create`, then start the server with `knowledge serve`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Slug of the organisation: 1 to 64 of the characters a-z 0-9 . _ -
    #[arg(long, value_name = "SLUG")]
    org_slug: String,

    /// Name of the organisation; defaults to the slug
    #[arg(long, value_name = "NAME")]
    org_name: Option<String>,

    /// Handle of the owner, with the characters of a slug
    #[arg(long, value_name = "HANDLE", default_value = "owner")]
    owner_handle: String,

    /// Name of the owner; defaults to the handle
    #[arg(long, value_name = "NAME")]
    owner_name: Option<String>,

    /// Slug of a workspace, optionally with its name: support=Customer Support. May be repeated
    #[arg(long = "workspace", value_name = "SLUG[=NAME]", value_parser = workspace)]
    workspaces: Vec<NewWorkspace>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Parses `SLUG[=NAME]`; the admin interface checks both.
fn workspace(text: &str) -> Result<NewWorkspace, Infallible> {
    let (slug, name) = text.split_once('=').unwrap_or((text, text));
    Ok(NewWorkspace::builder().slug(slug).name(name).build())
}

/// Flags of the request's fields.
const FLAGS: &[(&str, &str)] = &[
    ("slug", "--org-slug"),
    ("name", "--org-name"),
    ("owner.handle", "--owner-handle"),
    ("owner.name", "--owner-name"),
];

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let config = args.admin.configure()?;
    let new = NewOrg {
        slug: args.org_slug,
        name: args.org_name,
        owner: args.owner_handle,
        owner_name: args.owner_name,
    };
    rehearse(&config, &new, &args.workspaces)
        .await
        .map_err(|failure| Failure::usage(failure.to_string()))?;
    let operator = Operator::connect(&config, true).await?;
    find_or_create(&operator, &new).await?;
    for workspace in &args.workspaces {
        match create_workspace(&operator, &new.slug, workspace).await? {
            Some(created) => eprintln!("created workspace {} ({})", created.slug, created.id),
            None => eprintln!("workspace {} exists already", workspace.slug),
        }
    }
    Ok(())
}

/// Checks all arguments against the configured limits, so that invalid ones create nothing.
async fn rehearse(
    config: &Config,
    new: &NewOrg,
    workspaces: &[NewWorkspace],
) -> Result<(), Failure> {
    let operator = Operator::rehearsal(config).await?;
    new.create(&operator, FLAGS).await?;
    for workspace in workspaces {
        create_workspace(&operator, &new.slug, workspace).await?;
    }
    Ok(())
}

async fn find_or_create(operator: &Operator, new: &NewOrg) -> Result<(), Failure> {
    let place = path(&[&new.slug]);
    let found = operator.call::<Organization>(Method::GET, &place, None);
    match found.await {
        Ok(org) => eprintln!("organisation {} exists already", org.slug),
        Err(CallError::Rejected(response)) if response.code == "not_found" => {
            org::report(&new.create(operator, FLAGS).await?);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Creates a workspace; returns `None` if it exists.
async fn create_workspace(
    operator: &Operator,
    org: &str,
    new: &NewWorkspace,
) -> Result<Option<Workspace>, Failure> {
    let body = json!(new);
    let path = path(&[org, "workspaces"]);
    match operator.call(Method::POST, &path, Some(&body)).await {
        Ok(created) => Ok(Some(created)),
        Err(CallError::Rejected(response)) if response.code == "slug_taken" => Ok(None),
        Err(error) => {
            let flag = |part: &str| format!("--workspace {:?}: the {part}", new.slug);
            Err(error.into_failure(&[("slug", &flag("slug")), ("name", &flag("name"))]))
        }
    }
}
