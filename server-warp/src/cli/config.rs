//! `knowledge config`: what the server is told, and whether that is right.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::failure::Failure;
use super::output::{has_colours, print, print_json};
use super::settings::ServerArgs;
use crate::config;

/// Show and check the configuration of the server
///
/// A value comes from the first of these that has one: a flag, an environment variable KNOWLEDGE_SECTION__NAME, the
/// file, the default.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(ShowArgs),
    Check(CheckArgs),
    /// Print a configuration file that explains every setting, all commented out
    Example,
}

/// Show every setting: its value, its unit, where the value came from, and what it means
#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// What the settings look like
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    output: Format,

    #[command(flatten)]
    settings: ServerArgs,
}

/// What the settings look like.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// A file that makes the same configuration
    Toml,
}

/// Tell everything that is wrong with the configuration, and nothing where nothing is
///
/// Checked are the values, and what they name on the disk. Nothing is changed. The exit code is 2 where something is
/// wrong.
#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// The configuration file, as with --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,

    #[command(flatten)]
    settings: ServerArgs,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Show(args) => show(args),
        Command::Check(args) => check(args),
        Command::Example => print(&config::example()),
    }
}

fn show(args: ShowArgs) -> Result<(), Failure> {
    let loaded = args.settings.load()?;
    match args.output {
        Format::Text => print(&config::show_text(&loaded, has_colours())),
        Format::Json => print_json(&config::show_json(&loaded)),
        Format::Toml => print(&config::show_toml(&loaded)),
    }
}

fn check(args: CheckArgs) -> Result<(), Failure> {
    let loaded = args.settings.with_file(args.file).load()?;
    Ok(loaded.inspect()?)
}
