//! Every check and every test, one step after the other.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::process::{Result, cargo, read, run};
use crate::tools::{self, CARGO_DENY, CARGO_FUZZ};
use crate::wasm;
use crate::wasm_target::WasmTarget;
use crate::{libraries, openapi};

/// How long each fuzz target runs. Long enough to notice that one is broken; a search for defects takes hours and is
/// for `cargo fuzz run`.
const FUZZ_SECONDS: u32 = 20;

struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result,
}

/// In the order in which they run: what fails fast comes first.
const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "formatting",
        run: fmt,
    },
    Step {
        name: "clippy",
        about: "lints",
        run: clippy,
    },
    Step {
        name: "deny",
        about: "licences, sources and duplicates of the dependencies",
        run: deny,
    },
    Step {
        name: "doc",
        about: "documentation",
        run: doc,
    },
    Step {
        name: "test",
        about: "unit, integration and documentation tests",
        run: test,
    },
    Step {
        name: "openapi",
        about: "the OpenAPI document, and the demo's answers against it, by schemathesis",
        run: openapi::check,
    },
    Step {
        name: "bench",
        about: "benchmarks, each once, as tests of what they assert",
        run: bench,
    },
    Step {
        name: "wasm",
        about: "the WebAssembly package and its tests in Node.js, Deno, workerd and Chromium",
        run: wasm,
    },
    Step {
        name: "fuzz",
        about: "fuzz targets, each for a short time",
        run: fuzz,
    },
];

/// Runs `cargo xtask ci` with these options. A step that fails does not keep the others from running.
///
/// # Errors
/// An option or a step is unknown.
pub(crate) fn main(options: &[&str]) -> Result<ExitCode> {
    if options == ["--list"] {
        for step in STEPS {
            println!("{:8}{}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let outcomes: Vec<Outcome> = select(options)?.into_iter().map(execute).collect();
    report(&outcomes);
    if outcomes.iter().all(|outcome| outcome.error.is_none()) {
        Ok(ExitCode::SUCCESS)
    } else {
        Ok(ExitCode::FAILURE)
    }
}

fn select(options: &[&str]) -> Result<Vec<&'static Step>> {
    if options.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    options
        .chunks(2)
        .map(|option| {
            let ["--only", name] = option else {
                return Err(format!("expected --only STEP or --list, not {}", option[0]).into());
            };
            STEPS
                .iter()
                .find(|step| step.name == *name)
                .ok_or_else(|| format!("no step {name}; `cargo xtask ci --list` names them").into())
        })
        .collect()
}

struct Outcome {
    step: &'static Step,
    took: Duration,
    error: Option<String>,
}

fn execute(step: &'static Step) -> Outcome {
    println!("\n== {}: {}", step.name, step.about);
    let start = Instant::now();
    let error = (step.run)().err().map(|error| error.to_string());
    if let Some(error) = &error {
        println!("{} failed: {error}", step.name);
    }
    Outcome {
        step,
        took: start.elapsed(),
        error,
    }
}

fn report(outcomes: &[Outcome]) {
    println!("\n== summary");
    for Outcome { step, took, error } in outcomes {
        let verdict = if error.is_none() { "ok" } else { "FAILED" };
        println!("{:8}{verdict:8}{:6.1} s", step.name, took.as_secs_f64());
    }
    let took: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
    println!("{:16}{:6.1} s", "", took.as_secs_f64());
    let failed = outcomes
        .iter()
        .filter(|outcome| outcome.error.is_some())
        .count();
    println!("{} passed, {failed} failed", outcomes.len() - failed);
}

/// A cargo command for the workspace as it was committed, and for a build that happens once.
fn ci_cargo(subcommand: &str) -> Command {
    let mut cargo = cargo();
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo.args([subcommand, "--locked"]);
    cargo
}

/// The same over every package with every feature.
fn workspace(subcommand: &str) -> Command {
    let mut cargo = ci_cargo(subcommand);
    cargo.args(["--workspace", "--all-features"]);
    cargo
}

fn fmt() -> Result {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo()
        .args(["fmt", "--check", "--manifest-path"])
        .arg(FUZZ_MANIFEST))
}

fn clippy() -> Result {
    run(workspace("clippy").args(["--all-targets", "--", "-D", "warnings"]))
}

fn deny() -> Result {
    // Not `advisories`: their database is no part of a registry but a repository elsewhere, and this command has to
    // work where only the registries can be reached. `cargo deny check advisories` does it where both can.
    let mut check = CARGO_DENY.command()?;
    run(check.args(["--locked", "check", "licenses", "sources", "bans"]))
}

fn doc() -> Result {
    run(workspace("doc")
        .arg("--no-deps")
        .env("RUSTDOCFLAGS", "-D warnings"))
}

/// Programs of the power cut test, with their Debian packages.
const POWER_CUT_PROGRAMS: &[(&str, &str)] = &[
    ("mkfs.ext4", "e2fsprogs"),
    ("mount", "mount"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("perl", "perl-base"),
];

fn test() -> Result {
    // What the documentation says to type is typed.
    tools::programs(&[("curl", "curl"), ("openssl", "openssl")])?;
    tools::programs(POWER_CUT_PROGRAMS)?;
    run(workspace("test")
        .arg("--no-fail-fast")
        .envs(libraries::install()?))?;
    // Every suite that knows of the store no more than its address, over the other embedded engine too.
    run(workspace("test")
        .args(["--no-fail-fast", "--test", "http", "--test", "crash"])
        .env("KNOWLEDGE_TEST_ENGINE", "fjall"))
}

fn bench() -> Result {
    // `test`, not `bench`: criterion then runs every benchmark once, and nothing is compiled anew.
    run(workspace("test").args(["--bench", "*"]))
}

fn wasm() -> Result {
    let target = WasmTarget::find_or_make()?;
    // Core first and by itself: beside other crates it could lean on features that they turn on.
    for package in ["knowledge-core", "knowledge-wasm"] {
        run(target.cargo("check", &["-Dwarnings"])?.args([
            "--package",
            package,
            "--profile",
            wasm::PROFILE,
        ]))?;
    }
    wasm::build()?;
    wasm::compile_twice()?;
    wasm::test()
}

const FUZZ_MANIFEST: &str = "fuzz/Cargo.toml";

fn fuzz() -> Result {
    tools::require_nightly()?;
    // libFuzzer is compiled from C++.
    if crate::process::find("c++").is_none() {
        tools::debian_packages(&["g++"])?;
    }
    run(ci_cargo("clippy")
        .args(["--all-targets", "--manifest-path", FUZZ_MANIFEST])
        .args(["--", "-D", "warnings"]))?;
    run(&mut cargo_fuzz("build")?)?;
    let targets = read(&mut cargo_fuzz("list")?)?;
    let mut failed = Vec::new();
    for target in targets.lines() {
        let seconds = format!("-max_total_time={FUZZ_SECONDS}");
        if run(cargo_fuzz("run")?.args([target, "--", &seconds])).is_err() {
            failed.push(target);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("found by fuzzing: {}", failed.join(", ")).into())
    }
}

fn cargo_fuzz(subcommand: &str) -> Result<Command> {
    let mut command = CARGO_FUZZ.command()?;
    command
        .arg(subcommand)
        // The cargo in the environment is the one that runs this, of another toolchain.
        .env("RUSTUP_TOOLCHAIN", tools::NIGHTLY)
        .env_remove("CARGO");
    Ok(command)
}
