//! The real binary over one store: the server and the other commands.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use rustix::process::{Pid, Signal, kill_process};

use crate::disk::program;
use crate::machine::BOUND;
use knowledge_http_suite::client::GUARD;

/// A storage engine under test.
pub(crate) struct Engine {
    /// Name in the report.
    pub(crate) name: &'static str,
    /// Returns the argument that names a store of this engine in a directory.
    pub(crate) store_argument: fn(&Path) -> OsString,
}

/// Joins `prefix` and the directory into one argument.
pub(crate) fn argument(prefix: &str, directory: &Path) -> OsString {
    let mut argument = OsString::from(prefix);
    argument.push(directory);
    argument
}

/// A store, by the argument that names it.
pub(crate) struct Store {
    pub(crate) engine: &'static Engine,
    pub(crate) directory: PathBuf,
}

impl Store {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(BOUND[0]);
        command
            .args(&BOUND[1..])
            .arg(env!("CARGO_BIN_EXE_knowledge"))
            .args(arguments)
            .arg((self.engine.store_argument)(&self.directory));
        command
    }

    /// Runs a command over the store, which must succeed, and returns its standard output.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("start the binary");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(
            output.status.success(),
            "knowledge {} ended with {}: {} {}",
            arguments[0],
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Starts a command over the store.
    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Process(command.spawn().expect("start the binary"))
    }

    /// Starts a server on a free port, without deliveries and rate limits.
    pub(crate) fn serve(&self) -> Starting {
        let mut process = self
            .command(&["serve", "--listen", "127.0.0.1:0"])
            .args(["--log-level", "warn", "--log-format", "text"])
            .env("KNOWLEDGE_WEBHOOKS__DELIVER", "false")
            .env("KNOWLEDGE_RATE_LIMIT__REQUESTS", "0")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the binary");
        let stderr = BufReader::new(process.stderr.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        // Reads to the end, since a process whose log is not read blocks.
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Starting {
            process: Process(process),
            lines,
        }
    }
}

/// A process, which dropping kills.
pub(crate) struct Process(Child);

impl Process {
    /// Returns true once it has ended by itself; it must have succeeded.
    pub(crate) fn has_succeeded(&mut self) -> bool {
        let ended = self.0.try_wait().expect("wait");
        ended.is_some_and(|status| {
            assert!(status.success(), "ended with {status} before the cut");
            true
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that may not listen yet.
pub(crate) struct Starting {
    process: Process,
    lines: Receiver<String>,
}

impl Starting {
    /// Waits until it listens.
    ///
    /// # Panics
    /// It ends instead; the panic contains its log.
    pub(crate) fn listening(self) -> Server {
        let mut log = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(GUARD) {
            if let Some((_, url)) = line.split_once("listening on ") {
                return Server {
                    base_url: url.trim().to_owned(),
                    process: self.process,
                };
            }
            log.push(line);
        }
        panic!("the server does not open its store: {}", log.join("; "));
    }
}

/// A server that listens, which dropping kills by SIGKILL.
pub(crate) struct Server {
    process: Process,
    pub(crate) base_url: String,
}

impl Server {
    /// Sends SIGTERM, after which it must succeed.
    pub(crate) fn terminate(mut self) {
        let pid = Pid::from_child(&self.process.0);
        kill_process(pid, Signal::TERM).expect("a signal");
        let status = self.process.0.wait().expect("wait");
        assert!(status.success(), "the server ended with {status}");
    }
}
