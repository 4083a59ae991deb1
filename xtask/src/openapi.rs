//! The check of the OpenAPI document against the demo, by schemathesis.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::process::{Result, run};
use crate::programs::{self, GLUE, SERVER};
use crate::python::Python;

/// Directory of the configuration and the requirements of schemathesis.
const FILES: &str = "server-warp/tests/schemathesis";
/// Directory of the Python packages, and of the files of a run.
const PYTHON: &str = "target/schemathesis";
/// Phases of a run with their time limits in seconds.
///
/// The phase that follows links runs first: the other phases may change members and roles so that
/// the session has few permissions left. The seed is fixed.
const PHASES: [(&str, &str); 2] = [("stateful", "50"), ("examples,coverage,fuzzing", "110")];
const SEED: &str = "20260101";
/// Number of requests per operation and phase.
const EXAMPLES_MAX: &str = "25";
/// Python program that downloads a URL to a file.
const DOWNLOAD: &str = "import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])";
/// Number of memories, enough to relabel, list and delete.
const MEMORIES: &str = "200";

/// Starts the demo, runs schemathesis against it, and stops it.
///
/// # Errors
/// If a tool cannot be installed or started, a document is not OpenAPI 3.1, or a response does
/// not match it.
pub(crate) fn check() -> Result {
    let python = Python::install(Path::new(PYTHON), &format!("{FILES}/requirements.txt"))?;
    let programs = programs::build(&[SERVER, GLUE])?;
    let directory = std::env::current_dir()?.join(PYTHON).join("run");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory)?;
    let demo = Demo::start(programs.command(SERVER), &directory)?;
    let files = std::env::current_dir()?.join(FILES);
    let document = directory.join("openapi.json");
    let address = format!("{}/openapi.json", demo.url);
    let mut download = Command::new(python.program());
    download.args(["-c", DOWNLOAD, &address]).arg(&document);
    run(&mut download)?;
    let operator_document = directory.join("operator.json");
    let documents = programs.openapi_documents()?;
    std::fs::write(
        &operator_document,
        documents.lines().nth(1).unwrap_or_default(),
    )?;
    let mut validator = python.command("openapi_spec_validator");
    validator.args(["--schema", "3.1"]);
    run(validator.args([&document, &operator_document]))?;
    for (phases, seconds_max) in PHASES {
        let mut command = python.command("schemathesis.cli");
        command
            .current_dir(&directory)
            .env("KNOWLEDGE_DEMO", &demo.output_file)
            .env("KNOWLEDGE_TOKEN", &demo.token)
            .env("KNOWLEDGE_SESSION", &demo.session)
            .env("PYTHONPATH", python.search_path(&files)?)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .arg("--config-file")
            .arg(files.join("schemathesis.toml"))
            .args(["run", &address, "--phases", phases])
            .args(["--seed", SEED, "--max-time", seconds_max])
            .args(["--max-examples", EXAMPLES_MAX, "--continue-on-failure"]);
        run(&mut command)?;
    }
    Ok(())
}

/// A running `knowledge demo`, stopped on drop.
struct Demo {
    process: Child,
    /// Kept open: the process would receive a signal when it writes to a closed pipe.
    _output: BufReader<ChildStdout>,
    url: String,
    token: String,
    session: String,
    /// File with the line that the demo printed.
    output_file: PathBuf,
}

impl Demo {
    fn start(mut program: Command, directory: &Path) -> Result<Self> {
        let mut process = program
            .args(["demo", "--listen", "127.0.0.1:0", "--output", "json"])
            // Requests register webhooks for arbitrary hosts.
            .args(["--no-deliveries", "--memories", MEMORIES, "--data-dir"])
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
