//! `knowledge user`: the members of an organisation, both people and service accounts.

use clap::Subcommand;
use http::Method;
use knowledge_core::api::admin::MemberView;
use knowledge_core::api::admin::requests::{NewProvisionedMember, RoleAssignment};
use knowledge_core::model::MemberKind;
use serde_json::json;

use super::args::WithOutput;
use super::failure::Failure;
use super::operator::OrgArgs;
use super::table::{Cell, Fit};

/// Add, list and remove the members of an organisation, and change their roles
///
/// A role is viewer, member, admin, owner, or the slug or identifier of a custom role. A member has
/// one role in the organisation, and can have another one in a workspace, which replaces it there.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(CreateArgs),
    /// List the members of an organisation with their roles
    List(WithOutput<OrgArgs>),
    Role(RoleArgs),
    Revoke(RevokeArgs),
}

/// Add a member
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Handle, the name in `user:` labels: 1 to 64 of the characters a-z 0-9 . _ -
    handle: String,

    /// Name; defaults to the handle
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Role in the organisation
    #[arg(long, value_name = "ROLE")]
    role: String,

    /// Team, whose `team:` label then covers the member; may be repeated
    #[arg(long = "team", value_name = "TEAM")]
    teams: Vec<String>,

    /// Add a service account instead of a person
    #[arg(long)]
    service_account: bool,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

/// Change the role of a member
///
/// The change applies immediately, to existing tokens too. The last owner cannot be changed.
#[derive(Debug, clap::Args)]
struct RoleArgs {
    /// Handle of the member
    handle: String,

    /// Role
    #[arg(required_unless_present = "end", conflicts_with = "end")]
    role: Option<String>,

    /// Change the role in this workspace only, by slug or identifier
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,

    /// Remove the role in the workspace, where the organisation's role applies again
    #[arg(long, requires = "workspace")]
    end: bool,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

/// Remove a member with all their tokens, sessions, MCP keys and roles
///
/// The credentials stop working immediately. The member's actions stay in the audit log. The handle
/// stays taken, because memories may still have the label user:HANDLE: choose another one for a new
/// member, also for one who returns. The last owner cannot be removed.
#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// Handle of the member
    handle: String,

    #[command(flatten)]
    org: OrgArgs,
}

/// Flags of the request's fields.
const FLAGS: &[(&str, &str)] = &[
    ("handle", "the handle"),
    ("member", "the member"),
    ("name", "--name"),
    ("role", "the role"),
    ("teams", "--team"),
    ("workspace", "--workspace"),
];

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Create(args) => create(args).await,
        Command::List(args) => list(args).await,
        Command::Role(args) => role(args).await,
        Command::Revoke(args) => revoke(args).await,
    }
}

async fn create(args: CreateArgs) -> Result<(), Failure> {
    let (operator, output) = args.org.open().await?;
    let kind = if args.service_account {
        MemberKind::ServiceAccount
    } else {
        MemberKind::User
    };
    let new = NewProvisionedMember::builder()
        .name(args.name.unwrap_or_else(|| args.handle.clone()))
        .handle(args.handle)
        .kind(kind)
        .role(args.role)
        .teams(args.teams);
    let body = json!(new.build());
    let created = operator.call(Method::POST, &["members"], Some(&body), FLAGS);
    let created: MemberView = created.await?;
    eprintln!(
        "added {} ({}) to {} as {}",
        created.handle, created.id, operator.org.slug, created.role
    );
    output.print_if_json(&created)
}

async fn role(args: RoleArgs) -> Result<(), Failure> {
    let (operator, output) = args.org.open().await?;
    let segments = ["members", args.handle.as_str(), "role"];
    let workspace = args.workspace.as_deref();
    let changed: MemberView = match &args.role {
        Some(role) => {
            let assignment = RoleAssignment::builder()
                .role(role.as_str())
                .maybe_workspace(workspace);
            let body = json!(assignment.build());
            operator
                .call(Method::PUT, &segments, Some(&body), FLAGS)
                .await?
        }
        None => {
            let query: Vec<_> = workspace.iter().map(|slug| ("workspace", *slug)).collect();
            operator
                .change(Method::DELETE, &segments, &query, FLAGS)
                .await?
        }
    };
    eprintln!(
        "{} of {} is {}",
        changed.handle,
        operator.org.slug,
        roles(&changed)
    );
    output.print_if_json(&changed)
}

async fn revoke(args: RevokeArgs) -> Result<(), Failure> {
    let operator = args.org.open().await?;
    let segments = ["members", args.handle.as_str()];
    operator.remove(&segments, FLAGS).await?;
    eprintln!("removed {} from {}", args.handle, operator.org.slug);
    Ok(())
}

/// Formats the roles of a member: `viewer, admin in support`.
fn roles(member: &MemberView) -> String {
    let in_workspaces = member.workspace_roles.iter();
    let in_workspaces = in_workspaces.map(|held| format!("{} in {}", held.role, held.workspace));
    let all: Vec<String> = std::iter::once(member.role.clone())
        .chain(in_workspaces)
        .collect();
    all.join(", ")
}

async fn list(org: WithOutput<OrgArgs>) -> Result<(), Failure> {
    let (operator, output) = org.open().await?;
    let members: Vec<MemberView> = operator.list("members", &[]).await?;
    let columns = [
        ("HANDLE", Fit::Cut),
        ("KIND", Fit::Whole),
        ("ROLE", Fit::Cut),
        ("TEAMS", Fit::Optional),
        ("ID", Fit::Optional),
        ("NAME", Fit::Cut),
    ];
    output.print_list(&members, &columns, |member| {
        let teams = match member.teams.as_slice() {
            [] => "-".to_owned(),
            teams => teams.join(", "),
        };
        [
            Cell::new(&member.handle),
            Cell::new(member.kind.as_str()),
            Cell::new(roles(member)),
            Cell::new(teams),
            Cell::new(member.id.to_string()),
            Cell::new(&member.name),
        ]
    })
}
