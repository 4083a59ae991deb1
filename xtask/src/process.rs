//! Runs other programs.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::io::{BufRead, BufReader, IsTerminal, PipeReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

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
/// The command lacks the variables that describe this package: some build scripts would run again,
/// because a cargo that a user starts does not have the variables.
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

/// Marks of the lines about a failure in the output of the tools.
const FAILURE_MARKS: [&str; 6] = [
    "FAILED",
    "panicked at",
    "not ok ",
    "✖ ",
    "error: ",
    "error[",
];
/// Numbers of lines of a failed command that are repeated: about failures, and the last ones.
const FAILURE_LINES_MAX: usize = 40;
const LAST_LINES: usize = 60;

/// Prints a command and runs it, with its output passed through.
///
/// # Errors
/// If the command cannot be started or fails; the message contains it. Unless the output goes to a
/// terminal, where one can look back, the message repeats the lines about failures and the last ones.
pub(crate) fn run(command: &mut Command) -> Result {
    println!("$ {}", format_command(command));
    let (status, lines) = if std::io::stdout().is_terminal() {
        (command.status(), Vec::new())
    } else {
        let (reader, writer) = std::io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        let spawned = command.spawn();
        // The command holds the other end of the pipe.
        command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
        let lines = pass_through(reader);
        let status = spawned.and_then(|mut child| child.wait());
        (status, received(&lines))
    };
    let status =
        status.map_err(|error| format!("cannot start {}: {error}", format_command(command)))?;
    if status.success() {
        return Ok(());
    }
    Err(failure(&format_command(command), status, &lines).into())
}

/// Prints each line that is read, on a thread of its own, and sends it on.
fn pass_through(reader: PipeReader) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(reader)
            .split(b'\n')
            .map_while(std::result::Result::ok)
        {
            let mut stdout = std::io::stdout();
            let _ = stdout
                .write_all(&line)
                .and_then(|()| stdout.write_all(b"\n"));
            let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    lines
}

/// Returns the lines of a command that has ended. One that it left behind may hold the pipe open.
fn received(lines: &Receiver<String>) -> Vec<String> {
    std::iter::from_fn(|| lines.recv_timeout(Duration::from_secs(1)).ok()).collect()
}

/// Returns the message about a failed command.
fn failure(command: &str, status: ExitStatus, lines: &[String]) -> String {
    let (earlier, last) = lines.split_at(lines.len().saturating_sub(LAST_LINES));
    let marked = |line: &&String| FAILURE_MARKS.iter().any(|mark| line.contains(mark));
    let failures = earlier.iter().filter(marked).take(FAILURE_LINES_MAX);
    let mut message = format!("{command} failed with {status}");
    for line in failures.chain(last) {
        let _ = write!(message, "\n    {line}");
    }
    message
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

/// Fails with this problem unless a condition holds.
///
/// # Errors
/// The problem.
pub(crate) fn ensure(holds: bool, problem: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(problem().into()) }
}

/// Fails with all problems, if there are any.
///
/// # Errors
/// The problems, one a line.
pub(crate) fn none_of(problems: &[String]) -> Result {
    ensure(problems.is_empty(), || problems.join("\n"))
}

/// Returns the directory into which cargo compiles.
pub(crate) fn target_directory() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target.map_or_else(|| "target".into(), PathBuf::from)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_repeats_lines_about_failures_and_the_last_ones() {
        let mut script = Command::new("sh");
        script.args([
            "-c",
            "for n in $(seq 50); do echo \"test errors::$n ... ok\"; done; echo 'test a ... \
             FAILED'; seq 70; echo last >&2; exit 3",
        ]);
        let message = run(&mut script).unwrap_err().to_string();
        let lines: Vec<_> = message.lines().map(str::trim).collect();
        assert!(
            lines[0].ends_with("failed with exit status: 3"),
            "{message}"
        );
        let mut expected = vec!["test a ... FAILED".to_owned()];
        expected.extend((12..=70).map(|number| number.to_string()));
        expected.push("last".to_owned());
        assert_eq!(lines[1..], expected);
    }

    #[test]
    fn process_left_behind_holds_nothing_up() {
        let mut script = Command::new("sh");
        run(script.args(["-c", "sleep 5 & echo done"])).unwrap();
    }
}
