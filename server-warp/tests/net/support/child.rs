//! A child process that runs one ignored test of this binary, for effects on the whole process.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// Variable that marks a deliberate run of the ignored test.
const MARK: &str = "KNOWLEDGE_NET_TEST_CHILD";

/// The running child, which dropping kills.
pub(crate) struct Child {
    process: std::process::Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Child {
    /// Starts the ignored test of this name.
    pub(crate) fn start(test: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(MARK, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the child");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, output }
    }

    /// Returns true if this process is such a child; in others, the ignored tests do nothing.
    pub(crate) fn is_this() -> bool {
        std::env::var_os(MARK).is_some()
    }

    /// Returns the text after the marker, in the first line of output that contains it.
    pub(crate) fn line_with(&mut self, marker: &str) -> String {
        let mut line = String::new();
        while self.output.read_line(&mut line).expect("output") > 0 {
            if let Some((_, rest)) = line.split_once(marker) {
                return rest.trim().to_owned();
            }
            line.clear();
        }
        panic!("the child ended without {marker:?}");
    }

    /// Sends a line to the child.
    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().expect("a pipe");
        writeln!(input, "{line}").expect("tell the child");
    }

    /// Waits for the child to succeed, and returns its standard error.
    pub(crate) fn finish(mut self) -> String {
        let mut errors = String::new();
        let mut pipe = self.process.stderr.take().expect("a pipe");
        pipe.read_to_string(&mut errors).expect("errors in UTF-8");
        let status = self.process.wait().expect("the child ends");
        assert!(status.success(), "{status}: {errors}");
        errors
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
