//! The real binary, serving a data directory.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::service::KnowledgeService;
use knowledge_server::data::DataConfig;
use rustix::process::{Pid, Signal, kill_process};

use super::client::GUARD;

/// A running `knowledge serve`, which dropping kills.
pub(crate) struct Knowledge {
    process: Child,
    pub(crate) base_url: String,
}

impl Knowledge {
    /// Starts it on a free port, and waits until it listens.
    ///
    /// It makes no deliveries, as tests register foreign hosts. It has no rate limit, whose headers
    /// would differ from response to response.
    #[allow(dead_code, reason = "some tests set variables")]
    pub(crate) fn serve(data_dir: &Path) -> Self {
        let variables = [
            ("KNOWLEDGE_WEBHOOKS__DELIVER", "false"),
            ("KNOWLEDGE_RATE_LIMIT__REQUESTS", "0"),
        ];
        Self::serve_with(data_dir, &variables)
    }

    /// Starts it with these variables, and otherwise with the defaults.
    pub(crate) fn serve_with(data_dir: &Path, variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_knowledge"))
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn"])
            .args(["--log-format", "text", "--data-dir"])
            .arg(data_dir)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the binary");
        let lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let (listening, listens) = mpsc::channel();
        // Reads to the end, since a process whose log is not read blocks.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                match line.split_once("listening on ") {
                    Some((_, url)) => drop(listening.send(url.trim().to_owned())),
                    None => eprintln!("knowledge: {line}"),
                }
            }
        });
        let base_url = match listens.recv_timeout(GUARD) {
            Ok(url) => url,
            Err(_) => {
                let _ = process.kill();
                panic!("the binary does not listen: {:?}", process.wait());
            }
        };
        Self { process, base_url }
    }

    /// Sends SIGKILL, and waits until the process is gone.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// Signals and the orderly end.
#[allow(dead_code, reason = "some tests only kill it")]
impl Knowledge {
    /// Returns the identifier of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the address as `127.0.0.1:port`.
    pub(crate) fn address(&self) -> &str {
        self.base_url.strip_prefix("http://").expect("an http URL")
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::TERM).expect("a signal");
    }

    /// Sends SIGSTOP, which suspends the process.
    pub(crate) fn pause(&self) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::STOP).expect("a signal");
    }

    /// Waits until the process has ended by itself.
    pub(crate) fn ended(mut self) -> ExitStatus {
        self.process.wait().expect("wait")
    }
}

impl Drop for Knowledge {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Variable with the engine of new stores, sled by default; an existing store keeps its own.
const ENGINE: &str = "KNOWLEDGE_TEST_ENGINE";

/// Opens the service over a directory that no process serves, through the library.
pub(crate) async fn open(data_dir: &Path) -> KnowledgeService {
    let config = match std::env::var(ENGINE) {
        Ok(engine) => {
            let address = format!("{engine}:{}", data_dir.display());
            DataConfig::of(address.parse().expect("the address of a store"))
        }
        Err(_) => DataConfig::at(data_dir),
    };
    let data = config.open().await.expect("open the data");
    let options = data.options(Limits::default());
    data.service(Env::system(), options)
        .await
        .expect("open the service")
}
