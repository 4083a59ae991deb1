//! The check of the OpenAPI document against the demo, by clients made from it and by schemathesis.

use std::path::Path;

use crate::clients;
use crate::demo::Demo;
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
/// Number of memories, enough to relabel, list and delete.
const MEMORIES: &str = "200";
/// Python program that downloads a URL to a file.
const DOWNLOAD: &str = "import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])";

/// Starts the demo, runs typed clients and schemathesis against it, and stops it.
///
/// # Errors
/// If a tool cannot be installed or started, a document is not OpenAPI 3.1, a client cannot be made
/// from it or fails, or a response does not match it.
pub(crate) fn check() -> Result {
    let python = Python::install(Path::new(PYTHON), &format!("{FILES}/requirements.txt"))?;
    let programs = programs::build(&[SERVER, GLUE])?;
    let directory = std::env::current_dir()?.join(PYTHON).join("run");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory)?;
    let demo = Demo::start(programs.command(SERVER), &directory, MEMORIES)?;
    let files = std::env::current_dir()?.join(FILES);
    let document = directory.join("openapi.json");
    let address = format!("{}/openapi.json", demo.variable("URL"));
    let mut download = python.script(DOWNLOAD);
    run(download.arg(&address).arg(&document))?;
    let operator_document = directory.join("operator.json");
    let documents = programs.openapi_documents()?;
    std::fs::write(
        &operator_document,
        documents.lines().nth(1).unwrap_or_default(),
    )?;
    let mut validator = python.command("openapi_spec_validator");
    validator.args(["--schema", "3.1"]);
    run(validator.args([&document, &operator_document]))?;
    // Before schemathesis, which changes roles and members.
    clients::check(&demo)?;
    for (phases, seconds_max) in PHASES {
        let mut command = python.command("schemathesis.cli");
        command
            .current_dir(&directory)
            .env("KNOWLEDGE_DEMO", &demo.output_file)
            .env("KNOWLEDGE_TOKEN", demo.variable("TOKEN"))
            .env("KNOWLEDGE_SESSION", demo.variable("SESSION"))
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
