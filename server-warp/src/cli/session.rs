//! `knowledge session`: browser sessions.

use std::time::Duration;

use clap::Subcommand;
use knowledge_core::access::CredentialKind;
use knowledge_core::model::CredentialId;
use serde_json::Value;

use super::args::{OutputFormat, duration};
use super::credential::{self, NewCredential};
use super::failure::Failure;
use super::operator::OrgArgs;

/// Create, list and revoke sessions
///
/// A session is the value of the cookie service_session, which operations under /v1/orgs require.
/// The command works with and without a running server: if a server holds the data directory, the
/// command uses its admin socket.
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

/// Create a session for a member
///
/// Standard output contains only the secret, for use in scripts. It is not shown again.
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Handle of the member that the session acts as
    #[arg(long, value_name = "HANDLE")]
    member: String,

    /// Name, to recognise the session by
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "created on the command line"
    )]
    name: String,

    /// Lifetime
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = duration)]
    expires_in: Duration,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    org: OrgArgs,
}

/// List the sessions of an organisation, without their secrets
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    org: OrgArgs,
}

/// Revoke a session
///
/// The session stops working immediately. Revoking it again changes nothing.
#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// Identifier, as listed by `knowledge session list`
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
