//! Check that the crates can be published. Nothing is compiled or sent.

use std::fs;
use std::path::Path;

use crate::process::{Result, ci_cargo, format_command};

/// Fields that the manifest of every published crate must have.
const FIELDS: &[&str] = &[
    "description",
    "license",
    "rust-version",
    "keywords",
    "categories",
    "include",
];
/// Files that every published crate must have.
const FILES: &[&str] = &["README.md", "LICENSE"];
/// Fields without which `cargo package` warns, although the project has no public address.
const UNSET: &str = "manifest has no documentation, homepage or repository";

/// Checks the metadata of each crate, and packages all of them.
///
/// # Errors
/// If a field or a file is missing, or a dependency is not published.
pub(crate) fn check() -> Result {
    let mut command = ci_cargo("package");
    // Neither compiles the packages nor requires that everything is committed.
    command.args(["--no-verify", "--allow-dirty"]);
    let mut problems = Vec::new();
    for member in members(&fs::read_to_string("Cargo.toml")?) {
        let manifest = fs::read_to_string(Path::new(&member).join("Cargo.toml"))?;
        // The others have `publish = false`, or inherit it.
        if field(&manifest, "publish").is_some() {
            continue;
        }
        problems.extend(missing(&member, &manifest));
        command.args(["--package", field(&manifest, "name").unwrap_or_default()]);
    }
    println!("$ {}", format_command(&command));
    let output = command.output()?;
    let messages = String::from_utf8(output.stderr)?;
    let is_problem = |line: &&str| line.contains("manifest has no ") && !line.contains(UNSET);
    problems.extend(messages.lines().filter(is_problem).map(str::to_owned));
    if !output.status.success() {
        problems.push(messages);
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n").into())
    }
}

/// Returns the directories of the members, from the manifest of the workspace.
fn members(manifest: &str) -> Vec<String> {
    let list = field(manifest, "members").unwrap_or_default();
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Returns the value of a field that is on one line, without quotes around it.
fn field<'m>(manifest: &'m str, name: &str) -> Option<&'m str> {
    manifest.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = rest.strip_prefix(".workspace").unwrap_or(rest);
        Some(value.strip_prefix(" = ")?.trim_matches('"'))
    })
}

/// Returns what the crate lacks.
fn missing(member: &str, manifest: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for name in FIELDS {
        if field(manifest, name).is_none() {
            missing.push(format!("{member}/Cargo.toml has no {name}"));
        }
    }
    for file in FILES {
        if !Path::new(member).join(file).exists() {
            missing.push(format!("{member} has no {file}"));
        }
    }
    missing
}
