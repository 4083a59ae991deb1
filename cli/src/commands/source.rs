//! `knowledge source`: the sources of an organisation's memories.

use clap::Subcommand;
use knowledge_core::model::Source;

use super::args::WithOutput;
use super::failure::Failure;
use super::operator::OrgArgs;
use super::table::{Cell, Fit};

/// List the sources of memories
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
    /// List the sources of an organisation
    List(WithOutput<OrgArgs>),
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let Command::List(org) = args.command;
    let (operator, output) = org.open().await?;
    let sources: Vec<Source> = operator.list("sources", &[]).await?;
    let columns = [
        ("NAME", Fit::Cut),
        ("KIND", Fit::Cut),
        ("ID", Fit::Whole),
        ("CREATED", Fit::Optional),
    ];
    output.print_list(&sources, &columns, |source| {
        [
            Cell::new(&source.name),
            Cell::new(&source.kind),
            Cell::new(source.id.to_string()),
            Cell::new(source.created_at.to_string()),
        ]
    })
}
