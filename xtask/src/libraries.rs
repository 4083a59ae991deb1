//! The libraries of other languages that the tests verify signatures with.

use std::path::Path;
use std::process::Command;

use crate::process::{Result, run};
use crate::python::Python;
use crate::tools;

/// The programs of the tests, and what they need.
const FILES: &str = "server-warp/tests/libraries";
/// Where the packages are installed.
const INSTALLED: &str = "target/libraries";

/// Installs the libraries. The environment variables by which the tests find them.
///
/// # Errors
/// Something cannot be installed.
pub(crate) fn install() -> Result<Vec<(&'static str, String)>> {
    tools::node()?;
    let packages = std::env::current_dir()?.join(INSTALLED).join("node");
    std::fs::create_dir_all(&packages)?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(
            Path::new(FILES).join("node").join(file),
            packages.join(file),
        )?;
    }
    run(Command::new("npm")
        .args(["ci", "--silent", "--no-audit", "--no-fund", "--prefix"])
        .arg(&packages))?;
    let requirements = format!("{FILES}/python/requirements.txt");
    let python = Python::install(&Path::new(INSTALLED).join("python"), &requirements)?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut variables = vec![
        ("TEST_NODE_PACKAGES", text(&packages)),
        ("TEST_PYTHON", text(python.program())),
    ];
    variables.extend(python.packages().map(|path| ("PYTHONPATH", text(path))));
    Ok(variables)
}
