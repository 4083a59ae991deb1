//! Fuzz targets.

use std::process::Command;

use crate::process::{Result, ci_cargo, ensure, find_program, read, run, target_directory};
use crate::tools::{self, CARGO_FUZZ};

/// Manifest of their workspace.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";
/// Time to run all fuzz targets, in seconds; each has the same share.
///
/// It is enough to notice a broken target; a search for defects takes hours of `cargo fuzz run`.
const SECONDS: usize = 40;
/// Directories of the inputs of each target: those that are found, which the repository does not
/// have, and the seeds.
const CORPUS: &str = "fuzz/corpus";
const SEEDS: &str = "fuzz/seeds";
/// Options of a build without a sanitizer: the project forbids `unsafe`, and a sanitizer of addresses
/// makes the programs slower by a large factor.
const NO_SANITIZER: [&str; 2] = ["--sanitizer", "none"];

/// Checks the fuzz targets and runs each for a short time, beginning with its seeds.
///
/// # Errors
/// If one does not compile, or fails.
pub(crate) fn check() -> Result {
    install_compiler()?;
    let target = target_directory();
    run(ci_cargo("clippy")
        .args(["--all-targets", "--manifest-path", MANIFEST])
        .args(["--", "-D", "warnings"])
        // Shares the dependencies with the step `clippy`.
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env("CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG", "line-tables-only"))?;
    build()?;
    let targets = read(&mut cargo_fuzz("list")?)?;
    let share = SECONDS / targets.lines().count().max(1);
    let seconds = format!("-max_total_time={share}");
    let mut failed = Vec::new();
    for target in targets.lines() {
        let [corpus, seeds] = [CORPUS, SEEDS].map(|inputs| format!("{inputs}/{target}"));
        std::fs::create_dir_all(&corpus)?;
        let options = [target, &corpus, &seeds, "--", &seconds];
        if run(cargo_fuzz("run")?.args(NO_SANITIZER).args(options)).is_err() {
            failed.push(target);
        }
    }
    ensure(failed.is_empty(), || {
        format!("failed fuzz targets: {}", failed.join(", "))
    })
}

/// Installs what compiles libFuzzer, which is written in C++.
///
/// # Errors
/// If it cannot be installed.
pub(crate) fn install_compiler() -> Result {
    match find_program("c++") {
        Some(_) => Ok(()),
        None => tools::install_debian_packages(&["g++"]),
    }
}

/// Compiles the fuzz targets.
///
/// # Errors
/// If there is no nightly compiler, or one does not compile.
pub(crate) fn build() -> Result {
    tools::require_nightly()?;
    run(cargo_fuzz("build")?.args(NO_SANITIZER))
}

fn cargo_fuzz(subcommand: &str) -> Result<Command> {
    let mut command = CARGO_FUZZ.command()?;
    command
        .arg(subcommand)
        // In these seconds nobody misses what the full optimisation of a search would add, which
        // takes minutes to compile.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        // The cargo in the environment is that of this program, with another toolchain.
        .env("RUSTUP_TOOLCHAIN", tools::NIGHTLY)
        .env_remove("CARGO");
    Ok(command)
}
