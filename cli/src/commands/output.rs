//! Output of results to standard output.

use std::io::{self, IsTerminal, Write};

use super::failure::Failure;
use super::table::{RenderOptions, Table};

/// Writes a result. A closed pipe is no failure: its reader needs no more.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Writes a result as one line of JSON.
pub(super) fn print_json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let mut line = serde_json::to_string(value)
        .map_err(|error| Failure::new(format!("cannot write as JSON: {error}")))?;
    line.push('\n');
    print(&line)
}

/// Writes a table.
pub(super) fn draw(table: &Table) -> Result<(), Failure> {
    let options = RenderOptions {
        width: width(),
        has_colours: has_colours(),
    };
    print(&table.draw(options))
}

/// True if standard output may be coloured.
///
/// It is a terminal that supports colours, and `NO_COLOR` is unset or empty
/// (<https://no-color.org>).
pub(super) fn has_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !is_dumb && !is_set("NO_COLOR")
}

/// Width in columns of a terminal that does not report its own.
const WIDTH_DEFAULT: usize = 80;

/// Returns the width of the terminal in columns; unlimited if standard output is no terminal.
pub(super) fn width() -> usize {
    let terminal = console::Term::stdout();
    if !terminal.is_term() {
        return usize::MAX;
    }
    let size = terminal.size_checked();
    size.map_or(WIDTH_DEFAULT, |(_, columns)| usize::from(columns))
}
