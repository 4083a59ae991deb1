//! The peer of the benchmarks: an equivalent service in Node.js over PostgreSQL.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::process::{Result, ensure, format_command};
use crate::tools;

/// Directory of the peer.
const DIRECTORY: &str = "benches/peers";

/// A running peer with its own PostgreSQL, which dropping ends.
pub(crate) struct Peer {
    process: Child,
    address: String,
    /// Directory with the socket of its PostgreSQL.
    directory: String,
}

impl Peer {
    /// Installs the peer, and starts it over a new database with this number of memories.
    ///
    /// # Errors
    /// If a package cannot be installed, or the peer does not start.
    pub(crate) fn start(memories: usize) -> Result<Self> {
        tools::install_debian_packages(&["postgresql"])?;
        tools::install_node()?;
        tools::install_npm_packages(DIRECTORY)?;
        // npm's Node.js is the newer one, if npm has one for this system.
        let own = Path::new(DIRECTORY).join("node_modules/.bin/node");
        let mut launch = Command::new(if own.exists() {
            own.canonicalize()?
        } else {
            "node".into()
        });
        launch
            .args(["launch.mjs", &memories.to_string()])
            .current_dir(DIRECTORY)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        println!("$ {} &", format_command(&launch));
        let mut process = launch.spawn()?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let (address, directory) = line.trim().split_once(' ').unwrap_or_default();
        let peer = Self {
            process,
            address: address.to_owned(),
            directory: directory.to_owned(),
        };
        let is_started = !peer.address.is_empty();
        ensure(is_started, || "the peer does not start".to_owned())?;
        Ok(peer)
    }

    /// Returns the options by which the benchmark `whole` measures the peer.
    pub(crate) fn options(&self) -> [String; 2] {
        let (id, address, directory) = (self.process.id(), &self.address, &self.directory);
        ["--peer".to_owned(), format!("{id}@{address}@{directory}")]
    }

    /// Returns the options by which the benchmark `deliveries` uses its PostgreSQL too.
    pub(crate) fn database(&self) -> [String; 2] {
        let (id, directory) = (self.process.id(), &self.directory);
        ["--postgres".to_owned(), format!("{id}@{directory}")]
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends with its input, and removes its directory.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
