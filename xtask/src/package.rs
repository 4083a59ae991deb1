//! Check that the crates can be published. Nothing is compiled or sent.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::{Result, ci_cargo, format_command, none_of, read};

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
const FILES: &[&str] = &["README.md", LICENSE];
/// The text of the licence, in each package.
const LICENSE: &str = "LICENSE";
/// Fields without which `cargo package` warns, although the project has no public address.
const UNSET: &str = "manifest has no documentation, homepage or repository";

/// Checks the metadata of each crate, and packages all of them.
///
/// # Errors If a field or a file is missing, a dependency is not published, or the compiler has not
/// the declared version of Rust.
pub(crate) fn check() -> Result {
    let mut command = ci_cargo("package");
    // Neither compiles the packages nor requires that everything is committed.
    command.args(["--no-verify", "--allow-dirty"]);
    let workspace = fs::read_to_string("Cargo.toml")?;
    let compiler = read(Command::new("rustc").arg("--version"))?;
    let mut problems: Vec<String> = other_compiler(&workspace, &compiler).into_iter().collect();
    let licence = fs::read(LICENSE)?;
    for member in members(&workspace) {
        let manifest = fs::read_to_string(Path::new(&member).join("Cargo.toml"))?;
        // The others have `publish = false`, or inherit it.
        if field(&manifest, "publish").is_some() {
            continue;
        }
        problems.extend(missing(&member, &manifest));
        let licence_of_member = Path::new(&member).join(LICENSE);
        if fs::read(licence_of_member).is_ok_and(|text| text != licence) {
            problems.push(format!("{member}/{LICENSE} is not that of the workspace"));
        }
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
    none_of(&problems)
}

/// Returns a problem if the compiler of the checks is not of the version that the workspace declares.
///
/// A version that no check compiles with would be a guess.
fn other_compiler(workspace: &str, compiler: &str) -> Option<String> {
    let declared = field(workspace, "rust-version")?;
    let version = compiler.split(' ').nth(1)?;
    let is_declared = version == declared || version.starts_with(&format!("{declared}."));
    (!is_declared).then(|| {
        format!("Cargo.toml declares Rust {declared}, and the checks compile with {version}")
    })
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

/// Returns a problem for each field and file that the crate lacks.
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

#[cfg(test)]
mod tests {
    use super::other_compiler;

    #[test]
    fn compiler_has_the_declared_version() {
        let workspace = "edition = \"2024\"\nrust-version = \"1.95\"\n";
        for version in ["1.95.0", "1.95.2"] {
            let compiler = format!("rustc {version} (59807616e 2026-04-14)\n");
            assert_eq!(other_compiler(workspace, &compiler), None);
        }
        let other = other_compiler(workspace, "rustc 1.950.0 (59807616e 2026-04-14)\n");
        let message = "Cargo.toml declares Rust 1.95, and the checks compile with 1.950.0";
        assert_eq!(other.as_deref(), Some(message));
    }
}
