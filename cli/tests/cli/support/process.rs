//! Processes of the binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit of a test that would hang.
const GUARD: Duration = Duration::from_secs(120);

/// A finished run.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_knowledge"));
    // The binary must not inherit settings of the test environment.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KNOWLEDGE_") {
            command.env_remove(name);
        }
    }
    command
        .args(args)
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Returns the words of a command line, none of which has a space.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Runs the binary to its end.
pub(crate) fn knowledge(args: &[&str]) -> Finished {
    knowledge_in(&[], args)
}

/// Runs the binary to its end, with these environment variables.
pub(crate) fn knowledge_in(environment: &[(&str, &str)], args: &[&str]) -> Finished {
    let output = command(args)
        .envs(environment.iter().copied())
        .output()
        .expect("run the binary");
    let text = |bytes| String::from_utf8(bytes).expect("output in UTF-8");
    Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

impl Finished {
    /// Asserts that the run succeeded.
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self
    }

    /// Asserts a usage error, and returns its standard error.
    pub(crate) fn refused(self) -> String {
        assert_eq!(self.code, 2, "{}{}", self.stdout, self.stderr);
        self.stderr
    }

    /// Asserts a failure with code 1, and returns its one line, which begins with `error: `.
    pub(crate) fn failed(self) -> String {
        assert_eq!(self.code, 1, "{}{}", self.stdout, self.stderr);
        let last = self.stderr.lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("error: "), "{}", self.stderr);
        last
    }

    /// Asserts that the run failed with this line.
    #[track_caller]
    pub(crate) fn fails(self, error: &str) {
        assert_eq!(self.failed(), error);
    }

    /// Asserts that the run printed this text.
    #[track_caller]
    pub(crate) fn prints(&self, text: &str) {
        assert_eq!(self.stdout, text);
    }

    /// Asserts that standard output of the run begins with this text.
    #[track_caller]
    pub(crate) fn begins(&self, text: &str) {
        assert!(self.stdout.starts_with(text), "{text:?}:\n{}", self.stdout);
    }

    /// Asserts that standard output of the run has this part.
    #[track_caller]
    pub(crate) fn shows(&self, part: &str) {
        assert!(self.stdout.contains(part), "{part:?}:\n{}", self.stdout);
    }

    /// Asserts that standard error of the run has this part.
    #[track_caller]
    pub(crate) fn warns(&self, part: &str) {
        assert!(self.stderr.contains(part), "{part:?}:\n{}", self.stderr);
    }
}

/// A run in progress, which dropping kills.
pub(crate) struct Server {
    process: Child,
    stdout: BufReader<ChildStdout>,
    errors: Receiver<String>,
    reading: Option<JoinHandle<()>>,
}

/// Starts the binary.
pub(crate) fn start(args: &[&str]) -> Server {
    start_in(&[], args)
}

/// Starts the binary, with these environment variables.
pub(crate) fn start_in(environment: &[(&str, &str)], args: &[&str]) -> Server {
    let mut process = command(args)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .spawn()
        .expect("start the binary");
    let stdout = BufReader::new(process.stdout.take().expect("a pipe"));
    let stderr = BufReader::new(process.stderr.take().expect("a pipe"));
    let (sender, errors) = channel();
    let reading = std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Server {
        process,
        stdout,
        errors,
        reading: Some(reading),
    }
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the next line on standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        assert!(
            !line.is_empty(),
            "{:?}",
            self.errors.try_iter().collect::<Vec<_>>()
        );
        line
    }

    /// Returns standard output up to and including the first line that contains `mark`.
    pub(crate) fn output_until(&mut self, mark: &str) -> String {
        let mut output = String::new();
        loop {
            let line = self.line();
            output.push_str(&line);
            if line.contains(mark) {
                return output;
            }
        }
    }

    /// Returns the next line on standard error that contains `mark`.
    pub(crate) fn error_with(&self, mark: &str) -> String {
        let found = self.error_or_end(mark);
        found.unwrap_or_else(|| panic!("ended without {mark:?}"))
    }

    /// Returns the next line on standard error that contains `mark`; `None` if the run ends before.
    pub(crate) fn error_or_end(&self, mark: &str) -> Option<String> {
        let deadline = Instant::now() + GUARD;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.errors.recv_timeout(left) {
                Ok(line) if line.contains(mark) => return Some(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => panic!("waited too long for {mark:?}"),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Returns the address in the server's log, of any format.
    pub(crate) fn base_url(&self) -> String {
        let line = self.error_with("listening on http");
        let (_, url) = line.split_once("listening on ").expect("the mark");
        url.split('"').next().unwrap_or_default().trim().to_owned()
    }

    /// Closes the pipe of standard error when the next line comes.
    pub(crate) fn close_errors(&mut self) {
        self.errors = channel().1;
    }

    /// Writes to standard input.
    pub(crate) fn tell(&mut self, text: &str) {
        let input = self.process.stdin.as_mut().expect("a pipe");
        input.write_all(text.as_bytes()).expect("tell the process");
        input.flush().expect("tell the process");
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("kill");
        self.process.wait().expect("wait");
    }

    /// Sends SIGHUP.
    pub(crate) fn hang_up(&self) {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::HUP).expect("a signal");
    }

    /// Returns the exit code, once it has ended by itself.
    pub(crate) fn ended(mut self) -> i32 {
        let status = self.process.wait().expect("wait");
        status.code().unwrap_or(-1)
    }

    /// Sends SIGTERM, and returns the exit code.
    pub(crate) fn terminate(mut self) -> i32 {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("a signal");
        let status = self.process.wait().expect("wait");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("output");
        if let Some(reading) = self.reading.take() {
            reading.join().expect("the reader does not panic");
        }
        status.code().unwrap_or(-1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
