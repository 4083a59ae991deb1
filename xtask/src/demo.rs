//! The demo, as a server for tests.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::process::Result;

/// Variables of the README, each with what precedes its value in the output of the demo.
const VARIABLES: [(&str, &str); 7] = [
    ("URL", "\"base_url\":\""),
    ("TOKEN", "\"bearer_token\":\""),
    ("SESSION", "\"session_token\":\""),
    ("ORG", "\"org_slug\":\""),
    ("WORKSPACE", "\"workspace_id\":\""),
    ("RECALL", "\"recall_id\":\""),
    ("MEMORY", "\"memory_ids\":[\""),
];

/// A running `knowledge demo`, stopped on drop.
pub(crate) struct Demo {
    process: Child,
    /// Kept open: the process would receive a signal when it writes to a closed pipe.
    output: BufReader<ChildStdout>,
    /// Variables of the README with their values.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// File with the line that the demo printed.
    pub(crate) output_file: PathBuf,
}

impl Demo {
    /// Starts the demo with a number of memories, and with its data and `demo.json`, its output, in a
    /// directory.
    ///
    /// # Errors
    /// If it does not start or does not print its variables.
    pub(crate) fn start(mut program: Command, directory: &Path, memories: &str) -> Result<Self> {
        let mut process = program
            .args(["demo", "--listen", "127.0.0.1:0", "--output", "json"])
            // Requests register webhooks for arbitrary hosts.
            .args(["--no-deliveries", "--memories", memories, "--data-dir"])
            .arg(directory.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the demo: {error}"))?;
        let output = process.stdout.take();
        let mut demo = Self {
            process,
            output: BufReader::new(output.ok_or("the demo has no standard output")?),
            variables: Vec::new(),
            output_file: directory.join("demo.json"),
        };
        let mut line = String::new();
        demo.output.read_line(&mut line)?;
        for (name, before) in VARIABLES {
            let found = line.split_once(before);
            let value = found.and_then(|(_, rest)| Some(rest.split_once('"')?.0));
            let value = value.ok_or_else(|| format!("the demo did not print its {name}"))?;
            demo.variables.push((name, value.to_owned()));
        }
        std::fs::write(&demo.output_file, line)?;
        Ok(demo)
    }

    /// Returns the value of a variable.
    pub(crate) fn variable(&self, name: &str) -> &str {
        let found = self.variables.iter().find(|(other, _)| *other == name);
        found.map_or_else(|| panic!("no variable {name}"), |(_, value)| value)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
