//! Tools of the checks, installed on demand.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Result, cargo, find_program, read, run, succeeds};

/// A cargo subcommand from the Rust registry.
pub(crate) struct CargoTool {
    /// Name of the package, `cargo-` and the subcommand.
    package: &'static str,
    /// Pinned version, so that all machines report the same findings.
    version: &'static str,
}

/// Checker of the licences, sources and duplicates of the dependencies.
pub(crate) const CARGO_DENY: CargoTool = CargoTool {
    package: "cargo-deny",
    version: "0.20.2",
};

/// Runner of fuzz targets.
pub(crate) const CARGO_FUZZ: CargoTool = CargoTool {
    package: "cargo-fuzz",
    version: "0.13.2",
};

/// Toolchain for fuzzing.
pub(crate) const NIGHTLY: &str = "nightly";

/// Directory of installed tools, separate from a developer's own.
const TOOLS: &str = "target/tools";

/// Profile settings that favour compile time, because the tools run only for seconds.
const INSTALL_PROFILE: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];

impl CargoTool {
    /// Returns a command of the tool. It uses the program on the search path if its version
    /// matches, and otherwise installs one.
    ///
    /// # Errors
    /// If the tool cannot be built.
    pub(crate) fn command(&self) -> Result<Command> {
        let own = std::env::current_dir()?.join(TOOLS).join("bin");
        let own = own.join(self.package);
        let program = if self.is_version_of(&own) {
            own
        } else if self.is_version_of(Path::new(self.package)) {
            self.package.into()
        } else {
            self.install()?;
            own
        };
        let mut command = Command::new(program);
        command.arg(self.subcommand());
        Ok(command)
    }

    /// Returns the subcommand, which cargo passes as the first argument.
    fn subcommand(&self) -> &str {
        self.package.trim_start_matches("cargo-")
    }

    fn is_version_of(&self, program: &Path) -> bool {
        Command::new(program)
            .args([self.subcommand(), "--version"])
            .output()
            .is_ok_and(|output| {
                let printed = String::from_utf8_lossy(&output.stdout);
                printed.split_whitespace().nth(1) == Some(self.version)
            })
    }

    fn install(&self) -> Result {
        run(cargo()
            .args(["install", "--locked", "--force", "--root", TOOLS])
            .arg(format!("{}@{}", self.package, self.version))
            .envs(INSTALL_PROFILE))
    }
}

/// Installs Debian packages that are missing.
///
/// # Errors
/// If this is not Debian or the user may not install; the message contains the command to run.
pub(crate) fn install_debian_packages(packages: &[&str]) -> Result {
    let missing: Vec<&str> = packages
        .iter()
        .copied()
        .filter(|package| !is_installed(package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("apt-get install {}", missing.join(" "));
    if find_program("apt-get").is_none() {
        return Err(format!("apt-get not found; install the equivalent of: {by_hand}").into());
    }
    let is_root = read(Command::new("id").arg("-u"))? == "0";
    if !is_root && find_program("sudo").is_none() {
        return Err(
            format!("not root and sudo not found; as an administrator run: {by_hand}").into(),
        );
    }
    let apt_get = || {
        let mut command = Command::new(if is_root { "env" } else { "sudo" });
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet"]);
        command
    };
    run(apt_get().arg("update"))?;
    run(apt_get()
        .args(["install", "--yes", "--no-install-recommends"])
        .args(&missing))
}

fn is_installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status}", package])
        .output()
        .is_ok_and(|output| output.stdout == b"installed")
}

/// Installs the programs that are missing; each has its Debian package beside it.
///
/// # Errors
/// Errors of [`install_debian_packages`].
pub(crate) fn install_programs(programs: &[(&str, &str)]) -> Result {
    // Keep programs from other sources: other distributions of Node conflict with Debian's npm.
    let missing: Vec<&str> = programs
        .iter()
        .filter(|(program, _)| find_program(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    install_debian_packages(&missing)
}

/// Installs Node.js and npm if they are missing, in any version.
///
/// # Errors
/// Errors of [`install_debian_packages`].
pub(crate) fn install_node() -> Result {
    install_programs(&[("node", "nodejs"), ("npm", "npm")])
}

/// Installs the npm packages of the lock file in a directory, unless they are current.
///
/// # Errors
/// If npm fails.
pub(crate) fn install_npm_packages(directory: &str) -> Result {
    let directory = Path::new(directory);
    // npm writes this copy of the lock file at the end of an installation.
    let installed = directory.join("node_modules/.package-lock.json");
    let lock = directory.join("package-lock.json");
    let is_current = match (installed.metadata(), lock.metadata()) {
        (Ok(installed), Ok(lock)) => installed.modified()? >= lock.modified()?,
        _ => false,
    };
    if is_current {
        return Ok(());
    }
    run(Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund"])
        .current_dir(directory))
}

/// Installs the npm packages of the lock file among `files` in another directory.
///
/// # Errors
/// If npm fails.
pub(crate) fn copy_npm_packages(files: &Path, directory: &Path) -> Result {
    std::fs::create_dir_all(directory)?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(files.join(file), directory.join(file))?;
    }
    run(Command::new("npm")
        .args(["ci", "--silent", "--no-audit", "--no-fund", "--prefix"])
        .arg(directory))
}

/// Oldest Node.js for the package's tests and tools, as (major, minor). Debian's may be older.
const NODE_VERSION_MIN: (u32, u32) = (20, 11);

/// A sufficiently new Node.js.
pub(crate) struct Node {
    /// Directory that is searched for programs first.
    directory: Option<PathBuf>,
}

impl Node {
    /// Finds a sufficiently new Node.js, on the search path or among npm packages.
    ///
    /// # Errors
    /// If neither has one.
    pub(crate) fn find(packages: &Path) -> Result<Self> {
        let on_path = read(Command::new("node").arg("--version"))?;
        if parse_version(&on_path) >= Some(NODE_VERSION_MIN) {
            return Ok(Self { directory: None });
        }
        let directory = packages.join(".bin");
        if directory.join("node").exists() {
            let directory = Some(directory.canonicalize()?);
            return Ok(Self { directory });
        }
        let (major, minor) = NODE_VERSION_MIN;
        Err(format!(
            "Node.js {major}.{minor} or newer is required; node is {on_path}, and npm has \
                     none for this system"
        )
        .into())
    }

    /// Returns a command for Node.js itself, or for a program that runs in it.
    pub(crate) fn command(&self, program: &str) -> Result<Command> {
        let Some(directory) = &self.directory else {
            return Ok(Command::new(program));
        };
        let own = directory.join(program);
        let mut command = Command::new(if own.exists() { own } else { program.into() });
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::iter::once(directory.clone()).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(directories)?);
        Ok(command)
    }
}

/// Parses the major and the minor version from the output of Node.js, for example `v20.11.1`.
fn parse_version(printed: &str) -> Option<(u32, u32)> {
    let mut numbers = printed.strip_prefix('v')?.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

/// Checks that rustup has a nightly toolchain.
///
/// # Errors
/// If there is none; the message contains the command to install it.
pub(crate) fn require_nightly() -> Result {
    // Use the search path: rustup's `cargo` understands `+nightly`, the toolchain's does not.
    if succeeds(Command::new("cargo").args([&format!("+{NIGHTLY}"), "--version"])) {
        Ok(())
    } else {
        Err(
            format!("fuzzing needs a nightly compiler; run: rustup toolchain install {NIGHTLY}")
                .into(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(parse_version("v20.11.1"), Some((20, 11)));
        assert!(parse_version("v100.0.0") > Some(NODE_VERSION_MIN));
        assert!(parse_version("v18.20.4") < Some(NODE_VERSION_MIN));
        assert!(parse_version("v20.9.0") < Some(NODE_VERSION_MIN));
        assert_eq!(parse_version("node"), None);
    }
}
