//! Documentation, and comparison of the public API of the libraries with recorded ones.
//!
//! rustdoc writes JSON instead of pages: it finds the same problems, and the public API is derived
//! from the JSON without another compilation.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::{Result, Skipped, ci_cargo, none_of, read, run, target_directory};
use crate::programs::{CONVERSATION, workspace_cargo};

/// Manifest of the program that prints a public API, which is a workspace of its own.
pub(crate) const MANIFEST: &str = "xtask/public-api/Cargo.toml";
/// rustdoc with unstable options, which the JSON needs.
const RUSTDOC: &str = "xtask/rustdoc-json.sh";
/// Libraries whose public API is recorded: the name of their JSON, and the record.
const LIBRARIES: [(&str, &str); 2] = [
    ("knowledge_core", "core/public-api.txt"),
    ("knowledge_store", "store/public-api.txt"),
];
/// Variable that makes the step write the records instead.
const UPDATE: &str = "UPDATE_PUBLIC_API";
/// Number of different lines that a message shows.
const LINES_MAX: usize = 40;

/// Documents the workspace, and compares the public API of the libraries with the records.
///
/// # Errors
/// If rustdoc warns, or an API differs; the message shows the difference and how to accept it.
/// [`Skipped`] if a record was made with another compiler, whose rustdoc may write another form.
pub(crate) fn check() -> Result {
    // With an example, cargo enables the features that the tests need, as the other steps do.
    run(workspace_cargo("doc")
        .args(["--no-deps", "--lib", "--bins", "--example", CONVERSATION])
        .env("RUSTDOC", Path::new(RUSTDOC).canonicalize()?)
        .env(
            "RUSTDOCFLAGS",
            "-D warnings -Z unstable-options --output-format json",
        ))?;
    let target = target_directory();
    let compiler = read(Command::new("rustc").arg("--version"))?;
    let program = |subcommand| {
        let mut cargo = ci_cargo(subcommand);
        cargo
            .args(["--quiet", "--manifest-path", MANIFEST])
            .env("CARGO_TARGET_DIR", &target);
        cargo
    };
    run(&mut program("test"))?;
    let mut problems = Vec::new();
    for (library, record) in LIBRARIES {
        let json = target.join(format!("doc/{library}.json"));
        let api = read(program("run").arg(json))?;
        let api = format!("{compiler}\n{api}\n");
        if std::env::var_os(UPDATE).is_some() {
            fs::write(record, api)?;
            continue;
        }
        let recorded = fs::read_to_string(record)?;
        match recorded.lines().next() {
            Some(theirs) if theirs == compiler => problems.extend(compare(record, &recorded, &api)),
            theirs => {
                let theirs = theirs.unwrap_or("no compiler");
                let reason = format!("{record} is of {theirs}, this is {compiler}");
                return Err(Skipped(reason).into());
            }
        }
    }
    none_of(&problems)
}

/// Returns the difference of a public API from its record, and how to accept it, if there is one.
fn compare(record: &str, recorded: &str, api: &str) -> Option<String> {
    if recorded == api {
        return None;
    }
    let [before, now] = [recorded, api].map(|text| text.lines().collect::<BTreeSet<_>>());
    let removed = before.difference(&now).map(|line| format!("    -{line}"));
    let added = now.difference(&before).map(|line| format!("    +{line}"));
    let lines: Vec<String> = removed.chain(added).collect();
    let mut text = format!(
        "the public API differs from {record}; if that is meant, run {UPDATE}=1 cargo xtask ci \
         --only doc, and name the change in CHANGELOG.md"
    );
    for line in lines.iter().take(LINES_MAX) {
        text.push('\n');
        text.push_str(line);
    }
    if lines.len() > LINES_MAX {
        text.push_str(&format!("\n    and {} more", lines.len() - LINES_MAX));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn difference_names_removed_and_added_items() {
        let record = "rustc 1\npub fn a()\npub fn b()\n";
        assert_eq!(compare("api.txt", record, record), None);
        let text = compare("api.txt", record, "rustc 1\npub fn a()\npub fn c()\n").unwrap();
        assert!(text.contains("UPDATE_PUBLIC_API=1"), "{text}");
        let lines: Vec<_> = text.lines().skip(1).map(str::trim).collect();
        assert_eq!(lines, ["-pub fn b()", "+pub fn c()"]);
    }

    #[test]
    fn long_difference_is_cut() {
        let lines = (0..50).map(|number| format!("pub fn f{number}()\n"));
        let text = compare("api.txt", "rustc 1\n", &lines.collect::<String>()).unwrap();
        assert!(text.ends_with("and 11 more"), "{text}");
    }
}
