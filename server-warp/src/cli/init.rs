//! `knowledge init`: the first organisation of an empty store.

use http::Method;
use knowledge_core::model::{Organization, Workspace};
use serde_json::json;

use super::failure::Failure;
use super::operator::{CallError, Operator, path};
use super::org::{self, NewOrg};
use super::settings::AdminArgs;

/// Make an organisation with an owner and its workspaces
///
/// Run again, it adds the workspaces that are missing. Next: `knowledge token create` makes the first token, then
/// `knowledge serve` serves.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The slug of the organisation: 1 to 64 of the characters a-z 0-9 . _ -
    #[arg(long, value_name = "SLUG")]
    org_slug: String,

    /// The name of the organisation; without it the slug
    #[arg(long, value_name = "NAME")]
    org_name: Option<String>,

    /// The handle of the owner, written as a slug is
    #[arg(long, value_name = "HANDLE", default_value = "owner")]
    owner_handle: String,

    /// The name of the owner; without it the handle
    #[arg(long, value_name = "NAME")]
    owner_name: Option<String>,

    /// The slug of a workspace, and its name behind an equals sign: support=Customer Support. May be repeated
    #[arg(long = "workspace", value_name = "SLUG[=NAME]")]
    workspaces: Vec<String>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// The flags that the fields of a request come from.
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
    find_or_make(&operator, &new).await?;
    for workspace in &args.workspaces {
        add_workspace(&operator, &new.slug, workspace).await?;
    }
    Ok(())
}

async fn find_or_make(operator: &Operator, new: &NewOrg) -> Result<(), Failure> {
    let place = path(&[&new.slug]);
    let found = operator.call::<Organization>(Method::GET, &place, None);
    match found.await {
        Ok(org) => eprintln!("organisation {} is there", org.slug),
        Err(CallError::Refused(refusal)) if refusal.code == "not_found" => {
            org::report(&new.make(operator, FLAGS).await?);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn add_workspace(operator: &Operator, org: &str, text: &str) -> Result<(), Failure> {
    let (slug, name) = text.split_once('=').unwrap_or((text, text));
    let body = json!({ "slug": slug, "name": name });
    let path = path(&[org, "workspaces"]);
    let made = operator.call::<Workspace>(Method::POST, &path, Some(&body));
    match made.await {
        Ok(made) => eprintln!("made workspace {} ({})", made.slug, made.id),
        Err(CallError::Refused(refusal)) if refusal.code == "slug_taken" => {
            eprintln!("workspace {slug} is there");
        }
        Err(error) => {
            let flags = [("slug", "--workspace"), ("name", "--workspace: the name")];
            return Err(error.into_failure(&flags));
        }
    }
    Ok(())
}
