//! A PostgreSQL server in a directory of its own.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use super::account::Account;
use super::installation::copy_installation;

/// Time limit of a start or a stop, long enough for a busy machine.
pub(super) const TIME_MAX: Duration = Duration::from_secs(60);
/// Password of the user `postgres` over TCP.
const PASSWORD: &str = "postgres-test-password";

/// Stops a server and removes its directory when its standard input ends, which is at the latest
/// when the test program ends, in whatever way.
const GUARDIAN: &str = r#"
trap '' HUP INT TERM
cat > /dev/null
if pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null); then
    kill -INT "$pid"
    tries=0
    while kill -0 "$pid" 2> /dev/null && [ $tries -lt 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
fi
rm -rf "$1"
"#;

/// Options of a test server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Settings, as in `postgresql.conf`.
    pub settings: Vec<(String, String)>,
    /// Files to write into the data directory, readable by the server only.
    pub files: Vec<(String, String)>,
}

impl ServerOptions {
    /// Adds a setting.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a file in the data directory.
    #[must_use]
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }
}

/// Running PostgreSQL server; it stops on drop.
///
/// It listens on a free port of the loopback address, where it requires a password, and on a Unix
/// socket, where it does not. It does not sync: its contents survive a killed process, but no loss
/// of power.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    directory: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
    account: Option<Account>,
    pub(super) process: Mutex<Option<Child>>,
    guardian: Mutex<Child>,
    databases: AtomicUsize,
}

impl Server {
    /// Creates and starts a server with the programs of a directory.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(programs: &Path, options: &ServerOptions) -> Self {
        let server = Self::create(programs, options);
        server.initialize(options);
        server.start_again();
        server
    }

    /// Creates and starts a standby of a server, with its programs and its settings.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_standby(primary: &Self) -> Self {
        let options = ServerOptions {
            settings: primary.settings.clone(),
            files: Vec::new(),
        };
        let standby = Self::create(&primary.programs, &options);
        standby.follow(primary);
        standby
    }

    fn create(programs: &Path, options: &ServerOptions) -> Self {
        let directory = TempDir::with_prefix("knowledge-postgres-").expect("a new directory");
        let account = Account::needed();
        let mut programs = programs.to_owned();
        if let Some(account) = &account {
            account.own(directory.path());
            if !account.can_execute(&programs.join("initdb")) {
                programs = copy_installation(&programs, directory.path());
            }
        }
        let guardian = Command::new("sh")
            .args(["-c", GUARDIAN, "guardian"])
            .arg(directory.path())
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        Self {
            programs,
            directory: directory.keep(),
            port,
            settings: options.settings.clone(),
            account,
            process: Mutex::default(),
            guardian: Mutex::new(guardian),
            databases: AtomicUsize::new(0),
        }
    }

    fn initialize(&self, options: &ServerOptions) {
        let password = self.directory.join("password");
        self.write(&password, PASSWORD);
        let initialized = self
            .command("initdb")
            .args(["--username=postgres", "--encoding=UTF8", "--no-locale"])
            .args([
                "--no-sync",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
            ])
            .arg(format!("--pwfile={}", password.display()))
            .arg(format!("--pgdata={}", self.data().display()))
            .output()
            .expect("initdb can be executed");
        assert!(
            initialized.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&initialized.stderr)
        );
        for (name, text) in &options.files {
            self.write(&self.data().join(name), text);
        }
    }

    pub(super) fn write(&self, path: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        fs::write(path, text).expect("a file can be written");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(path, private).expect("permissions can be set");
        if let Some(account) = &self.account {
            account.own(path);
        }
    }

    pub(super) fn command(&self, program: &str) -> Command {
        self.command_of(&self.programs.join(program))
    }

    /// Returns the paths of two files of a name in the directory of the server.
    pub(super) fn files_of(&self, name: &str) -> (PathBuf, PathBuf) {
        let of = |end: &str| self.directory.join(format!("{name}.{end}"));
        (of("users"), of("ini"))
    }

    /// Returns a command that executes a program as the user of the server.
    pub(super) fn command_of(&self, program: &Path) -> Command {
        let mut command = match &self.account {
            Some(account) => account.command(program),
            None => Command::new(program),
        };
        command.current_dir(&self.directory).stdin(Stdio::null());
        command
    }

    /// Starts the server after [`Server::stop`], on the same port, and waits until it accepts
    /// connections.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&self) {
        let log = self.directory.join("log");
        let log = fs::OpenOptions::new().create(true).append(true).open(log);
        let log = log.expect("a log file");
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(&self.directory)
            .args(["-p", &self.port.to_string(), "-h", "127.0.0.1"])
            .args(["-c", "fsync=off", "-c", "full_page_writes=off"])
            .args(["-c", "max_wal_size=256MB", "-c", "shared_buffers=32MB"]);
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let output = log.try_clone().expect("a file handle can be cloned");
        let mut process = command
            .stdout(output)
            .stderr(log)
            .spawn()
            .expect("postgres can be executed");
        let began = Instant::now();
        while !self.is_ready() {
            let has_ended = process.try_wait().expect("a child process").is_some();
            assert!(
                !has_ended && began.elapsed() < TIME_MAX,
                "the server does not start: {}",
                self.log()
            );
            sleep(Duration::from_millis(20));
        }
        *lock(&self.process) = Some(process);
    }

    /// True once the server has written that it is ready into its lock file.
    fn is_ready(&self) -> bool {
        let file = fs::read_to_string(self.data().join("postmaster.pid"));
        file.is_ok_and(|text| {
            text.lines()
                .nth(7)
                .is_some_and(|line| line.trim() == "ready")
        })
    }

    /// Stops the server as for a restart: it ends all connections at once.
    ///
    /// # Panics
    /// If it does not stop.
    pub fn stop(&self) {
        self.end(Signal::INT);
    }

    /// Ends the server without any notice to its clients, as in a crash.
    ///
    /// # Panics
    /// If it does not end.
    pub fn crash(&self) {
        self.end(Signal::QUIT);
    }

    fn end(&self, signal: Signal) {
        let Some(mut process) = lock(&self.process).take() else {
            return;
        };
        let pid = Pid::from_child(&process);
        kill_process(pid, signal).expect("the process of this server");
        process.wait().expect("the server ends");
    }

    /// Returns the log of the server.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Returns the version as the server's program reports it.
    ///
    /// # Panics
    /// If the program cannot be executed.
    #[must_use]
    pub fn version(&self) -> String {
        let output = self.command("postgres").arg("--version").output();
        let output = output.expect("postgres can be executed").stdout;
        String::from_utf8_lossy(&output).trim().to_owned()
    }

    /// Returns the port on the loopback address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the password of the user `postgres` over TCP.
    #[must_use]
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    /// Returns the URL of a database over TCP, with the password.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let port = self.port;
        format!("postgres://postgres:{PASSWORD}@127.0.0.1:{port}/{database}")
    }

    /// Returns a connection string of a database over the Unix socket.
    #[must_use]
    pub fn socket(&self, database: &str) -> String {
        let (directory, port) = (self.directory.display(), self.port);
        format!("host={directory} port={port} user=postgres dbname={database}")
    }

    /// Creates an empty database and returns its name.
    ///
    /// # Panics
    /// If it cannot be created.
    pub async fn create_database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        let create = format!("CREATE DATABASE {name}");
        let client = self.connect("postgres").await;
        client.batch_execute(&create).await.expect("a new database");
        name
    }

    /// Connects to a database as its superuser, over the Unix socket.
    ///
    /// # Panics
    /// If there is no connection.
    pub async fn connect(&self, database: &str) -> Client {
        let connected = tokio_postgres::connect(&self.socket(database), NoTls).await;
        let (client, connection) = connected.expect("the server accepts connections");
        tokio::spawn(connection);
        client
    }

    pub(super) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let mut guardian = lock(&self.guardian);
        drop(guardian.stdin.take());
        let _ = guardian.wait();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
