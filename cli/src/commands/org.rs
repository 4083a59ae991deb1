//! `knowledge org`: organisations.

use clap::Subcommand;
use http::Method;
use knowledge_core::api::admin::MemberView;
use knowledge_core::model::Organization;
use knowledge_core::partition::MoveState;
use knowledge_core::service::{NewOrganization, NewOwner};
use knowledge_server::partitions::Location;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::args::WithOutput;
use super::confirm::confirm;
use super::failure::Failure;
use super::operator::{Operator, path};
use super::org_move;
use super::settings::AdminArgs;
use super::table::{Cell, Fit};

/// Create, list, move and delete organisations
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(CreateArgs),
    /// List the organisations
    List(WithOutput<AdminArgs>),
    Move(org_move::Args),
    Delete(DeleteArgs),
}

/// Create an organisation with its first owner
///
/// Creates the store too, if there is none. Next steps: `knowledge workspace create` and `knowledge
/// token create`.
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Slug, the name in paths and labels: 1 to 64 of the characters a-z 0-9 . _ -
    slug: String,

    /// Name; defaults to the slug
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Handle of the owner, with the characters of a slug
    #[arg(long, value_name = "HANDLE", default_value = "owner")]
    owner: String,

    /// Name of the owner; defaults to the handle
    #[arg(long, value_name = "NAME")]
    owner_name: Option<String>,

    #[command(flatten)]
    admin: WithOutput<AdminArgs>,
}

/// Delete an organisation with everything in it
///
/// Its tokens, sessions, keys and webhooks stop working immediately, and its slug is free again.
/// The running server, or the next one that is started, deletes its data in the background,
/// including the audit log. Backups made before still contain it.
#[derive(Debug, clap::Args)]
struct DeleteArgs {
    /// Slug of the organisation
    slug: String,

    /// Delete it without asking
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    admin: AdminArgs,
}

/// A new organisation and its owner.
#[derive(Deserialize, Serialize)]
pub(super) struct CreatedOrganization {
    pub(super) organization: Organization,
    pub(super) owner: MemberView,
}

/// Flags of the request's fields.
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
        Command::Move(args) => org_move::run(args).await,
        Command::Delete(args) => delete(args).await,
    }
}

async fn create(args: CreateArgs) -> Result<(), Failure> {
    let operator = Operator::open(args.admin.location, true).await?;
    let new = NewOrg {
        slug: args.slug,
        name: args.name,
        owner: args.owner,
        owner_name: args.owner_name,
    };
    let created = new.create(&operator, FLAGS).await?;
    report(&created);
    args.admin.output.print_if_json(&created)
}

/// An organisation to create.
pub(super) struct NewOrg {
    pub(super) slug: String,
    pub(super) name: Option<String>,
    pub(super) owner: String,
    pub(super) owner_name: Option<String>,
}

impl NewOrg {
    pub(super) async fn create(
        &self,
        operator: &Operator,
        flags: &[(&str, &str)],
    ) -> Result<CreatedOrganization, Failure> {
        let owner = NewOwner::builder()
            .handle(self.owner.as_str())
            .name(self.owner_name.as_ref().unwrap_or(&self.owner).as_str());
        let new = NewOrganization::builder()
            .slug(self.slug.as_str())
            .name(self.name.as_ref().unwrap_or(&self.slug).as_str())
            .owner(owner.build());
        let orgs = path(&[]);
        let body = json!(new.build());
        let created = operator.call(Method::POST, &orgs, Some(&body));
        created.await.map_err(|error| error.into_failure(flags))
    }
}

pub(super) fn report(created: &CreatedOrganization) {
    let CreatedOrganization {
        organization,
        owner,
    } = created;
    eprintln!(
        "created organisation {} ({}), owned by {}",
        organization.slug, organization.id, owner.handle
    );
}

async fn delete(args: DeleteArgs) -> Result<(), Failure> {
    let operator = Operator::open(args.admin, false)
        .await?
        .of(Some(args.slug))
        .await?;
    let slug = &operator.org.slug;
    let question = format!(
        "Delete the organisation {slug} with all its members, workspaces, credentials, memories \
         and its audit log? This cannot be undone."
    );
    confirm(args.yes, &question, "pass --yes to confirm")?;
    operator.remove(&[], FLAGS).await?;
    eprintln!(
        "deleted the organisation {slug}; a server deletes its data in the background\n\
         What stays: backups made before."
    );
    Ok(())
}

/// An organisation, and its place if there are several partitions.
#[derive(Deserialize, Serialize)]
struct Listed {
    #[serde(flatten)]
    org: Organization,
    #[serde(flatten)]
    location: Location,
}

async fn list(admin: WithOutput<AdminArgs>) -> Result<(), Failure> {
    let operator = Operator::open(admin.location, false).await?;
    let orgs: Vec<Listed> = operator.orgs().await?;
    let is_partitioned = orgs.iter().any(|found| found.location.partition.is_some());
    let mut columns = vec![("SLUG", Fit::Cut), ("ID", Fit::Whole)];
    if is_partitioned {
        columns.push(("PARTITION", Fit::Whole));
    }
    columns.extend([("CREATED", Fit::Optional), ("NAME", Fit::Cut)]);
    admin
        .output
        .print_list(&orgs, &columns, |Listed { org, location }| {
            let mut cells = vec![Cell::new(&org.slug), Cell::new(org.id.to_string())];
            if is_partitioned {
                cells.push(Cell::new(place(location)));
            }
            cells.extend([Cell::new(org.created_at.to_string()), Cell::new(&org.name)]);
            cells
        })
}

fn place(location: &Location) -> String {
    let partition = location.partition.as_deref().unwrap_or_default();
    match &location.moving {
        Some(MoveState::Copying { to }) => format!("{partition} (being copied to {to})"),
        Some(MoveState::Switching { to }) => format!("{partition} (being switched to {to})"),
        Some(MoveState::Removing { from }) => format!("{partition} (being removed from {from})"),
        _ => partition.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_of_an_organisation_says_how_far_its_move_is() {
        let shown = |moving| {
            let partition = Some("home".to_owned());
            place(&Location { partition, moving })
        };
        let eu = || "eu".to_owned();
        for (moving, expected) in [
            (None, "home"),
            (
                Some(MoveState::Copying { to: eu() }),
                "home (being copied to eu)",
            ),
            (
                Some(MoveState::Switching { to: eu() }),
                "home (being switched to eu)",
            ),
            (
                Some(MoveState::Removing { from: eu() }),
                "home (being removed from eu)",
            ),
        ] {
            assert_eq!(shown(moving), expected);
        }
    }
}
