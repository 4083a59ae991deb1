//! The tools that the checks need, installed where they are missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Result, cargo, find, read, run, succeeds};

/// A cargo subcommand from the Rust registry.
pub(crate) struct CargoTool {
    /// The package, `cargo-` and the subcommand.
    package: &'static str,
    /// The version that every machine uses, so that all of them see the same findings.
    version: &'static str,
}

/// Checks licences, sources and duplicates among the dependencies.
pub(crate) const CARGO_DENY: CargoTool = CargoTool {
    package: "cargo-deny",
    version: "0.20.2",
};

/// Builds and runs fuzz targets.
pub(crate) const CARGO_FUZZ: CargoTool = CargoTool {
    package: "cargo-fuzz",
    version: "0.13.2",
};

/// The toolchain that fuzzing needs.
pub(crate) const NIGHTLY: &str = "nightly";

/// Where tools are installed: inside the build directory, so that a developer's own ones stay as they are.
const TOOLS: &str = "target/tools";

/// Quick to compile rather than quick to run: each of these tools runs for seconds.
const INSTALL_PROFILE: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];

impl CargoTool {
    /// A command of the tool, to which its own arguments are added. Takes the one on the search path where it has the
    /// right version and installs it otherwise.
    ///
    /// # Errors
    /// The tool cannot be built.
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

    /// What cargo passes to such a program before all other arguments.
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

/// Makes sure that these Debian packages are installed.
///
/// # Errors
/// Says what to install by hand where this is not Debian, or where the user may not install.
pub(crate) fn debian_packages(packages: &[&str]) -> Result {
    let missing: Vec<&str> = packages
        .iter()
        .copied()
        .filter(|package| !is_installed(package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("apt-get install {}", missing.join(" "));
    if find("apt-get").is_none() {
        return Err(
            format!("this machine has no apt-get; install what Debian gets by: {by_hand}").into(),
        );
    }
    let is_root = read(Command::new("id").arg("-u"))? == "0";
    if !is_root && find("sudo").is_none() {
        return Err(format!("neither root nor sudo; let an administrator run: {by_hand}").into());
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

/// Makes sure that these programs are there, each named with the Debian package that has it.
///
/// # Errors
/// As [`debian_packages`].
pub(crate) fn programs(programs: &[(&str, &str)]) -> Result {
    // Who has them from elsewhere keeps them: other distributions of Node conflict with Debian's npm.
    let missing: Vec<&str> = programs
        .iter()
        .filter(|(program, _)| find(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    debian_packages(&missing)
}

/// Makes sure that Node.js and npm are there, of whatever version.
///
/// # Errors
/// As [`debian_packages`].
pub(crate) fn node() -> Result {
    programs(&[("node", "nodejs"), ("npm", "npm")])
}

/// The oldest Node.js that the package's tests and tools run in, as (major, minor): Debian's may be older.
const NODE_VERSION_MIN: (u32, u32) = (20, 11);

/// A Node.js that is new enough.
pub(crate) struct Node {
    /// A directory that is searched for programs before all others.
    directory: Option<PathBuf>,
}

impl Node {
    /// Takes the Node.js of the search path where it is new enough, else the one among these npm packages.
    ///
    /// # Errors
    /// Neither is there.
    pub(crate) fn find(packages: &Path) -> Result<Self> {
        let on_path = read(Command::new("node").arg("--version"))?;
        if version(&on_path) >= Some(NODE_VERSION_MIN) {
            return Ok(Self { directory: None });
        }
        let directory = packages.join(".bin");
        if directory.join("node").exists() {
            let directory = Some(directory.canonicalize()?);
            return Ok(Self { directory });
        }
        let (major, minor) = NODE_VERSION_MIN;
        Err(format!("Node.js {major}.{minor} or newer is needed; node is {on_path}, and npm has none for this system").into())
    }

    /// A command whose `node` is this one: of Node.js itself, or of a program that is written for it.
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

/// The major and the minor version in what Node.js prints, `v20.11.1`.
fn version(printed: &str) -> Option<(u32, u32)> {
    let mut numbers = printed.strip_prefix('v')?.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

/// Makes sure that rustup has a nightly toolchain.
///
/// # Errors
/// Says how to get one where there is none.
pub(crate) fn require_nightly() -> Result {
    // Through the search path: it is rustup's `cargo` that understands `+nightly`, not the toolchain's.
    if succeeds(Command::new("cargo").args([&format!("+{NIGHTLY}"), "--version"])) {
        Ok(())
    } else {
        Err(format!("fuzzing needs a nightly compiler: rustup toolchain install {NIGHTLY}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(version("v20.11.1"), Some((20, 11)));
        assert!(version("v100.0.0") > Some(NODE_VERSION_MIN));
        assert!(version("v18.20.4") < Some(NODE_VERSION_MIN));
        assert!(version("v20.9.0") < Some(NODE_VERSION_MIN));
        assert_eq!(version("node"), None);
    }
}
