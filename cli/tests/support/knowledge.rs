//! The real binary, serving a data directory, or the database that stands for one.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::service::KnowledgeService;
use knowledge_http_suite::client::GUARD;
use knowledge_server::data::DataConfig;
use knowledge_server::private_file;
use knowledge_storage_postgres::testing::{self, Server, ServerOptions};
use rustix::process::{Pid, Signal, kill_process};

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
            .args(["--log-format", "text"])
            .args(place(data_dir))
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

/// Name of the engine whose stores are databases.
const POSTGRES: &str = "postgres";

/// Returns the file with the URL of the database that stands for a directory.
fn url_file(data_dir: &Path) -> PathBuf {
    private_file::with_suffix(data_dir, ".url")
}

/// Returns the file with the sealing key of that database.
fn key_file(data_dir: &Path) -> PathBuf {
    private_file::with_suffix(data_dir, ".key")
}

/// Returns the flags that locate the store.
pub(crate) fn place(data_dir: &Path) -> Vec<String> {
    match fs::read_to_string(url_file(data_dir)) {
        Ok(url) => vec![
            format!("--store={url}"),
            format!("--sealing-key-file={}", key_file(data_dir).display()),
        ],
        Err(_) => vec![format!("--data-dir={}", data_dir.display())],
    }
}

/// Returns the PostgreSQL server of this process, of the first installation.
pub(crate) fn postgres() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&testing::installations()[0], &ServerOptions::default()))
}

/// Returns the database that stands for a directory, which is created with the first call.
///
/// A later call waits until the connections of killed servers are closed: what they had sent may
/// still be applied.
pub(crate) async fn database(data_dir: &Path) -> DataConfig {
    let Ok(url) = fs::read_to_string(url_file(data_dir)) else {
        let server = postgres();
        return database_at(data_dir, &server.url(&server.create_database().await));
    };
    let (_, name) = url.rsplit_once('/').expect("the name of a database");
    unused(name).await;
    config_of(data_dir, &url)
}

/// Lets an empty database stand for a directory.
pub(crate) fn database_at(data_dir: &Path, url: &str) -> DataConfig {
    private_file::create(&url_file(data_dir), url).expect("write the URL");
    private_file::create(&key_file(data_dir), &"5e".repeat(32)).expect("write the key");
    config_of(data_dir, url)
}

fn config_of(data_dir: &Path, url: &str) -> DataConfig {
    DataConfig {
        sealing_key_file: Some(key_file(data_dir)),
        ..DataConfig::of(url.parse().expect("the address of a store"))
    }
}

/// Waits until a database has no connections.
async fn unused(database: &str) {
    let client = postgres().connect("postgres").await;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1";
    let began = Instant::now();
    loop {
        let row = client.query_one(count, &[&database]).await;
        let connections: i64 = row.expect("a count").get(0);
        if connections == 0 {
            return;
        }
        assert!(began.elapsed() < GUARD, "{database} is still in use");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Opens the service over a directory that no process serves, through the library.
pub(crate) async fn open(data_dir: &Path) -> KnowledgeService {
    let engine = std::env::var(ENGINE);
    let config = match (engine.as_deref(), fs::read_to_string(url_file(data_dir))) {
        (Ok(POSTGRES), _) => database(data_dir).await,
        (_, Ok(url)) => config_of(data_dir, &url),
        (Ok(engine), Err(_)) => {
            let address = format!("{engine}:{}", data_dir.display());
            DataConfig::of(address.parse().expect("the address of a store"))
        }
        (Err(_), Err(_)) => DataConfig::at(data_dir),
    };
    let data = config.open().await.expect("open the data");
    let options = data.options(Limits::default());
    data.service(Env::system(), options)
        .await
        .expect("open the service")
}
