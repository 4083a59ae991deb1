//! Libraries of other languages with which the tests verify signatures, and the provider with which
//! they sign in.

use std::path::Path;

use crate::process::Result;
use crate::python::Python;
use crate::tools;

/// Directory of the test programs and their requirements.
const FILES: &str = "cli/tests/libraries";
/// Directory of the OpenID Connect provider.
const PROVIDER: &str = "server-warp/tests/oidc/provider";
/// Directory of the installed packages.
const INSTALLED: &str = "target/libraries";

/// Installs the libraries and returns the environment variables that point the tests to them.
///
/// # Errors
/// If a package cannot be installed.
pub(crate) fn install() -> Result<Vec<(&'static str, String)>> {
    tools::install_node()?;
    let packages = std::env::current_dir()?.join(INSTALLED).join("node");
    tools::copy_npm_packages(&Path::new(FILES).join("node"), &packages)?;
    let provider = std::env::current_dir()?.join(INSTALLED).join("oidc");
    tools::copy_npm_packages(Path::new(PROVIDER), &provider)?;
    let requirements = format!("{FILES}/python/requirements.txt");
    let python = Python::install(&Path::new(INSTALLED).join("python"), &requirements)?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut variables = vec![
        ("TEST_NODE_PACKAGES", text(&packages)),
        ("TEST_OIDC_PACKAGES", text(&provider)),
        ("TEST_PYTHON", text(python.program())),
    ];
    variables.extend(python.packages().map(|path| ("PYTHONPATH", text(path))));
    Ok(variables)
}
