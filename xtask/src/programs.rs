//! Programs and tests of the workspace, as other steps use them.
//!
//! All are compiled with the features of the whole workspace, so that steps share what they compile.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Result, ci_cargo, read, run};

/// The program that needs other crates.
pub(crate) const GLUE: &str = "xtask-glue";
/// The server with its command line.
pub(crate) const SERVER: &str = "knowledge";
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
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(Path::new(&target).join("debug").canonicalize()?)
}

/// Directory of the compiled programs.
pub(crate) struct Programs(PathBuf);

impl Programs {
    /// Returns a command of a program.
    pub(crate) fn command(&self, name: &str) -> Command {
        Command::new(self.path(name))
    }

    /// Returns the path of a program.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
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

/// Compiles the server's HTTP suite, which can test any service, and returns its path.
///
/// # Errors
/// If it does not compile.
pub(crate) fn build_http_suite() -> Result<String> {
    let mut build = workspace_cargo("test");
    let messages = read(build.args(["--test", "http", "--no-run", "--message-format=json"]))?;
    let program = messages
        .lines()
        .filter(|line| line.contains("\"name\":\"http\""))
        .find_map(|line| {
            let (_, rest) = line.split_once("\"executable\":\"")?;
            Some(rest.split_once('"')?.0.to_owned())
        });
    program.ok_or_else(|| "cargo did not report the path of the HTTP suite".into())
}
