//! The running demo, for checks that send requests.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::process::Result;

/// A running `knowledge demo`, stopped on drop.
pub(crate) struct Demo {
    process: Child,
    /// Kept open: the process would receive a signal when it writes to a closed pipe.
    _output: BufReader<ChildStdout>,
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) session: String,
    /// File with the line that the demo printed.
    pub(crate) output_file: PathBuf,
}

impl Demo {
    /// Starts a program with a number of memories, and its data in a directory.
    ///
    /// # Errors
    /// If it does not start.
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
        let mut output = BufReader::new(
            process
                .stdout
                .take()
                .ok_or("the demo has no standard output")?,
        );
        let mut line = String::new();
        output.read_line(&mut line)?;
        let field = |name: &str| {
            let found = line.split_once(&format!("\"{name}\":\""));
            let value = found.and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_owned()));
            value.ok_or_else(|| format!("the demo did not print its {name}"))
        };
        let fields = field("base_url")
            .and_then(|url| Ok((url, field("bearer_token")?, field("session_token")?)));
        let (url, token, session) = match fields {
            Ok(fields) => fields,
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                return Err(error.into());
            }
        };
        let output_file = directory.join("demo.json");
        std::fs::write(&output_file, &line)?;
        Ok(Self {
            process,
            _output: output,
            url,
            token,
            session,
            output_file,
        })
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
