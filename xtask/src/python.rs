//! Python with separate packages, in the build directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Result, run, succeeds};
use crate::tools;

/// A Python interpreter with the required packages.
pub(crate) struct Python {
    program: PathBuf,
    /// Directory of the packages, unless the interpreter has its own environment.
    packages: Option<PathBuf>,
}

impl Python {
    /// Installs the packages of a requirements file in a directory.
    ///
    /// # Errors
    /// If Python or a package cannot be installed.
    pub(crate) fn install(root: &Path, requirements: &str) -> Result<Self> {
        tools::install_programs(&[("python3", "python3")])?;
        let root = std::env::current_dir()?.join(root);
        let program = root.join("environment/bin/python");
        let has_environment = succeeds(Command::new(&program).args(["-m", "pip", "--version"]))
            || succeeds(
                Command::new("python3")
                    .args(["-m", "venv", "--clear"])
                    .arg(root.join("environment")),
            );
        let pip = |program: &Path| {
            let mut pip = Command::new(program);
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]);
            pip.args(["--requirement", requirements]);
            pip
        };
        if has_environment {
            run(&mut pip(&program))?;
            return Ok(Self {
                program,
                packages: None,
            });
        }
        // Some systems have Python and pip without the `venv` module.
        let (program, packages) = (PathBuf::from("python3"), root.join("packages"));
        if !succeeds(Command::new(&program).args(["-m", "pip", "--version"])) {
            tools::install_debian_packages(&["python3-pip"])?;
        }
        run(pip(&program)
            .arg("--upgrade")
            .arg("--target")
            .arg(&packages))?;
        Ok(Self {
            program,
            packages: Some(packages),
        })
    }

    /// Returns the interpreter.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the directory of the packages, if it must be on `PYTHONPATH`.
    pub(crate) fn packages(&self) -> Option<&Path> {
        self.packages.as_deref()
    }

    /// Returns the search path of programs, which begins with the programs of the packages.
    pub(crate) fn program_path(&self) -> Result<std::ffi::OsString> {
        let own = match &self.packages {
            Some(packages) => packages.join("bin"),
            None => self.program.with_file_name(""),
        };
        let others = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(own).chain(std::env::split_paths(&others));
        Ok(std::env::join_paths(all)?)
    }

    /// Returns a command that runs a module.
    pub(crate) fn command(&self, module: &str) -> Command {
        self.run(["-m", module])
    }

    /// Returns a command that runs the text of a program.
    pub(crate) fn script(&self, text: &str) -> Command {
        self.run(["-c", text])
    }

    fn run(&self, arguments: [&str; 2]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        if let Some(packages) = &self.packages {
            command.env("PYTHONPATH", packages);
        }
        command
    }

    /// Returns the search path of modules: the packages, and `also`.
    pub(crate) fn search_path(&self, also: &Path) -> Result<std::ffi::OsString> {
        let paths = self.packages.iter().map(PathBuf::as_path).chain([also]);
        Ok(std::env::join_paths(paths)?)
    }
}
