//! Checks and tests of the console, in a browser.

use std::path::Path;

use crate::process::{Result, find_program, run};
use crate::programs::{self, SERVER};
use crate::tools::{self, Node};
use crate::wasm;

/// Directory of the console and of its tools.
const CONSOLE: &str = "console";

/// Checks the types and the format of the console, and tests it over a server and over the npm
/// package, which is built unless it is there.
///
/// # Errors
/// If a tool cannot be installed, or a check or a test fails.
pub(crate) fn check() -> Result {
    if !Path::new(wasm::PKG).join("console.html").exists() {
        wasm::build()?;
    }
    tools::install_node()?;
    tools::install_programs(&[("chromium", "chromium")])?;
    tools::install_npm_packages(CONSOLE)?;
    let programs = programs::build(&[SERVER])?;
    let chromium = find_program("chromium").ok_or("chromium is not on the search path")?;
    let node = Node::find(Path::new(wasm::NODE_MODULES))?;
    for script in ["check", "test"] {
        run(node
            .command("npm")?
            .args(["--silent", "run", script])
            .current_dir(CONSOLE)
            .env("CHROMIUM", &chromium)
            .env("KNOWLEDGE_SERVER", programs.path(SERVER)))?;
    }
    Ok(())
}
