//! The command line `knowledge`.
//!
//! Results go to standard output; everything else (progress, notices, the log, errors) to standard
//! error. Exit codes: 0 for success, 1 for a failure, 2 for an invalid command line or
//! configuration.

mod args;
mod compact;
mod completions;
mod config;
mod confirm;
mod copy;
mod credential;
mod dashboard;
mod demo;
mod describe;
mod dump;
mod error_response;
mod failure;
mod healthcheck;
mod import;
mod init;
mod login_link;
mod mcp;
mod operator;
mod org;
mod org_move;
mod output;
mod rekey;
mod relabel;
mod restore;
mod serve;
mod settings;
mod source;
mod table;
mod token;
mod user;
mod verify;
mod webhook;
mod webhook_listen;
mod webhook_post;
mod workspace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
#[cfg(unix)]
use rustix::fs::Mode;

use self::failure::Failure;

/// Governed memory for AI assistants: access control, sensitivity labels and review
#[derive(Debug, Parser)]
#[command(name = "knowledge", version = env!("KNOWLEDGE_VERSION"), max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Serve(serve::Args),
    Init(init::Args),
    Org(org::Args),
    Workspace(workspace::Args),
    User(user::Args),
    Source(source::Args),
    Token(token::Args),
    Session(token::SessionArgs),
    LoginLink(login_link::Args),
    Webhook(webhook::Args),
    Relabel(relabel::Args),
    Import(import::Args),
    Mcp(mcp::Args),
    Dashboard(dashboard::Args),
    Dump(dump::Args),
    Restore(restore::Args),
    Verify(verify::Args),
    Compact(compact::Args),
    Rekey(rekey::Args),
    Copy(copy::Args),
    Config(config::Args),
    Healthcheck(healthcheck::Args),
    Completions(completions::Args),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    // Exits with 2 if the command line is invalid.
    let cli = Cli::parse();
    // New files are private to their owner: the store and its dumps contain plain text.
    #[cfg(unix)]
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        match command {
            Command::Demo(args) => demo::run(args).await,
            Command::Serve(args) => serve::run(args).await,
            Command::Init(args) => init::run(args).await,
            Command::Org(args) => org::run(args).await,
            Command::Workspace(args) => workspace::run(args).await,
            Command::User(args) => user::run(args).await,
            Command::Source(args) => source::run(args).await,
            Command::Token(args) => token::run(args).await,
            Command::Session(args) => token::run_session(args).await,
            Command::LoginLink(args) => login_link::run(args).await,
            Command::Webhook(args) => webhook::run(args).await,
            Command::Relabel(args) => relabel::run(args).await,
            Command::Import(args) => import::run(args).await,
            Command::Mcp(args) => mcp::run(args).await,
            Command::Dashboard(args) => dashboard::run(args).await,
            Command::Dump(args) => dump::run(args).await,
            Command::Restore(args) => restore::run(args).await,
            Command::Verify(args) => verify::run(args).await,
            Command::Compact(args) => compact::run(args).await,
            Command::Rekey(args) => rekey::run(args).await,
            Command::Copy(args) => copy::run(args).await,
            Command::Config(args) => config::run(args),
            Command::Healthcheck(args) => healthcheck::run(args).await,
            Command::Completions(args) => completions::run(&args, Cli::command()),
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
