//! `knowledge org`: organisations.

use clap::Subcommand;
use http::Method;
use knowledge_core::api::admin::MemberView;
use knowledge_core::model::Organization;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::args::OutputFormat;
use super::failure::Failure;
use super::operator::{Operator, path};
use super::output::{draw, print_json};
use super::settings::AdminArgs;
use super::table::{Cell, Fit, Table};

/// Make and list organisations
///
/// An organisation is not removed: what was done in it stands in its audit log. To end its use, revoke its users, whose
/// tokens and sessions go with them; its last owner stays.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(CreateArgs),
    List(ListArgs),
}

/// Make an organisation with its first owner
///
/// Makes the store too, where there is none. Next: `knowledge workspace create` and `knowledge token create`.
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Its slug, the name in paths and labels: 1 to 64 of the characters a-z 0-9 . _ -
    slug: String,

    /// Its name; without it the slug
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The handle of the owner, written as a slug is
    #[arg(long, value_name = "HANDLE", default_value = "owner")]
    owner: String,

    /// The name of the owner; without it the handle
    #[arg(long, value_name = "NAME")]
    owner_name: Option<String>,

    /// What to print
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    admin: AdminArgs,
}

/// List the organisations
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// What the list looks like
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    admin: AdminArgs,
}

/// An organisation that was just made.
#[derive(Deserialize, Serialize)]
pub(super) struct Founded {
    pub(super) organization: Organization,
    pub(super) owner: MemberView,
}

/// The flags that the fields of a request come from.
const FLAGS: &[(&str, &str)] = &[
    ("slug", "the slug"),
    ("name", "--name"),
    ("owner.handle", "--owner"),
    ("owner.name", "--owner-name"),
];

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Create(args) => create(args).await,
        Command::List(args) => list(args).await,
    }
}

async fn create(args: CreateArgs) -> Result<(), Failure> {
    let operator = Operator::open(args.admin, true).await?;
    let new = NewOrg {
        slug: args.slug,
        name: args.name,
        owner: args.owner,
        owner_name: args.owner_name,
    };
    let made = new.make(&operator, FLAGS).await?;
    report(&made);
    match args.output {
        OutputFormat::Text => Ok(()),
        OutputFormat::Json => print_json(&made),
    }
}

/// What an organisation is made of.
pub(super) struct NewOrg {
    pub(super) slug: String,
    pub(super) name: Option<String>,
    pub(super) owner: String,
    pub(super) owner_name: Option<String>,
}

impl NewOrg {
    pub(super) async fn make(
        &self,
        operator: &Operator,
        flags: &[(&str, &str)],
    ) -> Result<Founded, Failure> {
        let body = json!({
            "slug": self.slug,
            "name": self.name.as_ref().unwrap_or(&self.slug),
            "owner": {
                "handle": self.owner,
                "name": self.owner_name.as_ref().unwrap_or(&self.owner),
            },
        });
        let orgs = path(&[]);
        let made = operator.call(Method::POST, &orgs, Some(&body));
        made.await.map_err(|error| error.into_failure(flags))
    }
}

pub(super) fn report(made: &Founded) {
    let Founded {
        organization,
        owner,
    } = made;
    eprintln!(
        "made organisation {} ({}), owned by {}",
        organization.slug, organization.id, owner.handle
    );
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let operator = Operator::open(args.admin, false).await?;
    let orgs = operator.orgs().await?;
    if args.output == OutputFormat::Json {
        return print_json(&orgs);
    }
    let mut table = Table::new(&[
        ("SLUG", Fit::Cut),
        ("ID", Fit::Whole),
        ("MADE", Fit::Optional),
        ("NAME", Fit::Cut),
    ]);
    for org in &orgs {
        table.row([
            Cell::new(&org.slug),
            Cell::new(org.id.to_string()),
            Cell::new(org.created_at.to_string()),
            Cell::new(&org.name),
        ]);
    }
    draw(&table)
}
