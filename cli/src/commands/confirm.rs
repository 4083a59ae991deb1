//! Confirmation by the user before a command changes or deletes much.

use std::io::{self, BufRead, IsTerminal, Write};

use super::failure::Failure;

/// Asks a question, unless the user answered by `--yes`.
///
/// `instead` is what to do without a terminal.
pub(super) fn confirm(is_confirmed: bool, question: &str, instead: &str) -> Result<(), Failure> {
    if is_confirmed {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "cannot ask for confirmation without a terminal; {instead}"
        )));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    io::stderr().flush().ok();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new("nothing was changed")),
    }
}
