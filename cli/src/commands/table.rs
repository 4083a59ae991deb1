//! Tables for a terminal: aligned columns, truncated to a width.

use console::{Alignment, Style, measure_text_width, pad_str, truncate_str};

pub(super) use crate::terminal::plain;

/// Separator of columns.
const GAP: &str = "  ";
/// Indentation of a line.
const INDENT: &str = "  ";
/// Minimum width of a truncated column, in terminal columns.
const COLUMN_WIDTH_MIN: usize = 10;

/// Handling of a column in a table that is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Never truncated.
    Whole,
    /// Omitted, the last one first.
    Optional,
    /// Truncated.
    Cut,
}

/// Properties of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenderOptions {
    /// Width in terminal columns.
    pub(super) width: usize,
    pub(super) has_colours: bool,
}

impl RenderOptions {
    pub(super) fn style(self, style: Style) -> Style {
        style.force_styling(self.has_colours)
    }

    /// Returns a line truncated to the width.
    pub(super) fn line(self, text: &str) -> String {
        let cut = truncate_str(text, self.width, "…");
        format!("{}\n", cut.trim_end())
    }
}

/// Text of a table cell.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// Creates a cell from untrusted text: control characters are escaped.
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

/// A header and rows.
#[derive(Debug)]
pub(super) struct Table {
    header: Vec<Cell>,
    fits: Vec<Fit>,
    rows: Vec<Vec<Cell>>,
}

/// A visible column.
struct Column {
    index: usize,
    width: usize,
    fit: Fit,
}

impl Column {
    /// Returns the minimum width.
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

    /// Renders the table as lines that fit into the width.
    pub(super) fn draw(&self, options: RenderOptions) -> String {
        let columns = self.columns(options.width);
        let faint = options.style(Style::new().dim());
        let header = line(&self.header, &columns, |_, text| {
            faint.apply_to(text).to_string()
        });
        let rows = self.rows.iter().map(|row| {
            line(row, &columns, |cell, text| {
                options.style(cell.style.clone()).apply_to(text).to_string()
            })
        });
        std::iter::once(header)
            .chain(rows)
            .map(|text| options.line(&text))
            .collect()
    }

    /// Returns the visible columns and their widths.
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
        // The last column needs no padding.
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
    fn table_aligns_columns_and_escapes_control_characters() {
        let options = RenderOptions {
            width: usize::MAX,
            has_colours: false,
        };
        insta::assert_snapshot!(table().draw(options), @r#"
        NAME                MORE  WHAT IT SAYS
        short               -     üüüüüüüüüüüüüüüüüüüüüüüüüüüüüü
        \u{1b}[31mred line  -     plain
        "#);
    }

    #[test]
    fn table_cuts_or_drops_columns_that_do_not_fit() {
        for (width, has_more) in [(60, true), (45, true), (40, true), (30, false), (12, false)] {
            let options = RenderOptions {
                width,
                has_colours: true,
            };
            let drawn = table().draw(options);
            for line in drawn.lines() {
                assert!(measure_text_width(line) <= width, "{line}");
            }
            assert_eq!(drawn.contains("MORE"), has_more, "{drawn}");
            assert_eq!(drawn.contains('…'), width < 60, "{drawn}");
            assert!(drawn.contains("\u{1b}[31m"));
        }
    }
}
