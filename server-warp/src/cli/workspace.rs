//! `knowledge workspace`: the workspaces of an organisation.

use clap::Subcommand;
use http::Method;
use knowledge_core::model::{AudienceLabel, Workspace};
use serde_json::json;

use super::args::OutputFormat;
use super::confirm::confirm;
use super::failure::Failure;
use super::operator::OrgArgs;
use super::output::{draw, print_json};
use super::table::{Cell, Fit, Table};
use knowledge_core::service::NewWorkspace;

/// Create, list and delete workspaces
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(CreateArgs),
    List(ListArgs),
    Delete(DeleteArgs),
}

/// Create a workspace
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Slug: 1 to 64 of the characters a-z 0-9 . _ -
    slug: String,

    /// Name; defaults to the slug
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Audience label of new memories, for example team:platform; defaults to workspace:SLUG
    #[arg(long, value_name = "LABEL")]
    audience: Option<AudienceLabel>,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    org: OrgArgs,
}

/// List the workspaces of an organisation
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    org: OrgArgs,
}

/// Delete a workspace with everything in it
///
/// Nobody can use it any more immediately. A server deletes its memories, recalls, chats,
/// connectors, keys and webhooks in the background, or the next one that is started. The audit log
/// of the organisation keeps what was done there. The slug stays taken, because labels
/// workspace:SLUG may remain. Backups made before still contain it.
#[derive(Debug, clap::Args)]
struct DeleteArgs {
    /// Slug of the workspace
    slug: String,

    /// Delete it without asking
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    org: OrgArgs,
}

/// Flags of the request's fields.
const FLAGS: &[(&str, &str)] = &[
    ("slug", "the slug"),
    ("name", "--name"),
    ("audience", "--audience"),
];

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Create(args) => create(args).await,
        Command::List(args) => list(args).await,
        Command::Delete(args) => delete(args).await,
    }
}

async fn create(args: CreateArgs) -> Result<(), Failure> {
    let operator = args.org.open().await?;
    let new = NewWorkspace::builder()
        .name(args.name.unwrap_or_else(|| args.slug.clone()))
        .slug(args.slug)
        .maybe_audience(args.audience);
    let body = json!(new.build());
    let created = operator.call(Method::POST, &["workspaces"], Some(&body), FLAGS);
    let created: Workspace = created.await?;
    eprintln!(
        "created workspace {} ({}) of {}",
        created.slug, created.id, operator.org.slug
    );
    match args.output {
        OutputFormat::Text => Ok(()),
        OutputFormat::Json => print_json(&created),
    }
}

async fn delete(args: DeleteArgs) -> Result<(), Failure> {
    let operator = args.org.open().await?;
    let (slug, org) = (args.slug, &operator.org.slug);
    let question = format!(
        "Delete the workspace {slug} of {org} with all its memories, recalls, chats, connectors, \
         keys, webhooks and roles? This cannot be undone."
    );
    confirm(args.yes, &question, "pass --yes to confirm")?;
    operator.remove(&["workspaces", &slug], FLAGS).await?;
    eprintln!(
        "deleted the workspace {slug} of {org}; a server deletes its data in the background\n\
         What stays: the slug, which is not used again; the entries of the audit log until the end \
         of their retention; sources; backups made before."
    );
    Ok(())
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let operator = args.org.open().await?;
    let workspaces: Vec<Workspace> = operator.list("workspaces", &[]).await?;
    if args.output == OutputFormat::Json {
        return print_json(&workspaces);
    }
    let mut table = Table::new(&[
        ("SLUG", Fit::Cut),
        ("ID", Fit::Whole),
        ("AUDIENCE", Fit::Cut),
        ("CREATED", Fit::Optional),
        ("NAME", Fit::Cut),
    ]);
    for workspace in &workspaces {
        table.row([
            Cell::new(&workspace.slug),
            Cell::new(workspace.id.to_string()),
            Cell::new(workspace.audience.to_string()),
            Cell::new(workspace.created_at.to_string()),
            Cell::new(&workspace.name),
        ]);
    }
    draw(&table)
}
