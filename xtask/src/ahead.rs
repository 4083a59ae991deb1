//! Compilations of later steps, beside the tests.
//!
//! Tests often wait, and use about two thirds of two processors. What runs beside them has the
//! lowest priority, so that it takes only the rest.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::process::{Result, cargo, format_command, low_priority, succeeds};
use crate::wasm_target::WasmTarget;
use crate::{fuzz, wasm};

/// Output of the compilations.
const LOG: &str = "target/ahead.log";

/// Running compilations, which dropping ends.
pub(crate) struct Ahead(Child);

impl Ahead {
    /// Installs the compilers and starts the compilations.
    ///
    /// # Errors
    /// If a package cannot be installed.
    pub(crate) fn start() -> Result<Self> {
        // Debian's packages are installed by one program at a time.
        WasmTarget::install()?;
        fuzz::install_compiler()?;
        fs::create_dir_all("target")?;
        let output = File::create(LOG)?;
        let mut command = low_priority(&cargo());
        command
            .args(["xtask", "ahead"])
            .process_group(0)
            .stdout(output.try_clone()?)
            .stderr(output);
        println!("$ {} (output in {LOG})", format_command(&command));
        Ok(Self(command.spawn()?))
    }

    /// Waits for the end of the compilations.
    ///
    /// One that failed is repeated by its step, which then reports the error.
    ///
    /// # Errors
    /// If the process cannot be waited for.
    pub(crate) fn wait(mut self) -> Result {
        let status = self.0.wait()?;
        println!("compilation beside the tests: {status}, output in {LOG}");
        Ok(())
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let group = format!("-{}", self.0.id());
            succeeds(Command::new("kill").args(["-TERM", "--", &group]));
            let _ = self.0.wait();
        }
    }
}

/// Compiles what the steps `wasm` and `fuzz` compile.
///
/// # Errors
/// If something does not compile.
pub(crate) fn compile() -> Result {
    // The failure of one says nothing about the other.
    let modules = wasm::compile_modules();
    fuzz::build()?;
    modules
}
