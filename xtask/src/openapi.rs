//! The OpenAPI document against the server that it describes: schemathesis asks the demo everything it can think of.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::process::{Result, cargo, run};
use crate::python::Python;

/// What is asked with, and what the asking needs.
const FILES: &str = "server-warp/tests/schemathesis";
/// Where the Python packages are installed, and what a run leaves behind.
const PYTHON: &str = "target/schemathesis";
/// In what phases it asks, and for how many seconds. The phase that follows links comes first: what the others do to
/// members and their roles may leave the session with little that it may do. The seed is fixed.
const PHASES: [(&str, &str); 2] = [("stateful", "50"), ("examples,coverage,fuzzing", "110")];
const SEED: &str = "20260101";
/// How many requests each operation gets in each phase.
const EXAMPLES_MAX: &str = "25";
/// Copies what is at an address into a file.
const DOWNLOAD: &str = "import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])";
/// Enough to relabel, to list and to delete.
const MEMORIES: &str = "200";

/// Starts the demo, lets schemathesis ask it, and ends it.
///
/// # Errors
/// Something cannot be installed or started; the document is not OpenAPI 3.1; an answer is not what it says.
pub(crate) fn check() -> Result {
    let python = Python::install(Path::new(PYTHON), &format!("{FILES}/requirements.txt"))?;
    run(cargo().args(["build", "--locked", "--package", "knowledge-server"]))?;
    let directory = std::env::current_dir()?.join(PYTHON).join("run");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory)?;
    let demo = Demo::start(&directory)?;
    let files = std::env::current_dir()?.join(FILES);
    let document = directory.join("openapi.json");
    let address = format!("{}/openapi.json", demo.url);
    let mut download = Command::new(python.program());
    download.args(["-c", DOWNLOAD, &address]).arg(&document);
    run(&mut download)?;
    let mut validator = python.command("openapi_spec_validator");
    validator.args(["--schema", "3.1"]).arg(&document);
    run(&mut validator)?;
    for (phases, seconds_max) in PHASES {
        let mut asking = python.command("schemathesis.cli");
        asking
            .current_dir(&directory)
            .env("KNOWLEDGE_DEMO", &demo.printed)
            .env("KNOWLEDGE_TOKEN", &demo.token)
            .env("KNOWLEDGE_SESSION", &demo.session)
            .env("PYTHONPATH", python.path(&files)?)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .arg("--config-file")
            .arg(files.join("schemathesis.toml"))
            .args(["run", &address, "--phases", phases])
            .args(["--seed", SEED, "--max-time", seconds_max])
            .args(["--max-examples", EXAMPLES_MAX, "--continue-on-failure"]);
        run(&mut asking)?;
    }
    Ok(())
}

/// A running `knowledge demo`. It is ended when dropped.
struct Demo {
    process: Child,
    /// Kept open: a process whose output nobody holds is told so by a signal.
    _output: BufReader<ChildStdout>,
    url: String,
    token: String,
    session: String,
    /// The file with the line that it printed.
    printed: PathBuf,
}

impl Demo {
    fn start(directory: &Path) -> Result<Self> {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let mut process = Command::new(Path::new(&target).join("debug/knowledge"))
            .args(["demo", "--listen", "127.0.0.1:0", "--output", "json"])
            // It registers webhooks for whatever hosts it can think of.
            .args(["--no-deliveries", "--memories", MEMORIES, "--data-dir"])
            .arg(directory.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the demo: {error}"))?;
        let mut output = BufReader::new(process.stdout.take().ok_or("the demo has no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let field = |name: &str| {
            let found = line.split_once(&format!("\"{name}\":\""));
            let value = found.and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_owned()));
            value.ok_or_else(|| format!("the demo does not print its {name}"))
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
        let printed = directory.join("demo.json");
        std::fs::write(&printed, &line)?;
        Ok(Self {
            process,
            _output: output,
            url,
            token,
            session,
            printed,
        })
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
