//! `knowledge init`: the first organisation of an empty store.

use knowledge_core::Error;
use knowledge_core::access::{BuiltInRole, RoleRef};
use knowledge_core::model::{MemberKind, Organization};
use knowledge_core::service::{KnowledgeService, NewMember, NewWorkspace};

use super::failure::Failure;
use super::settings::DataArgs;
use super::tenant::open_service;

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
    data: DataArgs,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let service = open_service(args.data, true).await?;
    let owner = NewMember {
        kind: MemberKind::User,
        name: args.owner_name.unwrap_or_else(|| args.owner_handle.clone()),
        handle: args.owner_handle,
        role: RoleRef::BuiltIn(BuiltInRole::Owner),
        teams: Vec::new(),
    };
    let name = args.org_name.as_ref().unwrap_or(&args.org_slug);
    let org = find_or_make(&service, &args.org_slug, name, &owner).await?;
    for workspace in &args.workspaces {
        add_workspace(&service, &org, workspace).await?;
    }
    Ok(())
}

async fn find_or_make(
    service: &KnowledgeService,
    slug: &str,
    name: &str,
    owner: &NewMember,
) -> Result<Organization, Failure> {
    let provisioning = service.provisioning();
    if let Some(org) = provisioning.organization(slug).await? {
        eprintln!("organisation {slug} is there");
        return Ok(org);
    }
    let (org, owner) = provisioning.create_organization(name, slug, owner).await?;
    eprintln!(
        "made organisation {} ({}), owned by {}",
        org.slug, org.id, owner.handle
    );
    Ok(org)
}

async fn add_workspace(
    service: &KnowledgeService,
    org: &Organization,
    text: &str,
) -> Result<(), Failure> {
    let (slug, name) = text.split_once('=').unwrap_or((text, text));
    let new = NewWorkspace {
        name: name.to_owned(),
        slug: slug.to_owned(),
        audience: None,
    };
    match service.provisioning().create_workspace(org.id, &new).await {
        Ok(made) => eprintln!("made workspace {} ({})", made.slug, made.id),
        Err(Error::SlugTaken { .. }) => eprintln!("workspace {slug} is there"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
