//! The binary of a release, and what it needs of the system.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Result, ci_cargo, read, run, target_directory};
use crate::programs::{self, SERVER};

/// Profile of what is distributed.
const PROFILE: &str = "dist";

/// Compiles the binary and returns its path.
///
/// # Errors
/// If it does not compile.
pub(super) fn build(is_debug: bool) -> Result<PathBuf> {
    if is_debug {
        return Ok(programs::build(&[SERVER])?.path(SERVER));
    }
    run(ci_cargo("build")
        .args(["--profile", PROFILE, "--package", "knowledge-cli"])
        .args(["--bin", SERVER]))?;
    Ok(target_directory().join(PROFILE).join(SERVER))
}

/// The shared libraries of a binary.
#[derive(Debug)]
pub(super) struct Requirements {
    /// Oldest version of the GNU C library.
    pub(super) glibc: String,
    /// Value of the field `Depends` of a Debian package.
    pub(super) depends: String,
}

impl Requirements {
    /// Reads them from a binary's dynamic section and symbol versions.
    ///
    /// # Errors
    /// If the file is no dynamically linked binary, or has an unknown library or version.
    pub(super) fn of(binary: &Path) -> Result<Self> {
        let mut readelf = Command::new("readelf");
        readelf.args(["--wide", "--dynamic", "--version-info"]);
        Self::parse(&read(readelf.arg(binary).env("LC_ALL", "C"))?)
    }

    fn parse(printed: &str) -> Result<Self> {
        let mut newest: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        let mut package = "";
        for line in printed.lines() {
            if let Some((_, rest)) = line.split_once("Shared library: [") {
                let library = rest.split(']').next().unwrap_or_default();
                newest.entry(debian_package(library)?).or_default();
            } else if let Some((_, rest)) = line.split_once(" File: ") {
                package = debian_package(rest.split_whitespace().next().unwrap_or_default())?;
            } else if let Some((_, rest)) = line.split_once(" Name: ") {
                let version = parse_version(rest.split_whitespace().next().unwrap_or_default())?;
                let known = newest.entry(package).or_default();
                *known = version.max(std::mem::take(known));
            }
        }
        let version = |package: &str| {
            let numbers = newest.get(package).filter(|numbers| !numbers.is_empty())?;
            let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
            Some(numbers.join("."))
        };
        let depends = newest.keys().map(|package| match version(package) {
            Some(version) => format!("{package} (>= {version})"),
            None => (*package).to_owned(),
        });
        Ok(Self {
            glibc: version("libc6").ok_or("the binary names no version of glibc")?,
            depends: depends.collect::<Vec<_>>().join(", "),
        })
    }
}

/// Returns the Debian package of a shared library.
fn debian_package(library: &str) -> Result<&'static str> {
    let name = library.split(".so").next().unwrap_or_default();
    match name {
        "libc" | "libdl" | "libm" | "libpthread" | "librt" => Ok("libc6"),
        _ if name.starts_with("ld-linux") => Ok("libc6"),
        "libgcc_s" => Ok("libgcc-s1"),
        _ => Err(format!("the binary is linked with {library}, of an unknown package").into()),
    }
}

/// Parses the numbers of a symbol version such as `GLIBC_2.34`.
fn parse_version(name: &str) -> Result<Vec<u32>> {
    let numbers = name.strip_prefix("GLIBC_");
    let numbers = numbers.or_else(|| name.strip_prefix("GCC_"));
    let numbers = numbers.and_then(|numbers| numbers.split('.').map(|n| n.parse().ok()).collect());
    numbers.ok_or_else(|| format!("the binary needs the unknown version {name}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  000000: Version: 1  File: libgcc_s.so.1  Cnt: 1
  0x0010:   Name: GCC_4.2.0  Flags: none  Version: 26
  0x0010: Version: 1  File: libm.so.6  Cnt: 1
  0x0020:   Name: GLIBC_2.29  Flags: none  Version: 7
  0x0020: Version: 1  File: libc.so.6  Cnt: 2
  0x0030:   Name: GLIBC_2.34  Flags: none  Version: 2
  0x0040:   Name: GLIBC_2.4  Flags: none  Version: 18
  0x0050: Version: 1  File: ld-linux-x86-64.so.2  Cnt: 1
  0x0060:   Name: GLIBC_2.3  Flags: none  Version: 6";

    #[test]
    fn requirements_have_the_newest_version_by_number() {
        let required = Requirements::parse(PRINTED).unwrap();
        assert_eq!(required.glibc, "2.34");
        assert_eq!(required.depends, "libc6 (>= 2.34), libgcc-s1 (>= 4.2.0)");
    }

    #[test]
    fn requirements_reject_what_they_cannot_name() {
        for (from, to) in [
            ("[libgcc_s.so.1]", "[libssl.so.3]"),
            ("GLIBC_2.34", "GLIBC_ABI_DT_RELR"),
            ("GLIBC_", "GCC_X"),
        ] {
            let changed = PRINTED.replace(from, to);
            assert!(Requirements::parse(&changed).is_err(), "{to}");
        }
        assert!(Requirements::parse("").is_err());
    }
}
