//! Tables for a terminal: aligned columns, cut to a width.

use std::borrow::Cow;

use console::{Alignment, Style, measure_text_width, pad_str, truncate_str};

/// Blanks between two columns.
const GAP: &str = "  ";
/// Blanks before a line.
const INDENT: &str = "  ";
/// No column is cut to less than this many columns of the terminal.
const COLUMN_WIDTH_MIN: usize = 10;

/// What becomes of a column where the table is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It stays as it is.
    Whole,
    /// It is left out, the last one first.
    Optional,
    /// It is cut.
    Cut,
}

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
    fits: Vec<Fit>,
    rows: Vec<Vec<Cell>>,
}

/// A column that is drawn.
struct Column {
    index: usize,
    width: usize,
    fit: Fit,
}

impl Column {
    /// The width that it cannot do without.
    fn least(&self) -> usize {
        match self.fit {
            Fit::Cut => self.width.min(COLUMN_WIDTH_MIN),
            Fit::Whole | Fit::Optional => self.width,
        }
    }
}

impl Table {
    pub(super) fn new(columns: &[(&str, Fit)]) -> Self {
        Self {
            header: columns.iter().map(|(name, _)| Cell::new(name)).collect(),
            fits: columns.iter().map(|(_, fit)| *fit).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    /// The table as lines that fit into the width.
    pub(super) fn draw(&self, look: Look) -> String {
        let columns = self.columns(look.width);
        let faint = look.style(Style::new().dim());
        let header = line(&self.header, &columns, |_, text| {
            faint.apply_to(text).to_string()
        });
        let rows = self.rows.iter().map(|row| {
            line(row, &columns, |cell, text| {
                look.style(cell.style.clone()).apply_to(text).to_string()
            })
        });
        std::iter::once(header)
            .chain(rows)
            .map(|text| look.line(&text))
            .collect()
    }

    /// The columns that are drawn, and how wide they are.
    fn columns(&self, width: usize) -> Vec<Column> {
        let columns = self.fits.iter().enumerate().map(|(index, fit)| Column {
            index,
            width: self.width_of(index),
            fit: *fit,
        });
        let mut columns: Vec<_> = columns.collect();
        let room = |columns: &[Column]| {
            let around = INDENT.len() + GAP.len() * columns.len().saturating_sub(1);
            width.saturating_sub(around)
        };
        while columns.iter().map(Column::least).sum::<usize>() > room(&columns) {
            let optional = columns
                .iter()
                .rposition(|column| column.fit == Fit::Optional);
            let Some(last) = optional else { break };
            columns.remove(last);
        }
        let room = room(&columns);
        while columns.iter().map(|column| column.width).sum::<usize>() > room {
            let can_be_cut = |column: &&mut Column| column.width > column.least();
            let mut cut = columns.iter_mut().filter(can_be_cut).collect::<Vec<_>>();
            match cut.iter_mut().max_by_key(|column| column.width) {
                Some(widest) => widest.width -= 1,
                None => break,
            }
        }
        columns
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().chain([&self.header]);
        let widths = cells
            .filter_map(|row| row.get(column))
            .map(|cell| measure_text_width(&cell.text));
        widths.max().unwrap_or(0)
    }
}

fn line(cells: &[Cell], columns: &[Column], paint: impl Fn(&Cell, &str) -> String) -> String {
    let mut line = INDENT.to_owned();
    for (place, column) in columns.iter().enumerate() {
        let cell = &cells[column.index];
        // The last column needs no blanks behind it.
        let text = if place + 1 == columns.len() {
            truncate_str(&cell.text, column.width, "…")
        } else {
            pad_str(&cell.text, column.width, Alignment::Left, Some("…"))
        };
        if place > 0 {
            line.push_str(GAP);
        }
        line.push_str(&paint(cell, &text));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[
            ("NAME", Fit::Whole),
            ("MORE", Fit::Optional),
            ("WHAT IT SAYS", Fit::Cut),
        ]);
        table.row([
            Cell::new("short"),
            Cell::new("-"),
            Cell::new("ü".repeat(30)),
        ]);
        table.row([
            Cell::new("\u{1b}[31mred\nline").styled(Style::new().red()),
            Cell::new("-"),
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
        insta::assert_snapshot!(table().draw(look), @r#"
        NAME           MORE  WHAT IT SAYS
        short          -     üüüüüüüüüüüüüüüüüüüüüüüüüüüüüü
         [31mred line  -     plain
        "#);
    }

    #[test]
    fn what_does_not_fit_is_cut_or_left_out() {
        for (width, has_more) in [(60, true), (45, true), (40, true), (30, false), (12, false)] {
            let look = Look {
                width,
                has_colours: true,
            };
            let drawn = table().draw(look);
            for line in drawn.lines() {
                assert!(measure_text_width(line) <= width, "{line}");
            }
            assert_eq!(drawn.contains("MORE"), has_more, "{drawn}");
            assert_eq!(drawn.contains('…'), width < 60, "{drawn}");
            assert!(drawn.contains("\u{1b}[31m"));
        }
    }
}
