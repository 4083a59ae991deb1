//! `knowledge token`: access tokens.

use std::time::Duration;

use clap::Subcommand;
use knowledge_core::access::{Action, CredentialKind};
use knowledge_core::model::{AudienceLabel, CredentialId, UnknownName};
use serde_json::{Value, json};

use super::args::{OutputFormat, duration};
use super::credential::{self, NewCredential};
use super::failure::Failure;
use super::operator::OrgArgs;

/// Create, list and revoke access tokens
///
/// Works with and without a running server: if a server holds the data directory, the command uses
/// its admin socket.
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

/// Create a token for a member
///
/// Standard output contains only the secret, for use in scripts: TOKEN=$(knowledge token create
/// --member maya). It is not shown again. A token has the current permissions of its member,
/// limited to its scope.
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Handle of the member that the token acts as
    #[arg(long, value_name = "HANDLE")]
    member: String,

    /// Name, to recognise the token by
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "created on the command line"
    )]
    name: String,

    /// Create a session instead, for the cookie service_session, like `knowledge session create`
    #[arg(long, conflicts_with_all = ["workspaces", "actions", "audience"])]
    session: bool,

    /// Limit the token to this workspace, by slug or identifier; may be repeated
    #[arg(long = "workspace", value_name = "SLUG")]
    workspaces: Vec<String>,

    /// Limit the token to this action, for example memory:update; may be repeated
    #[arg(long = "action", value_name = "ACTION", value_parser = action)]
    actions: Vec<Action>,

    /// Let the token read memories with this audience label instead of those of its member, for
    /// example team:platform; may be repeated
    #[arg(long, value_name = "LABEL")]
    audience: Vec<AudienceLabel>,

    /// Lifetime
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = duration)]
    expires_in: Duration,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    org: OrgArgs,
}

/// List the tokens and sessions of an organisation, without their secrets
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    org: OrgArgs,
}

/// Revoke a token or a session
///
/// The credential stops working immediately. Revoking it again changes nothing.
#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// Identifier, as listed by `knowledge token list`
    id: CredentialId,

    #[command(flatten)]
    org: OrgArgs,
}

fn action(text: &str) -> Result<Action, String> {
    text.parse().map_err(|error: UnknownName| error.to_string())
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Create(args) => create(args).await,
        Command::List(args) => credential::list(None, args.org, args.output).await,
        Command::Revoke(args) => credential::revoke(args.id, None, args.org).await,
    }
}

async fn create(args: CreateArgs) -> Result<(), Failure> {
    let kind = if args.session {
        CredentialKind::Session
    } else {
        CredentialKind::Bearer
    };
    let new = NewCredential {
        kind,
        narrowing: narrowing(&args),
        member: args.member,
        name: args.name,
        expires_in: args.expires_in,
    };
    credential::create(new, args.org, args.output).await
}

/// Returns the scope of the token as JSON; `null` if it is not limited.
fn narrowing(args: &CreateArgs) -> Value {
    let mut narrowing = serde_json::Map::new();
    let mut narrow = |name: &str, to: Value| {
        if to.as_array().is_some_and(|items| !items.is_empty()) {
            narrowing.insert(name.to_owned(), to);
        }
    };
    narrow("workspaces", json!(args.workspaces));
    narrow("actions", json!(args.actions));
    narrow("audience", json!(args.audience));
    if narrowing.is_empty() {
        Value::Null
    } else {
        Value::Object(narrowing)
    }
}
