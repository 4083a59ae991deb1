//! The project's own commands: everything that has to be built, checked or measured by more than one plain `cargo`
//! call. It depends on the standard library alone, so that a cold start costs seconds.

mod ci;
mod libraries;
mod openapi;
mod process;
mod python;
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
  ci            Run every check and every test, installing the tools they need
    --only STEP   run this step only (may be given more than once)
    --list        name the steps and end
  wasm          Build the WebAssembly package into wasm/pkg and print its sizes
  help          Print this text
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
    // Every path in this program is relative to the root of the workspace, wherever it is called from.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::set_current_dir(root.canonicalize()?)?;
    match arguments {
        ["ci", options @ ..] => ci::main(options),
        ["wasm"] => wasm::build().map(|()| ExitCode::SUCCESS),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(format!(
            "unknown command or option: {}; `cargo xtask help` lists them",
            arguments.join(" ")
        )
        .into()),
    }
}
