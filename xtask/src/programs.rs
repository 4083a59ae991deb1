//! Programs and tests of the workspace, as other steps use them.
//!
//! All are compiled with the features of the whole workspace, so that steps share what they compile.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{Result, ci_cargo, read, run, target_directory};

/// The program that needs other crates.
pub(crate) const GLUE: &str = "xtask-glue";
/// The server with its command line.
pub(crate) const SERVER: &str = "knowledge";
/// The HTTP suite, for any service at an address.
pub(crate) const HTTP_SUITE: &str = "http-suite";
/// The example that prints a conversation with the service.
pub(crate) const CONVERSATION: &str = "conversation";

/// Returns a cargo command for all packages with all features.
pub(crate) fn workspace_cargo(subcommand: &str) -> Command {
    let mut cargo = ci_cargo(subcommand);
    cargo.args(["--workspace", "--all-features"]);
    cargo
}

/// Compiles programs of the workspace, and an example.
///
/// With an example, cargo enables the features that the tests need, so that it shares what
/// `cargo test --test` has compiled.
///
/// # Errors
/// If one does not compile.
pub(crate) fn build(names: &[&str]) -> Result<Programs> {
    let mut build = workspace_cargo("build");
    build.args(names.iter().flat_map(|name| ["--bin", name]));
    run(build.args(["--example", CONVERSATION]))?;
    Ok(Programs(directory()?))
}

/// Compiles an example and returns its path.
///
/// # Errors
/// If it does not compile.
pub(crate) fn build_example(name: &str) -> Result<PathBuf> {
    run(workspace_cargo("build").args(["--example", name]))?;
    Ok(directory()?.join("examples").join(name))
}

/// Returns the directory of the compiled programs.
fn directory() -> Result<PathBuf> {
    Ok(target_directory().join("debug").canonicalize()?)
}

/// Directory of the compiled programs.
pub(crate) struct Programs(PathBuf);

impl Programs {
    /// Returns the path of a program.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns a command of a program.
    pub(crate) fn command(&self, name: &str) -> Command {
        Command::new(self.path(name))
    }

    /// Returns the path of the example.
    pub(crate) fn conversation(&self) -> PathBuf {
        self.0.join("examples").join(CONVERSATION)
    }

    /// Returns the OpenAPI documents of the public interface and of the operator's, one a line.
    ///
    /// # Errors
    /// If the program that prints them fails.
    pub(crate) fn openapi_documents(&self) -> Result<String> {
        read(self.command(GLUE).arg("openapi"))
    }
}

/// Compiles the native benchmark of the service, optimised, and returns its path.
///
/// # Errors
/// If it does not compile.
pub(crate) fn build_service_benchmark() -> Result<String> {
    let package = ["--package", "knowledge-benches", "--bench", "service"];
    build_target(ci_cargo("bench").args(package), "service")
}

/// Compiles a test or a benchmark and returns its path.
fn build_target(build: &mut Command, name: &str) -> Result<String> {
    let messages = read(build.args(["--no-run", "--message-format=json"]))?;
    let path = executable(&messages, name).map(str::to_owned);
    path.ok_or_else(|| format!("cargo did not report the path of {name}").into())
}

/// Finds the path of a target's program in cargo's messages.
fn executable<'m>(messages: &'m str, name: &str) -> Option<&'m str> {
    let name = format!("\"name\":\"{name}\"");
    let mut of_target = messages.lines().filter(|line| line.contains(&name));
    of_target.find_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        Some(rest.split_once('"')?.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_is_that_of_the_target() {
        let artifact = |name, executable| {
            format!("{{\"target\":{{\"name\":\"{name}\"}},\"executable\":{executable}}}\n")
        };
        let messages = [
            artifact("service", "null"),
            artifact("store", "\"/target/store\""),
            artifact("service", "\"/target/service\""),
        ];
        let messages = messages.concat();
        assert_eq!(executable(&messages, "service"), Some("/target/service"));
        assert_eq!(executable(&messages, "http"), None);
    }
}
