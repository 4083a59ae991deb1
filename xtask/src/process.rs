//! Running other programs.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A result whose error is a message for the person who called.
pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The cargo that runs this program, with the same toolchain.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Shows the command, then runs it with its output passed through.
///
/// # Errors
/// Names the command where it cannot be started or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result {
    println!("$ {}", shown(command));
    let status = command
        .status()
        .map_err(|error| format!("cannot start {}: {error}", shown(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", shown(command)).into())
    }
}

/// Runs the command and gives what it wrote to its standard output, without the white space around it.
///
/// # Errors
/// As [`run`]; also where the output is not UTF-8.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", shown(command)))?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", shown(command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Whether the command can be started and succeeds; what it writes is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Where `program` stands on the search path, if it does.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let mut text = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let _ = write!(text, "{}={} ", name.display(), quoted(value));
        }
    }
    // A person types `cargo`, not the path of the toolchain's own.
    let program = Path::new(command.get_program());
    text.push_str(&quoted(program.file_name().unwrap_or(program.as_os_str())));
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&quoted(argument));
    }
    text
}

fn quoted(text: &OsStr) -> String {
    let text = text.to_string_lossy().replace('\u{1f}', " ");
    if text.is_empty() || text.contains([' ', '*', '"', '$', '\\']) {
        format!("'{text}'")
    } else {
        text
    }
}
