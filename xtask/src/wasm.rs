//! Builds the WebAssembly package.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::{Result, cargo, run};
use crate::tools;
use crate::wasm_target::WasmTarget;

const PACKAGE: &str = "knowledge-wasm";
/// Small rather than fast, see the workspace's `Cargo.toml`.
pub(crate) const PROFILE: &str = "wasm";
/// Where the package is made.
const PKG: &str = "wasm/pkg";
/// The package's files are named after this.
const NAME: &str = "knowledge";

/// Compiles the crate `wasm`, makes its JavaScript and TypeScript files, shrinks the module and prints its sizes.
///
/// # Errors
/// A tool is missing and cannot be installed, or a step fails.
pub(crate) fn build() -> Result {
    let target = WasmTarget::find_or_make()?;
    run(target
        .cargo("build", &[])
        .args(["--package", PACKAGE, "--profile", PROFILE]))?;

    let module = WasmTarget::output(PROFILE).join("knowledge_wasm.wasm");
    run(cargo()
        .args([
            "run",
            "--locked",
            "--quiet",
            "--package",
            "xtask-glue",
            "--",
        ])
        .arg(&module)
        .args([PKG, NAME]))?;

    tools::node()?;
    npm_install()?;
    shrink(&Path::new(PKG).join(format!("{NAME}_bg.wasm")))?;
    run(Command::new("node").arg("wasm/tools/sizes.mjs").arg(PKG))
}

/// Runs the package's tests in Node.js; the package has to be built.
///
/// # Errors
/// A test fails, or there is none.
pub(crate) fn test() -> Result {
    let mut tests = Vec::new();
    for file in fs::read_dir("wasm/tests")? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "mjs") {
            tests.push(path);
        }
    }
    // Named one by one: given a directory, some versions of Node.js find no test in it and succeed.
    if tests.is_empty() {
        return Err("no tests in wasm/tests".into());
    }
    tests.sort();
    run(Command::new("node").arg("--test").args(tests))
}

/// Installs the npm packages of the lock file, unless that has been done.
fn npm_install() -> Result {
    // npm writes this file at the end of an installation, a copy of what it has installed.
    let installed = Path::new("wasm/node_modules/.package-lock.json");
    let lock = Path::new("wasm/package-lock.json");
    let is_current = match (installed.metadata(), lock.metadata()) {
        (Ok(installed), Ok(lock)) => installed.modified()? >= lock.modified()?,
        _ => false,
    };
    if is_current {
        return Ok(());
    }
    run(Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund"])
        .current_dir("wasm"))
}

/// Optimises the module for size, in place.
fn shrink(module: &Path) -> Result {
    run(Command::new("wasm/node_modules/.bin/wasm-opt")
        .arg("-Oz")
        .arg(module)
        .arg("--output")
        .arg(module))
}
