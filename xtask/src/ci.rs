//! All checks and tests, one step after the other; or the fast ones only.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::advisories;
use crate::ahead::{Ahead, Later};
use crate::process::{Result, Skipped, cargo, run};
use crate::programs::workspace_cargo;
use crate::tools::{self, CARGO_DENY};
use crate::wasm;
use crate::{
    bench, console, dist, fuzz, instructions, libraries, openapi, package, postgres, public_api,
};

struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result,
}

/// Defines steps by their names, functions and descriptions.
macro_rules! steps {
    ($($name:literal => $run:expr, $about:literal;)+) => {
        &[$(Step {
            name: $name,
            about: $about,
            run: $run,
        }),+]
    };
}

/// Steps in the order in which they run: fast ones first.
const STEPS: &[Step] = steps! {
    "fmt" => fmt, "formatting";
    "clippy" => clippy, "lints";
    "deny" => deny, "licences, sources and duplicates of the dependencies";
    "advisories" => advisories::check,
        "dependencies with known vulnerabilities, by the RustSec database";
    "package" => package::check, "manifests and contents of the crates that can be published";
    "doc" => public_api::check,
        "documentation, and the public API of the libraries against the recorded one";
    "test" => test, "unit, integration and documentation tests";
    "openapi" => openapi::check,
        "the OpenAPI documents, typed clients, and the demo's responses, by schemathesis";
    "bench" => bench, "benchmarks, each once, as tests of their assertions";
    "instructions" => instructions::check,
        "instructions of time-critical calls, against recorded numbers";
    "wasm" => wasm, "the WebAssembly package and its tests in Node.js, Deno, workerd and Chromium";
    "console" => console::check,
        "types of the console, and its tests in Chromium over a server and over the package";
    "dist" => dist::check,
        "the artefacts of a release, of the debug binary, each installed and started once";
    "fuzz" => fuzz::check, "fuzz targets, each for a short time";
};

/// Steps of `cargo xtask check`, without what takes long: properties, servers and other tools.
const FAST_STEPS: &[Step] = steps! {
    "fmt" => fmt, "formatting";
    "clippy" => clippy, "lints";
    "test" => fast_test, "unit tests, and the tests of core without properties";
};

/// Test targets of core that call it directly and take seconds.
const FAST_TARGETS: &[&str] = &["authorization", "dump", "openapi", "reference", "service"];

/// Runs `cargo xtask check`. After a failed step the others still run.
pub(crate) fn check() -> ExitCode {
    let outcomes: Vec<Outcome> = FAST_STEPS.iter().map(execute).collect();
    conclude(&outcomes)
}

/// Runs `cargo xtask ci` with options. After a failed step the others still run.
///
/// # Errors
/// If an option or a step is unknown.
pub(crate) fn main(options: &[&str]) -> Result<ExitCode> {
    if options == ["--list"] {
        for step in STEPS {
            println!("{:14}{}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let steps = select(options)?;
    let includes = |name| steps.iter().any(|step| step.name == name);
    // Each step, with the later one whose compilations are made beside it.
    let beside = [("test", Later::Wasm), ("openapi", Later::Fuzz)];
    let mut ahead: Vec<(Later, Ahead)> = Vec::new();
    let mut outcomes = Vec::new();
    for step in &steps {
        let ready = |(later, _): &(Later, Ahead)| later.name() == step.name;
        if let Some(at) = ahead.iter().position(ready) {
            ahead.swap_remove(at).1.wait()?;
        }
        let later = beside.iter().find(|(name, _)| *name == step.name);
        if let Some((_, later)) = later.filter(|(_, later)| includes(later.name())) {
            match Ahead::start(*later) {
                Ok(started) => ahead.push((*later, started)),
                Err(error) => println!("nothing is compiled beside this step: {error}"),
            }
        }
        outcomes.push(execute(step));
    }
    Ok(conclude(&outcomes))
}

/// Prints the failures and the summary, together at the end because the output of a step is long.
fn conclude(outcomes: &[Outcome]) -> ExitCode {
    for outcome in outcomes {
        if let Verdict::Failed(message) = &outcome.verdict {
            println!("\n== {} failed\n{message}", outcome.name);
        }
    }
    println!("\n== summary\n{}", summary(outcomes));
    let is_failed = |outcome: &Outcome| matches!(outcome.verdict, Verdict::Failed(_));
    if outcomes.iter().any(is_failed) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
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
                .ok_or_else(|| format!("no step {name}; run `cargo xtask ci --list`").into())
        })
        .collect()
}

/// Result of a step.
enum Verdict {
    Passed,
    /// Nothing was checked, or not everything, for this reason.
    Skipped(String),
    /// Something is wrong, as this message says.
    Failed(String),
}

struct Outcome {
    name: &'static str,
    duration: Duration,
    verdict: Verdict,
}

fn execute(step: &'static Step) -> Outcome {
    println!("\n== {}: {}", step.name, step.about);
    let start = Instant::now();
    let verdict = match (step.run)() {
        Ok(()) => Verdict::Passed,
        Err(error) if error.is::<Skipped>() => Verdict::Skipped(error.to_string()),
        Err(error) => Verdict::Failed(error.to_string()),
    };
    Outcome {
        name: step.name,
        duration: start.elapsed(),
        verdict,
    }
}

/// Returns the summary of the steps; a skipped one is neither passed nor failed.
fn summary(outcomes: &[Outcome]) -> String {
    let mut lines = Vec::new();
    let [mut passed, mut failed, mut skipped] = [0; 3];
    for outcome in outcomes {
        let (verdict, reason) = match &outcome.verdict {
            Verdict::Passed => ("ok", ""),
            Verdict::Skipped(reason) => ("skipped", reason.as_str()),
            Verdict::Failed(_) => ("FAILED", ""),
        };
        match outcome.verdict {
            Verdict::Passed => passed += 1,
            Verdict::Skipped(_) => skipped += 1,
            Verdict::Failed(_) => failed += 1,
        }
        let seconds = outcome.duration.as_secs_f64();
        let line = format!("{:14}{verdict:8}{seconds:6.1} s  {reason}", outcome.name);
        lines.push(line.trim_end().to_owned());
    }
    let duration: Duration = outcomes.iter().map(|outcome| outcome.duration).sum();
    lines.push(format!("{:22}{:6.1} s", "", duration.as_secs_f64()));
    let mut last = format!("{passed} passed, {failed} failed");
    if skipped > 0 {
        last.push_str(&format!(", {skipped} skipped"));
    }
    lines.push(last);
    lines.join("\n")
}

fn fmt() -> Result {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    for manifest in [fuzz::MANIFEST, public_api::MANIFEST] {
        run(cargo().args(["fmt", "--check", "--manifest-path", manifest]))?;
    }
    Ok(())
}

fn clippy() -> Result {
    run(workspace_cargo("clippy").args(["--all-targets", "--", "-D", "warnings"]))
}

fn deny() -> Result {
    // `advisories` is a step of its own, as its database may be out of reach.
    let mut check = CARGO_DENY.command()?;
    run(check.args(["--locked", "check", "licenses", "sources", "bans"]))
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
    // Tests run the commands in the documentation.
    tools::install_programs(&[("curl", "curl"), ("openssl", "openssl")])?;
    tools::install_programs(POWER_CUT_PROGRAMS)?;
    let servers = postgres::install()?;
    run(workspace_cargo("test")
        .arg("--no-fail-fast")
        .envs(libraries::install()?)
        .envs([servers.clone()]))?;
    // Run the suites that know only the store's address over the other stores too. The tests of the
    // store in a database kill servers themselves.
    let over = |engine| {
        let mut test = workspace_cargo("test");
        test.args(["--no-fail-fast", "--test", "http"])
            .env("KNOWLEDGE_TEST_ENGINE", engine);
        test
    };
    run(over("fjall").args(["--test", "crash"]))?;
    run(over("postgres").envs([servers]))
}

fn fast_test() -> Result {
    run(workspace_cargo("test")
        .args(["--no-fail-fast", "--lib", "--bins"])
        .args(FAST_TARGETS.iter().flat_map(|target| ["--test", target])))
}

fn bench() -> Result {
    // With `test` instead of `bench`, criterion runs every benchmark once, without recompilation.
    run(workspace_cargo("test").args(["--bench", "*"]))?;
    bench::test_peer()
}

fn wasm() -> Result {
    // Before the second compilation, which needs what the first one installs.
    wasm::check()?;
    let rebuild = wasm::Rebuild::start()?;
    wasm::build()?;
    wasm::test()?;
    bench::test_package()?;
    rebuild.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &'static str, verdict: Verdict) -> Outcome {
        Outcome {
            name,
            duration: Duration::from_millis(1_500),
            verdict,
        }
    }

    #[test]
    fn skipped_step_is_neither_passed_nor_failed() {
        let reason = "cannot reach the database".to_owned();
        let shown = summary(&[
            outcome("deny", Verdict::Passed),
            outcome("advisories", Verdict::Skipped(reason)),
            outcome("test", Verdict::Failed("a test failed".to_owned())),
        ]);
        let lines = [
            "deny          ok         1.5 s",
            "advisories    skipped    1.5 s  cannot reach the database",
            "test          FAILED     1.5 s",
            "                         4.5 s",
            "1 passed, 1 failed, 1 skipped",
        ];
        assert_eq!(shown, lines.join("\n"));
    }

    #[test]
    fn summary_without_skipped_steps_ends_as_before() {
        let shown = summary(&[outcome("deny", Verdict::Passed)]);
        assert!(shown.ends_with("\n1 passed, 0 failed"), "{shown}");
    }
}
