//! PgBouncer in front of a server.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::server::{Server, TIME_MAX};

/// Program of Debian's package `pgbouncer`.
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// Running PgBouncer; it stops on drop.
#[derive(Debug)]
pub struct Pooler {
    process: Child,
    port: u16,
}

impl Pooler {
    /// Starts PgBouncer in front of a server, with further lines of its configuration.
    ///
    /// # Panics
    /// If it does not start, for example because it is not installed.
    #[must_use]
    pub fn start(server: &Server, lines: &str) -> Self {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let (users, file) = server.files_of(&format!("pooler-{port}"));
        server.write(&users, &format!("\"postgres\" \"{}\"\n", server.password()));
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = plain\nauth_file = {}\n{lines}\n",
            server.port(),
            users.display()
        );
        server.write(&file, &text);
        let mut process = server
            .command_of(Path::new(PROGRAM))
            .arg("--quiet")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pgbouncer can be executed");
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let has_ended = process.try_wait().expect("a child process").is_some();
            assert!(
                !has_ended && began.elapsed() < TIME_MAX,
                "PgBouncer does not start; install the package pgbouncer"
            );
            sleep(Duration::from_millis(20));
        }
        Self { process, port }
    }

    /// Returns the URL of a database through the pooler.
    #[must_use]
    pub fn url(&self, server: &Server, database: &str) -> String {
        let url = server.url(database);
        url.replace(&format!(":{}/", server.port()), &format!(":{}/", self.port))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It has ended by itself otherwise.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
