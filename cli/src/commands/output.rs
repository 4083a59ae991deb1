//! Output of results to standard output.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::args::OutputFormat;
use super::failure::Failure;
use super::table::{Cell, Fit, RenderOptions, Table};
use crate::terminal;

/// Writes a result. Control characters are escaped, except for colours if it may have them.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    write(&terminal::lines(text, has_colours()))
}

/// Writes to standard output. A closed pipe is no failure: its reader needs no more.
fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Writes a result as one line of JSON.
pub(super) fn print_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let line = serde_json::to_string(value)
        .map_err(|error| Failure::new(format!("cannot write as JSON: {error}")))?;
    write(&(terminal::json(&line) + "\n"))
}

impl OutputFormat {
    /// Writes a result as this text, or as one line of JSON.
    pub(super) fn print<T: Serialize>(self, text: &str, value: &T) -> Result<(), Failure> {
        match self {
            Self::Text => print(text),
            Self::Json => print_json(value),
        }
    }

    /// Writes a result as JSON; a notice has already told people of it.
    pub(super) fn print_if_json<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        self.print("", value)
    }

    /// Writes items as a table with these columns, or as one line of JSON.
    pub(super) fn print_list<T: Serialize, C: Into<Vec<Cell>>>(
        self,
        items: &[T],
        columns: &[(&str, Fit)],
        cells: impl Fn(&T) -> C,
    ) -> Result<(), Failure> {
        let mut table = Table::new(columns);
        for item in items {
            table.row(cells(item));
        }
        self.print(&table.draw(render_options()), &items)
    }
}

/// Returns the properties of standard output.
pub(super) fn render_options() -> RenderOptions {
    RenderOptions {
        width: width(),
        has_colours: has_colours(),
    }
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
fn width() -> usize {
    let terminal = console::Term::stdout();
    if !terminal.is_term() {
        return usize::MAX;
    }
    let size = terminal.size_checked();
    size.map_or(WIDTH_DEFAULT, |(_, columns)| usize::from(columns))
}
