//! `knowledge token`: access tokens and sessions.

use std::time::Duration;

use clap::Subcommand;
use console::Style;
use knowledge_core::access::{Action, ActionSet, CredentialKind, CredentialRecord, Narrowing};
use knowledge_core::model::{CredentialId, Timestamp};
use knowledge_core::service::NewToken;
use serde::Serialize;

use super::args::{OutputFormat, duration};
use super::dashboard::moment;
use super::failure::Failure;
use super::output::{has_colours, print, print_json, width};
use super::table::{Cell, Fit, Look, Table};
use super::tenant::{Tenant, TenantArgs};

/// Make, list and revoke access tokens and sessions
///
/// Works on the store directly: one process at a time has it, so stop the server first.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(CreateArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Make a token or a session for a member
///
/// Standard output has the secret alone, so that a script can take it: TOKEN=$(knowledge token create --member maya).
/// It is not shown again.
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// The handle of the member that whoever presents the token acts as
    #[arg(long, value_name = "HANDLE")]
    member: String,

    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "made on the command line")]
    name: String,

    /// Make a session, for the cookie service_session, instead of a bearer token
    #[arg(long, conflicts_with_all = ["workspaces", "actions"])]
    session: bool,

    /// Narrow the token to this workspace, by slug or identifier; may be repeated
    #[arg(long = "workspace", value_name = "SLUG")]
    workspaces: Vec<String>,

    /// Narrow the token to this action, for example memory:update; may be repeated
    #[arg(long = "action", value_name = "ACTION", value_parser = action)]
    actions: Vec<Action>,

    /// How long it is taken
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = duration)]
    expires_in: Duration,

    #[command(flatten)]
    tenant: TenantArgs,
}

/// List the tokens and sessions of an organisation, without their secrets
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// What the list looks like
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    tenant: TenantArgs,
}

/// Revoke a token or a session
#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// Its identifier, as `knowledge token list` shows it
    id: CredentialId,

    #[command(flatten)]
    tenant: TenantArgs,
}

fn action(text: &str) -> Result<Action, String> {
    text.parse()
        .map_err(|error: knowledge_core::model::UnknownName| error.to_string())
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Create(args) => create(args).await,
        Command::List(args) => list(args).await,
        Command::Revoke(args) => revoke(args).await,
    }
}

async fn create(args: CreateArgs) -> Result<(), Failure> {
    let tenant = args.tenant.open().await?;
    let member = tenant.member(&args.member)?;
    let mut workspaces = Vec::with_capacity(args.workspaces.len());
    for name in &args.workspaces {
        workspaces.push(tenant.workspace(name).await?.id);
    }
    let actions: ActionSet = args.actions.iter().copied().collect();
    let kind = if args.session {
        CredentialKind::Session
    } else {
        CredentialKind::Bearer
    };
    let new = NewToken {
        member: member.id,
        kind,
        name: args.name,
        narrowing: Narrowing {
            workspaces: (!workspaces.is_empty()).then_some(workspaces),
            actions: (!actions.is_empty()).then_some(actions),
            audience: None,
        },
        lifetime: args.expires_in,
    };
    let issued = tenant
        .service
        .provisioning()
        .issue(tenant.org.id, &new)
        .await?;
    eprintln!(
        "{} {} for {} of {}, until {}; it is not shown again",
        match kind {
            CredentialKind::Bearer => "token",
            CredentialKind::Session => "session",
        },
        issued.record.id,
        member.handle,
        tenant.org.slug,
        issued.record.expires_at
    );
    print(&format!("{}\n", issued.secret.expose()))
}

/// A token or a session as the list shows it.
#[derive(Serialize)]
struct Listed<'c> {
    id: CredentialId,
    kind: CredentialKind,
    name: &'c str,
    member: String,
    state: &'static str,
    narrowing: &'c Narrowing,
    created_at: Timestamp,
    expires_at: Timestamp,
    revoked_at: Option<Timestamp>,
}

impl<'c> Listed<'c> {
    fn new(record: &'c CredentialRecord, tenant: &Tenant, now: Timestamp) -> Self {
        Self {
            id: record.id,
            kind: record.kind,
            name: &record.name,
            member: tenant.handle_of(record.member_id),
            state: match record.revoked_at {
                Some(_) => "revoked",
                None if record.is_valid_at(now) => "valid",
                None => "expired",
            },
            narrowing: &record.narrowing,
            created_at: record.created_at,
            expires_at: record.expires_at,
            revoked_at: record.revoked_at,
        }
    }

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let state = match self.state {
            "valid" => Style::new().green(),
            _ => Style::new().dim(),
        };
        vec![
            Cell::new(self.id.to_string()),
            Cell::new(self.kind.as_str()),
            Cell::new(self.state).styled(state),
            Cell::new(&self.member),
            Cell::new(moment(Some(self.expires_at), now)),
            Cell::new(self.narrowed()),
            Cell::new(self.name),
        ]
    }

    /// In short what the token is narrowed to.
    fn narrowed(&self) -> String {
        let count = |number: usize, what: &str| {
            let plural = if number == 1 { "" } else { "s" };
            format!("{number} {what}{plural}")
        };
        let Narrowing {
            workspaces,
            actions,
            audience,
        } = self.narrowing;
        let parts: Vec<_> = [
            workspaces
                .as_ref()
                .map(|list| count(list.len(), "workspace")),
            actions.map(|set| count(set.iter().count(), "action")),
            audience.as_ref().map(|list| count(list.len(), "label")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if parts.is_empty() {
            "-".to_owned()
        } else {
            parts.join(", ")
        }
    }
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let tenant = args.tenant.open().await?;
    let provisioning = tenant.service.provisioning();
    let records = provisioning.credentials(tenant.org.id).await?;
    let now = tenant.service.env().now();
    let listed: Vec<_> = records
        .iter()
        .map(|record| Listed::new(record, &tenant, now))
        .collect();
    if args.output == OutputFormat::Json {
        return print_json(&listed);
    }
    let mut table = Table::new(&[
        ("ID", Fit::Whole),
        ("KIND", Fit::Whole),
        ("STATE", Fit::Whole),
        ("MEMBER", Fit::Cut),
        ("EXPIRES", Fit::Whole),
        ("NARROWED TO", Fit::Optional),
        ("NAME", Fit::Cut),
    ]);
    for listed in &listed {
        table.row(listed.cells(now));
    }
    let look = Look {
        width: width(),
        has_colours: has_colours(),
    };
    print(&table.draw(look))
}

async fn revoke(args: RevokeArgs) -> Result<(), Failure> {
    let tenant = args.tenant.open().await?;
    let provisioning = tenant.service.provisioning();
    let record = provisioning.revoke(tenant.org.id, args.id).await?;
    let handle = tenant.handle_of(record.member_id);
    eprintln!("revoked {} of {handle}: {}", record.id, record.name);
    Ok(())
}
