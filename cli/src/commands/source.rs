//! `knowledge source`: the sources of an organisation's memories.

use clap::Subcommand;
use knowledge_core::model::Source;

use super::args::OutputFormat;
use super::failure::Failure;
use super::operator::OrgArgs;
use super::output::{draw, print_json};
use super::table::{Cell, Fit, Table};

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
    List(ListArgs),
}

/// List the sources of an organisation
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    org: OrgArgs,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let Command::List(args) = args.command;
    let operator = args.org.open().await?;
    let sources: Vec<Source> = operator.list("sources", &[]).await?;
    if args.output == OutputFormat::Json {
        return print_json(&sources);
    }
    let mut table = Table::new(&[
        ("NAME", Fit::Cut),
        ("KIND", Fit::Cut),
        ("ID", Fit::Whole),
        ("CREATED", Fit::Optional),
    ]);
    for source in &sources {
        table.row([
            Cell::new(&source.name),
            Cell::new(&source.kind),
            Cell::new(source.id.to_string()),
            Cell::new(source.created_at.to_string()),
        ]);
    }
    draw(&table)
}
