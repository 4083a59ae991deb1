//! Table of the results of benchmarks, of which a run may measure only some rows.

/// First line of the table.
const HEADER: &str = "| row |";
/// Line before the names of the references.
const REFERENCES: &str = "References:";
/// Beginning of a section, which follows the references.
const SECTION: &str = "\n## ";

/// A text with a table of rows and a list of references, without the lines between them.
struct Results<'a> {
    before: Vec<&'a str>,
    rows: Vec<&'a str>,
    references: Vec<&'a str>,
}

impl<'a> Results<'a> {
    fn read(text: &'a str) -> Self {
        let mut lines = text.lines();
        let mut before: Vec<&str> = lines
            .by_ref()
            .take_while(|line| !line.starts_with(HEADER))
            .collect();
        // The header itself, which the iterator has consumed, and the line under it.
        before.extend(text.lines().skip(before.len()).take(2));
        let rows = lines.by_ref().skip(1).take_while(|line| !line.is_empty());
        Self {
            before,
            rows: rows.collect(),
            references: lines.filter(|line| line.starts_with("- ")).collect(),
        }
    }
}

/// Returns the text with the table, and the sections after it.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let end = text.find(SECTION).unwrap_or(text.len());
    text.split_at(end)
}

/// Returns the later text with the rows and references of the earlier one that it does not have.
///
/// Neither has sections.
pub(crate) fn merge(earlier: &str, later: &str) -> String {
    let (earlier, later) = (Results::read(earlier), Results::read(later));
    let mut lines = later.before;
    lines.extend(replace(&earlier.rows, &later.rows, row_name));
    lines.extend(["", REFERENCES, ""]);
    // A row can have several references, whose lines are the same in all runs.
    let references = replace(&earlier.references, &later.references, |line| line);
    lines.extend(references);
    lines.join("\n") + "\n"
}

/// Replaces each line by the later one of the same name, and appends the later ones that are new.
fn replace<'a>(
    earlier: &[&'a str],
    later: &[&'a str],
    name: impl Fn(&'a str) -> &'a str,
) -> Vec<&'a str> {
    let find = |lines: &[&'a str], wanted: &'a str| {
        let mut lines = lines.iter().copied();
        lines.find(|line| name(line) == name(wanted))
    };
    let kept = earlier.iter().map(|line| find(later, line).unwrap_or(line));
    let new = later.iter().filter(|line| find(earlier, line).is_none());
    kept.chain(new.copied()).collect()
}

/// Returns the name in a row, without the mark of a busy machine.
fn row_name(row: &str) -> &str {
    let name = row.split('|').nth(1).unwrap_or_default().trim();
    name.trim_end_matches(" *")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: &str = "\
# Results

Old notes.

| row | measured | date |
| --- | ---: | --- |
| bulk * | 9 ms | Monday |
| replay | 4 ms | Monday |

References:

- `bulk`: bare engine
- `replay`: bare warp
";
    const LATER: &str = "\
# Results

New notes.

| row | measured | date |
| --- | ---: | --- |
| bulk | 5 ms | Friday |
| wasm | 1 ms | Friday |

References:

- `bulk`: bare engine
- `wasm`: native service
";

    #[test]
    fn later_rows_replace_earlier_ones_of_their_name() {
        let merged = "\
# Results

New notes.

| row | measured | date |
| --- | ---: | --- |
| bulk | 5 ms | Friday |
| replay | 4 ms | Monday |
| wasm | 1 ms | Friday |

References:

- `bulk`: bare engine
- `replay`: bare warp
- `wasm`: native service
";
        assert_eq!(merge(EARLIER, LATER), merged);
    }

    #[test]
    fn results_merged_with_themselves_do_not_change() {
        assert_eq!(merge(LATER, LATER), LATER);
        let (recorded, sections) = split(include_str!("../../benches/RESULTS.md"));
        assert_eq!(merge(recorded, recorded), recorded);
        assert!(sections.starts_with("\n## Searches by words\n"));
    }
}
