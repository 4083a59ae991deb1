//! Tests of the operations manual.
//!
//! `UPDATE_REFERENCE=1 cargo test -p knowledge-cli --test observe documents` rewrites its table.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use knowledge_server::metrics::{CATALOGUE, Kind};
use regex::Regex;

const BEGIN: &str = "<!-- table metrics -->\n";
const END: &str = "<!-- end -->";

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md")
}

fn manual() -> String {
    std::fs::read_to_string(path()).expect("the manual")
}

fn table() -> String {
    let mut table =
        String::from("| metric | kind | labels | what it is |\n| --- | --- | --- | --- |\n");
    for metric in CATALOGUE {
        let labels: Vec<_> = metric
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let (name, kind, labels) = (metric.name, metric.kind.name(), labels.join(", "));
        let _ = writeln!(table, "| `{name}` | {kind} | {labels} | {} |", metric.help);
    }
    table
}

#[test]
fn manual_lists_every_metric() {
    let manual = manual();
    let (before, rest) = manual.split_once(BEGIN).expect("a table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let expected = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(path(), expected).expect("write the manual");
    } else {
        assert!(
            manual == expected,
            "UPDATE_REFERENCE=1 writes the table anew"
        );
    }
}

#[test]
fn manual_names_only_existing_metrics() {
    let manual = manual();
    let names = Regex::new(r"\b(knowledge|process)_[a-z_]+\b").expect("a pattern");
    let mut found = 0;
    for name in names.find_iter(&manual).map(|name| name.as_str()) {
        // The target of log lines.
        if name == "knowledge_server" {
            continue;
        }
        let is_listed = CATALOGUE.iter().any(|metric| {
            let is_part = metric.kind == Kind::Histogram
                && name
                    .strip_prefix(metric.name)
                    .is_some_and(|suffix| suffix == "_bucket");
            metric.name == name || is_part
        });
        assert!(is_listed, "{name}");
        found += 1;
    }
    assert!(found > CATALOGUE.len(), "the alerts name some again");
}

#[test]
fn manual_names_only_existing_settings() {
    let shown = Command::new(env!("CARGO_BIN_EXE_knowledge"))
        .args(["config", "show", "--output", "toml"])
        .output()
        .expect("run the binary");
    let shown = String::from_utf8(shown.stdout).expect("UTF-8");
    let mut settings = Vec::new();
    let mut section = "";
    for line in shown.lines() {
        let line = line.trim_start_matches('#').trim();
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = name;
        } else if let Some((name, _)) = line.split_once(" = ") {
            settings.push(format!("{section}.{name}"));
        }
    }
    let manual = manual();
    let named = Regex::new(r"`((server|storage|limits|log|metrics|telemetry)\.[a-z_]+)`");
    let mut found = 0;
    for setting in named.expect("a pattern").captures_iter(&manual) {
        assert!(settings.contains(&setting[1].to_owned()), "{}", &setting[1]);
        found += 1;
    }
    assert!(found > 10, "{found}");
}
