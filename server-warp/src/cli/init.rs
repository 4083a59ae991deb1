//! `knowledge init`: the first organisation of an empty store.

use http::Method;
use knowledge_core::model::{Organization, Workspace};
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
    #[arg(long = "workspace", value_name = "SLUG[=NAME]")]
    workspaces: Vec<String>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Flags of the request's fields.
const FLAGS: &[(&str, &str)] = &[
    ("slug", "--org-slug"),
    ("name", "--org-name"),
    ("owner.handle", "--owner-handle"),
    ("owner.name", "--owner-name"),
];

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let operator = Operator::open(args.admin, true).await?;
    let new = NewOrg {
        slug: args.org_slug,
        name: args.org_name,
        owner: args.owner_handle,
        owner_name: args.owner_name,
    };
    find_or_create(&operator, &new).await?;
    for workspace in &args.workspaces {
        add_workspace(&operator, &new.slug, workspace).await?;
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

async fn add_workspace(operator: &Operator, org: &str, text: &str) -> Result<(), Failure> {
    let (slug, name) = text.split_once('=').unwrap_or((text, text));
    let body = json!({ "slug": slug, "name": name });
    let path = path(&[org, "workspaces"]);
    let created = operator.call::<Workspace>(Method::POST, &path, Some(&body));
    match created.await {
        Ok(created) => eprintln!("created workspace {} ({})", created.slug, created.id),
        Err(CallError::Rejected(response)) if response.code == "slug_taken" => {
            eprintln!("workspace {slug} exists already");
        }
        Err(error) => {
            let flags = [("slug", "--workspace"), ("name", "--workspace: the name")];
            return Err(error.into_failure(&flags));
        }
    }
    Ok(())
}
