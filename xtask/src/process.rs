//! Runs other programs.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A result whose error is a message for the user.
pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Reason for which a step did not check anything, or not everything.
#[derive(Debug)]
pub(crate) struct Skipped(pub(crate) String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Skipped {}

/// Returns a command of the cargo that runs this program, with the same toolchain.
///
/// It does not get the variables that describe this package: some build scripts run again if they
/// differ from those of a cargo that a user starts.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let of_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if of_package {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Returns a program with its environment, without arguments, to run with the lowest priority.
pub(crate) fn low_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}

/// Returns a cargo command for a single build with the committed lock file.
pub(crate) fn ci_cargo(subcommand: &str) -> Command {
    let mut cargo = cargo();
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo.args([subcommand, "--locked"]);
    cargo
}

/// Prints a command and runs it, with its output passed through.
///
/// # Errors
/// If the command cannot be started or fails; the message contains it.
pub(crate) fn run(command: &mut Command) -> Result {
    println!("$ {}", format_command(command));
    let status = command
        .status()
        .map_err(|error| format!("cannot start {}: {error}", format_command(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} failed with {status}", format_command(command)).into())
    }
}

/// Runs a command and returns its trimmed standard output.
///
/// # Errors
/// Errors of [`run`]; also if the output is not UTF-8.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", format_command(command)))?;
    if !output.status.success() {
        return Err(format!("{} failed with {}", format_command(command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Runs a command silently and returns true if it succeeds.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns the path of a program on the search path.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// Formats a command as a user would type it.
pub(crate) fn format_command(command: &Command) -> String {
    let mut text = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let _ = write!(text, "{}={} ", name.display(), quote(value));
        }
    }
    // Users type `cargo`, not the path in the toolchain.
    let program = Path::new(command.get_program());
    text.push_str(&quote(program.file_name().unwrap_or(program.as_os_str())));
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&quote(argument));
    }
    text
}

fn quote(text: &OsStr) -> String {
    let text = text.to_string_lossy().replace('\u{1f}', " ");
    if text.is_empty() || text.contains([' ', '*', '"', '$', '\\']) {
        format!("'{text}'")
    } else {
        text
    }
}
