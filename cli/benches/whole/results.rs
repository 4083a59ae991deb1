//! The results as a file for programs and as a table.

use std::fmt::Write as _;
use std::path::Path;
use std::time::SystemTime;

use crate::machine;
use crate::report::{self, Row, number};

/// File with the rows of all benchmarks.
const SUMMARY: &str = "summary.json";
/// File with the rows of the benchmark of deliveries, if it ran before.
const DELIVERIES: &str = "deliveries.json";

const NOTES: &str = "\
Every figure is the median of its rounds, and the ratio is the median of the ratios of the rounds:
measurements of the server and of its reference alternate, on the same machine. CPU is the
processor time of the server per request (memory, delivery, start), that of the reference in
brackets. The load program runs on the same machine: rates contain its work, CPU does not.
Machines differ; only ratios can be compared between runs. A row stands until a run measures it
again, on the date in its last column. Rows marked with * were measured while other programs used
the machine.

The server is `knowledge serve` of the profile `dist`, with a store in a directory, durable commits
and no rate limit. The reference is a process with a copy of the store: warp sends the recorded
bytes of the same responses, and the bare engine, with the settings of the store, reads or writes
the recorded keys and values of the same operations. Loading batches ends in one sync; all other
writes are synced before they count. The reference of the rows `peers` is another service, of Fastify
and PostgreSQL with the same data; `peers/README.md` describes it. Rows that end with PostgreSQL are
those of a server on that PostgreSQL. CPU includes the processes of PostgreSQL.

The rows `start`, `scale` and `roles` compare a store or a role of the size that they name with one
of 1,000. The service fills them. The largest of sled have a tenth of what those of fjall have,
because it takes ten times the disk for a memory.

The rows with WebAssembly are those of the npm package in Node.js, without a server. The package and
its reference, the native service, have a store in memory with 20,000 memories; each round of them
is the median of its calls.
";

/// Writes the rows, and the table if it has a file.
pub(crate) fn write(directory: &Path, table: Option<&Path>, mut rows: Vec<Row>) {
    if let Ok(json) = std::fs::read(directory.join(DELIVERIES)) {
        let deliveries: Vec<Row> = serde_json::from_slice(&json).expect("rows");
        rows.extend(deliveries);
    }
    report::write(&directory.join(SUMMARY), &rows);
    if let Some(path) = table {
        std::fs::write(path, format(&rows)).expect("the file can be written");
    }
}

fn format(rows: &[Row]) -> String {
    let today = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let date = today.split('T').next().unwrap_or_default();
    let mut text = format!(
        "# Results\n\nBy `cargo xtask bench`, at last on {}.\n\n{NOTES}\n",
        machine::description()
    );
    text.push_str(
        "| row | measured | reference | ratio | target | holds | per second | CPU, µs | date |\n",
    );
    text.push_str("| --- | ---: | ---: | ---: | --- | --- | ---: | ---: | --- |\n");
    for row in rows {
        let star = if row.idle { "" } else { " *" };
        let cpu = match row.reference_cpu_us {
            Some(_) => format!("{} ({})", number(row.cpu_us), number(row.reference_cpu_us)),
            None => number(row.cpu_us),
        };
        let _ = writeln!(
            text,
            "| {}{star} | {} {} | {} | {} | {} | {} | {} | {cpu} | {date} |",
            row.name,
            number(row.value),
            row.unit,
            number(row.reference),
            number(row.ratio),
            row.target,
            if row.holds { "yes" } else { "no" },
            number(row.per_second),
        );
    }
    text.push_str("\nReferences:\n\n");
    let mut named: Vec<(&str, &str)> = Vec::new();
    for row in rows.iter().filter(|row| !row.reference_name.is_empty()) {
        let reference = (&*row.row, &*row.reference_name);
        if !named.contains(&reference) {
            named.push(reference);
        }
    }
    for (row, reference) in named {
        let _ = writeln!(text, "- `{row}`: {reference}");
    }
    text
}
