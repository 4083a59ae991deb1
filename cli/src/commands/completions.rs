//! `knowledge completions`: completion scripts for shells.

use clap_complete::{Shell, generate};

use super::failure::Failure;
use super::output::print;

/// Print the completion script of a shell
///
/// For bash, for example: knowledge completions bash >
/// ~/.local/share/bash-completion/completions/knowledge
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Shell
    shell: Shell,
}

pub(super) fn run(args: &Args, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut command, "knowledge", &mut script);
    let script = String::from_utf8(script)
        .map_err(|error| Failure::new(format!("cannot write the completions: {error}")))?;
    print(&script)
}
