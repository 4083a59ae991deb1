//! The project's own commands, which take more than one plain `cargo` call.
//!
//! This program depends only on the standard library, so that a cold start takes seconds.

mod advisories;
mod ahead;
mod bench;
mod ci;
#[cfg(test)]
mod circles;
mod clients;
#[cfg(test)]
mod columns;
mod console;
mod demo;
mod dist;
mod fuzz;
mod instructions;
mod libraries;
#[cfg(test)]
mod links;
mod openapi;
mod package;
mod peer;
mod postgres;
mod process;
mod programs;
mod public_api;
mod python;
mod results;
mod tools;
mod wasm;
mod wasm_target;

use std::path::Path;
use std::process::ExitCode;

use crate::process::Result;

const HELP: &str = "\
Commands of this project.

Usage: cargo xtask <COMMAND>

Commands:
  check         Run the fast checks: formatting, lints, unit tests and the tests of core without
                properties
  ci            Run all checks and tests, and install the tools they need
    --only STEP   Run only this step (repeatable)
    --list        List the steps and exit
  bench         Measure the server and the npm package beside references, into benches/RESULTS.md
    --row ROW   Measure only this row (repeatable)
    --memories N    Fill the largest store with N memories instead of 10,000,000, without that file
    --wait SECONDS  Wait at most so long for an idle machine before each row
  dist          Make what a release consists of, into target/artefacts
    --debug     Pack the debug binary and the npm package of wasm/pkg, into target/artefacts-debug
    --binary FILE   Pack this binary
    --check     Install each artefact in a clean directory, and start it once
  wasm          Build the WebAssembly package into wasm/pkg and print its sizes
  help          Print this help
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[&str]) -> Result<ExitCode> {
    // All paths in this program are relative to the root of the workspace.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::set_current_dir(root.canonicalize()?)?;
    match arguments {
        ["check"] => Ok(ci::check()),
        ["ci", options @ ..] => ci::main(options),
        // Run by the step `wasm`, for a copy of the sources.
        ["module", directory] => wasm::compile_module(directory).map(|()| ExitCode::SUCCESS),
        // Run beside earlier steps.
        ["ahead", step] => ahead::compile(step).map(|()| ExitCode::SUCCESS),
        ["bench", options @ ..] => bench::main(options).map(|()| ExitCode::SUCCESS),
        ["dist", options @ ..] => dist::main(options).map(|()| ExitCode::SUCCESS),
        ["wasm"] => wasm::build().map(|()| ExitCode::SUCCESS),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(format!(
            "unknown command or option: {}; run `cargo xtask help`",
            arguments.join(" ")
        )
        .into()),
    }
}
