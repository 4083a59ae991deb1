//! Typed clients that generators make from the OpenAPI document, used against the demo.
//!
//! The documentation has the commands that generate them, and the examples.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::demo::Demo;
use crate::process::{Result, run};
use crate::python::Python;
use crate::tools;

/// Directory of the test programs and their requirements.
const FILES: &str = "server-warp/tests/clients";
/// Documentation with the commands and the examples.
const PAGE: &str = "docs/clients.md";
/// Directory of the installed packages and of the generated clients.
const INSTALLED: &str = "target/clients";

/// Generates a client in each language, compiles it with programs that use it, and runs these.
///
/// # Errors
/// If a package cannot be installed, a client cannot be generated or compiled, a wrong body
/// compiles, or a program fails.
pub(crate) fn check(demo: &Demo) -> Result {
    let page = fs::read_to_string(PAGE)?;
    let (_, page) = page
        .split_once("\n## TypeScript\n")
        .ok_or("no TypeScript")?;
    let (typescript, python) = page.split_once("\n## Python\n").ok_or("no Python")?;
    check_typescript(demo, typescript)?;
    check_python(demo, python)
}

fn check_typescript(demo: &Demo, chapter: &str) -> Result {
    tools::install_node()?;
    let files = Path::new(FILES).join("node");
    let client = Client::new(demo, &Path::new(INSTALLED).join("node"))?;
    tools::copy_npm_packages(&files, &client.directory)?;
    let examples = client.generate(chapter, &files, ("ts", "ts"))?;
    run(&mut client.command("npx", &["tsc"]))?;
    for name in examples {
        run(&mut client.command("node", &[&format!("compiled/{name}.js")]))?;
    }
    run(&mut client.command("node", &["compiled/operations.js"]))
}

fn check_python(demo: &Demo, chapter: &str) -> Result {
    let files = Path::new(FILES).join("python");
    let root = Path::new(INSTALLED).join("python");
    let requirements = files.join("requirements.txt");
    let python = Python::install(&root, &requirements.to_string_lossy())?;
    let mut client = Client::new(demo, &root.join("programs"))?;
    client.environment.push(("PATH", python.program_path()?));
    if let Some(packages) = python.packages() {
        client.environment.push(("PYTHONPATH", packages.into()));
    }
    let examples = client.generate(chapter, &files, ("python", "py"))?;
    run(&mut client.command("mypy", &["."]))?;
    let program = python.program().to_string_lossy();
    for name in examples {
        run(&mut client.command(&program, &[&format!("{name}.py")]))?;
    }
    run(&mut client.command(&program, &["operations.py"]))
}

/// A generated client with programs that use it.
struct Client {
    directory: PathBuf,
    environment: Vec<(&'static str, OsString)>,
}

impl Client {
    /// Makes an empty directory for a client of the demo.
    fn new(demo: &Demo, directory: &Path) -> Result<Self> {
        let directory = std::env::current_dir()?.join(directory);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory)?;
        let variables = demo.variables.iter();
        Ok(Self {
            directory,
            environment: variables
                .map(|(name, value)| (*name, value.into()))
                .collect(),
        })
    }

    /// Copies the programs of the tests, runs the commands of a chapter, and writes its examples in
    /// a language with this file extension.
    ///
    /// Returns the names of the examples.
    fn generate(
        &self,
        chapter: &str,
        files: &Path,
        (language, extension): (&str, &str),
    ) -> Result<Vec<String>> {
        for file in fs::read_dir(files)? {
            let file = file?;
            fs::copy(file.path(), self.directory.join(file.file_name()))?;
        }
        for commands in blocks(chapter, "sh") {
            run(&mut self.command("bash", &["-euc", commands]))?;
        }
        let mut names = Vec::new();
        for (index, text) in blocks(chapter, language).enumerate() {
            let name = format!("example_{index}");
            fs::write(self.directory.join(format!("{name}.{extension}")), text)?;
            names.push(name);
        }
        if names.is_empty() {
            return Err(format!("{PAGE} has no example in {language}").into());
        }
        Ok(names)
    }

    /// Returns a command in the directory, with the variables of the demo.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.directory);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Returns the blocks of a text in Markdown that are in this language.
fn blocks<'t>(text: &'t str, language: &str) -> impl Iterator<Item = &'t str> {
    let start = format!("{language}\n");
    let fenced = text.split("\n```").skip(1).step_by(2);
    fenced.filter_map(move |block| block.strip_prefix(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_the_language() {
        let text = "A\n\n```sh\na\nb\n```\n\n```ts\nc\n```\n\n```sh\nd\n```\n";
        let found: Vec<&str> = blocks(text, "sh").collect();
        assert_eq!(found, ["a\nb", "d"]);
    }
}
