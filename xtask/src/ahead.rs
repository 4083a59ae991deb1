//! Compilations for later steps, beside earlier ones.
//!
//! Tests often wait, and use about two thirds of two processors; the tests of the OpenAPI document
//! use one processor. Compilations beside them have the lowest priority, so that they take only the
//! rest.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::process::{Result, cargo, format_command, low_priority, succeeds};
use crate::wasm_target::WasmTarget;
use crate::{fuzz, wasm};

/// A step whose compilations can be made before it.
#[derive(Clone, Copy)]
pub(crate) enum Later {
    Wasm,
    Fuzz,
}

impl Later {
    /// Returns the name of the step, which is the argument of the command that compiles.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::Fuzz => "fuzz",
        }
    }

    /// Installs the compilers. Debian's packages are installed by one program at a time.
    fn install(self) -> Result {
        match self {
            Self::Wasm => WasmTarget::install(),
            Self::Fuzz => fuzz::install_compiler(),
        }
    }
}

/// Compiles the programs of a step.
///
/// # Errors
/// If something does not compile, or the step has nothing to compile before it.
pub(crate) fn compile(step: &str) -> Result {
    match step {
        "wasm" => wasm::compile_all(),
        "fuzz" => fuzz::build(),
        _ => Err(format!("nothing is compiled before the step {step}").into()),
    }
}

/// Running compilations of a step, which dropping ends.
pub(crate) struct Ahead {
    process: Child,
    log: String,
}

impl Ahead {
    /// Installs the compilers and starts the compilations.
    ///
    /// # Errors
    /// If a package cannot be installed.
    pub(crate) fn start(later: Later) -> Result<Self> {
        later.install()?;
        let log = format!("target/ahead-{}.log", later.name());
        fs::create_dir_all("target")?;
        let output = File::create(&log)?;
        let mut command = low_priority(&cargo());
        command
            .args(["xtask", "ahead", later.name()])
            .process_group(0)
            .stdout(output.try_clone()?)
            .stderr(output);
        println!("$ {} (output in {log})", format_command(&command));
        let process = command.spawn()?;
        Ok(Self { process, log })
    }

    /// Waits for the end of the compilations.
    ///
    /// One that failed is repeated by its step, which then reports the error.
    ///
    /// # Errors
    /// If the process cannot be waited for.
    pub(crate) fn wait(mut self) -> Result {
        let status = self.process.wait()?;
        println!(
            "compiled beside earlier steps: {status}, output in {}",
            self.log
        );
        Ok(())
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            let group = format!("-{}", self.process.id());
            succeeds(Command::new("kill").args(["-TERM", "--", &group]));
            let _ = self.process.wait();
        }
    }
}
