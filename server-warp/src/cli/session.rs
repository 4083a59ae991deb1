//! `knowledge session`: sessions, as browsers carry them.

use std::time::Duration;

use clap::Subcommand;
use knowledge_core::access::CredentialKind;
use knowledge_core::model::CredentialId;
use serde_json::Value;

use super::args::{OutputFormat, duration};
use super::credential::{self, NewCredential};
use super::failure::Failure;
use super::operator::OrgArgs;

/// Make, list and revoke sessions
///
/// A session is the value of the cookie service_session, which the operations under /v1/orgs take. Works with and
/// without a running server: the one that has the data directory does it, through its admin socket.
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

/// Make a session for a member
///
/// Standard output has the secret alone, so that a script can take it. It is not shown again.
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// The handle of the member that whoever presents the session acts as
    #[arg(long, value_name = "HANDLE")]
    member: String,

    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "made on the command line")]
    name: String,

    /// How long it is taken
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = duration)]
    expires_in: Duration,

    /// What to print
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    org: OrgArgs,
}

/// List the sessions of an organisation, without their secrets
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// What the list looks like
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    org: OrgArgs,
}

/// Revoke a session
///
/// From then on it is refused. Revoking it again changes nothing.
#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// Its identifier, as `knowledge session list` shows it
    id: CredentialId,

    #[command(flatten)]
    org: OrgArgs,
}

const KIND: CredentialKind = CredentialKind::Session;

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Create(args) => {
            let new = NewCredential {
                kind: KIND,
                member: args.member,
                name: args.name,
                expires_in: args.expires_in,
                narrowing: Value::Null,
            };
            credential::create(new, args.org, args.output).await
        }
        Command::List(args) => credential::list(Some(KIND), args.org, args.output).await,
        Command::Revoke(args) => credential::revoke(args.id, Some(KIND), args.org).await,
    }
}
