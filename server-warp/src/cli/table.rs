//! Tables for a terminal: aligned columns, cut to a width.

use std::borrow::Cow;

use console::{Alignment, Style, measure_text_width, pad_str, truncate_str};

/// Blanks between two columns.
const GAP: &str = "  ";
/// Blanks before a line.
const INDENT: &str = "  ";
/// No column is cut to less than this many columns of the terminal.
const COLUMN_WIDTH_MIN: usize = 6;

/// Where a table is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// The width in columns of the terminal.
    pub(super) width: usize,
    pub(super) has_colours: bool,
}

impl Look {
    pub(super) fn style(self, style: Style) -> Style {
        style.force_styling(self.has_colours)
    }

    /// A line, cut to the width.
    pub(super) fn line(self, text: &str) -> String {
        let cut = truncate_str(text, self.width, "…");
        format!("{}\n", cut.trim_end())
    }
}

/// A text in a table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A text that may come from anywhere: what could steer the terminal is taken out of it.
    pub(super) fn new(text: impl AsRef<str>) -> Self {
        Self {
            text: plain(text.as_ref()).into_owned(),
            style: Style::new(),
        }
    }

    pub(super) fn styled(mut self, style: Style) -> Self {
        self.style = style;
        self
    }
}

/// The text without control characters.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        Cow::Owned(text.replace(char::is_control, " "))
    } else {
        Cow::Borrowed(text)
    }
}

/// Rows under a header.
#[derive(Debug)]
pub(super) struct Table {
    header: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(Cell::new).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    /// The table as lines. Where it is too wide, its widest columns are cut first.
    pub(super) fn draw(&self, look: Look) -> String {
        let widths = self.widths(look.width);
        let faint = look.style(Style::new().dim());
        let header = line(&self.header, &widths, |cell, text| {
            let _ = cell;
            faint.apply_to(text).to_string()
        });
        let rows = self.rows.iter().map(|row| {
            line(row, &widths, |cell, text| {
                look.style(cell.style.clone()).apply_to(text).to_string()
            })
        });
        std::iter::once(header)
            .chain(rows)
            .map(|text| look.line(&text))
            .collect()
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let of_column = |column: usize| {
            let cells = self.rows.iter().chain([&self.header]);
            cells
                .filter_map(|row| row.get(column))
                .map(|cell| measure_text_width(&cell.text))
                .max()
                .unwrap_or(0)
        };
        let mut widths: Vec<_> = (0..self.header.len()).map(of_column).collect();
        let around = INDENT.len() + GAP.len() * widths.len().saturating_sub(1);
        let room = width.saturating_sub(around);
        while widths.iter().sum::<usize>() > room {
            match widths.iter_mut().max() {
                Some(widest) if *widest > COLUMN_WIDTH_MIN => *widest -= 1,
                _ => break,
            }
        }
        widths
    }
}

fn line(cells: &[Cell], widths: &[usize], paint: impl Fn(&Cell, &str) -> String) -> String {
    let mut line = INDENT.to_owned();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if index > 0 {
            line.push_str(GAP);
        }
        // The last column needs no blanks behind it.
        let text = if index + 1 == cells.len() {
            truncate_str(&cell.text, *width, "…")
        } else {
            pad_str(&cell.text, *width, Alignment::Left, Some("…"))
        };
        line.push_str(&paint(cell, &text));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "WHAT IT SAYS"]);
        table.row([Cell::new("short"), Cell::new("ü".repeat(30))]);
        table.row([
            Cell::new("\u{1b}[31mred\nline").styled(Style::new().red()),
            Cell::new("plain"),
        ]);
        table
    }

    #[test]
    fn columns_are_aligned_and_nothing_steers_the_terminal() {
        let look = Look {
            width: usize::MAX,
            has_colours: false,
        };
        insta::assert_snapshot!(table().draw(look), @r"
          NAME           WHAT IT SAYS
          short          üüüüüüüüüüüüüüüüüüüüüüüüüüüüüü
           [31mred line  plain
        ");
    }

    #[test]
    fn the_widest_column_is_cut_first() {
        let look = Look {
            width: 30,
            has_colours: true,
        };
        let drawn = table().draw(look);
        for line in drawn.lines() {
            assert!(measure_text_width(line) <= 30, "{line}");
        }
        assert!(drawn.contains('…'));
        assert!(drawn.contains("\u{1b}[31m"));
    }
}
