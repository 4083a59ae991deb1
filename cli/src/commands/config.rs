//! `knowledge config`: inspection of the configuration.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::describe;
use super::failure::Failure;
use super::output::{has_colours, print, print_json};
use super::settings::ServerArgs;

/// Show and check the configuration of the server
///
/// A setting is taken from the first of these sources that has it: a flag, an environment variable
/// KNOWLEDGE_SECTION__NAME, the file, the default.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(ShowArgs),
    Check(CheckArgs),
    /// Print an example configuration file that describes every setting, all commented out
    Example,
}

/// Show every setting with its value, unit, source and description
#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    output: Format,

    #[command(flatten)]
    settings: ServerArgs,
}

/// Output format of the settings.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Human-readable text
    Text,
    /// JSON
    Json,
    /// A configuration file with the same effect
    Toml,
}

/// Check the configuration and list every problem
///
/// Checks the values and the files that they name, without changing anything. One line confirms a
/// valid configuration; otherwise the exit code is 2.
#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// Configuration file, like --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,

    #[command(flatten)]
    settings: ServerArgs,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Show(args) => show(args),
        Command::Check(args) => check(args),
        Command::Example => print(&describe::example()),
    }
}

fn show(args: ShowArgs) -> Result<(), Failure> {
    let loaded = args.settings.load()?;
    match args.output {
        Format::Text => print(&describe::show_text(&loaded, has_colours())),
        Format::Json => print_json(&describe::show_json(&loaded)),
        Format::Toml => print(&describe::show_toml(&loaded)),
    }
}

fn check(args: CheckArgs) -> Result<(), Failure> {
    let sources = args.settings.with_file(args.file).sources();
    sources.check()?;
    print("the configuration is valid\n")
}
