//! `knowledge token` and `knowledge session`: credentials of members.

use std::time::Duration;

use clap::Subcommand;
use knowledge_core::access::{Action, CredentialKind};
use knowledge_core::api::admin::requests::{NewCredential, NewScope};
use knowledge_core::model::{AudienceLabel, CredentialId};

use super::args::{WithOutput, duration};
use super::credential;
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
    Create(TokenArgs),
    /// List the tokens and sessions of an organisation, without their secrets
    List(WithOutput<OrgArgs>),
    /// Revoke a token or a session
    ///
    /// The credential stops working immediately. The command lists the tokens, MCP keys, webhooks
    /// and subscriptions that it created.
    Revoke(RevokeArgs),
}

/// Create, list and revoke sessions
///
/// A session is the value of the cookie service_session, which operations under /v1/orgs require.
/// The command works with and without a running server: if a server holds the data directory, the
/// command uses its admin socket.
#[derive(Debug, clap::Args)]
pub(super) struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// Create a session for a member
    ///
    /// Standard output contains only the secret, for use in scripts. It is not shown again.
    Create(CreateArgs),
    /// List the sessions of an organisation, without their secrets
    List(WithOutput<OrgArgs>),
    /// Revoke a session
    ///
    /// The session stops working immediately. The command lists the tokens, MCP keys, webhooks and
    /// subscriptions that it created.
    Revoke(RevokeArgs),
}

/// Create a token for a member
///
/// Standard output contains only the secret, for use in scripts: TOKEN=$(knowledge token create
/// --member maya). It is not shown again. A token has the current permissions of its member,
/// limited to its scope.
#[derive(Debug, clap::Args)]
struct TokenArgs {
    /// Create a session instead, for the cookie service_session, like `knowledge session create`
    #[arg(long, conflicts_with_all = ["workspaces", "actions", "audience"])]
    session: bool,

    /// Limit the token to this workspace, by slug or identifier; may be repeated
    #[arg(long = "workspace", value_name = "SLUG")]
    workspaces: Vec<String>,

    /// Limit the token to this action, for example memory:update; may be repeated
    #[arg(long = "action", value_name = "ACTION")]
    actions: Vec<Action>,

    /// Limit the token to memories with this audience label, for example team:platform; may be
    /// repeated
    #[arg(long, value_name = "LABEL")]
    audience: Vec<AudienceLabel>,

    #[command(flatten)]
    create: CreateArgs,
}

#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Handle of the member to act as
    #[arg(long, value_name = "HANDLE")]
    member: String,

    /// Name, to recognise the credential by
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "created on the command line"
    )]
    name: String,

    /// Lifetime
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = duration)]
    expires_in: Duration,

    /// Accept a lifetime of more than 400 days, up to ten years
    #[arg(long)]
    long_lived: bool,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// Identifier, as listed by `list`
    id: CredentialId,

    /// End the tokens, MCP keys, webhooks, inbound webhooks and subscriptions that it created, too
    ///
    /// Without this flag they remain, since they belong to the member, except those that a token
    /// with a scope created. For a credential that has leaked; also after its revocation.
    #[arg(long)]
    with_created: bool,

    #[command(flatten)]
    org: OrgArgs,
}

/// Runs `knowledge token`, which also lists and revokes sessions.
pub(super) async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Create(args) => {
            let kind = if args.session {
                CredentialKind::Session
            } else {
                CredentialKind::Bearer
            };
            let scope = scope(&args);
            args.create.run(kind, scope).await
        }
        Command::List(org) => credential::list(None, org).await,
        Command::Revoke(args) => args.run(None).await,
    }
}

/// Runs `knowledge session`.
pub(super) async fn run_session(args: SessionArgs) -> Result<(), Failure> {
    let kind = CredentialKind::Session;
    match args.command {
        SessionCommand::Create(args) => args.run(kind, None).await,
        SessionCommand::List(org) => credential::list(Some(kind), org).await,
        SessionCommand::Revoke(args) => args.run(Some(kind)).await,
    }
}

impl CreateArgs {
    async fn run(self, kind: CredentialKind, scope: Option<NewScope>) -> Result<(), Failure> {
        let new = NewCredential::builder()
            .kind(kind)
            .maybe_scope(scope)
            .member(self.member)
            .name(self.name)
            .lifetime(self.expires_in)
            .is_long_lived(self.long_lived);
        credential::create(&new.build(), self.org).await
    }
}

impl RevokeArgs {
    async fn run(self, kind: Option<CredentialKind>) -> Result<(), Failure> {
        credential::revoke(self.id, kind, self.with_created, self.org).await
    }
}

/// Returns the scope of the token; `None` if it is not limited.
fn scope(args: &TokenArgs) -> Option<NewScope> {
    let limit = NewScope::builder()
        .maybe_workspaces(some(&args.workspaces))
        .maybe_actions(some(&args.actions).map(|actions| actions.into_iter().collect()))
        .maybe_audience(some(&args.audience))
        .build();
    (limit != NewScope::default()).then_some(limit)
}

/// Returns the items of a flag, unless it is absent.
fn some<T: Clone>(items: &[T]) -> Option<Vec<T>> {
    (!items.is_empty()).then(|| items.to_vec())
}
