//! Writing results to standard output.

use std::io::{self, IsTerminal, Write};

use super::failure::Failure;
use super::table::{Look, Table};

/// Writes a result. A reader that has gone away wanted no more of it: that is no failure.
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
    let look = Look {
        width: width(),
        has_colours: has_colours(),
    };
    print(&table.draw(look))
}

/// Whether what is written to standard output may have colours: on a terminal that knows them, unless `NO_COLOR` is
/// set to something (<https://no-color.org>).
pub(super) fn has_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !is_dumb && !is_set("NO_COLOR")
}

/// The width of a terminal that does not tell, in columns.
const WIDTH_DEFAULT: usize = 80;

/// The width of what is written to standard output, in columns: that of the terminal, and without one as wide as the
/// text is.
pub(super) fn width() -> usize {
    let terminal = console::Term::stdout();
    if !terminal.is_term() {
        return usize::MAX;
    }
    let size = terminal.size_checked();
    size.map_or(WIDTH_DEFAULT, |(_, columns)| usize::from(columns))
}
