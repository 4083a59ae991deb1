//! A database with its key, and what runs on it.

#[path = "../support/knowledge.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
pub(crate) mod knowledge;
#[path = "../cli/support/process.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod process;
#[path = "../../../server-warp/tests/deliveries/support/receiver.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod receiver;
#[path = "../support/text.rs"]
mod text;

use std::fs;
use std::future::Future;
use std::path::PathBuf;

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::service::KnowledgeService;
use knowledge_server::data::DataConfig;
use tempfile::TempDir;

use self::knowledge::{database, database_at, place, postgres};
pub(crate) use self::process::{Finished, Server, knowledge, knowledge_in, start, start_in};
pub(crate) use self::receiver::{Received, Receiver};
pub(crate) use self::text::AssertText;
pub(crate) use knowledge_http_suite::client::{Call, GUARD};

/// Awaits a future that must complete.
pub(crate) async fn guarded<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(2 * GUARD, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited too long for {what}"),
    }
}

/// A new database, with a directory for the files of a test.
pub(crate) struct Site {
    directory: TempDir,
    pub(crate) data_dir: PathBuf,
    pub(crate) config: DataConfig,
}

impl Site {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let data_dir = directory.path().join("data");
        let config = database(&data_dir).await;
        Self {
            directory,
            data_dir,
            config,
        }
    }

    /// Creates the files for an empty database of another server.
    pub(crate) fn at(url: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let data_dir = directory.path().join("data");
        let config = database_at(&data_dir, url);
        Self {
            directory,
            data_dir,
            config,
        }
    }

    /// Returns the path of a file of the test, as an argument.
    pub(crate) fn arg(&self, name: &str) -> String {
        let path = self.directory.path().join(name);
        path.to_str().expect("a path in UTF-8").to_owned()
    }

    /// Returns the URL with its password.
    pub(crate) fn url(&self) -> String {
        let [store, _] = self.flags();
        store.strip_prefix("--store=").expect("the flag").to_owned()
    }

    /// Returns the name of the database.
    pub(crate) fn name(&self) -> String {
        let url = self.url();
        url.rsplit_once('/').expect("a name").1.to_owned()
    }

    /// Returns the file of the sealing key.
    pub(crate) fn key_file(&self) -> PathBuf {
        let file = self.config.sealing_key_file.clone();
        file.expect("a file")
    }

    /// Returns the flags that name the store and its key.
    pub(crate) fn flags(&self) -> [String; 2] {
        place(&self.data_dir).try_into().expect("two flags")
    }

    /// Runs a command on the database.
    pub(crate) fn run(&self, args: &[&str]) -> Finished {
        let [store, key] = &self.flags();
        knowledge(&[args, &[store.as_str(), key.as_str()]].concat())
    }

    /// Starts a server.
    pub(crate) fn serve(&self) -> Server {
        let [store, key] = &self.flags();
        start(&["serve", store, key, "--listen=127.0.0.1:0"])
    }

    /// Opens the service, through the library.
    pub(crate) async fn open(&self) -> KnowledgeService {
        open(&self.config).await
    }

    /// Dumps the database, and returns the lines.
    pub(crate) fn dumped(&self, name: &str) -> String {
        let file = self.arg(name);
        self.run(&["dump", &file]).ok();
        fs::read_to_string(file).expect("a dump")
    }

    /// Executes SQL as the superuser.
    pub(crate) async fn execute(&self, sql: &str) {
        let client = postgres().connect("postgres").await;
        client.batch_execute(sql).await.expect("valid SQL");
    }
}

/// Opens the service over a store, through the library.
pub(crate) async fn open(config: &DataConfig) -> KnowledgeService {
    let data = config.open().await.expect("open the data");
    let options = data.options(Limits::default());
    let service = data.service(Env::system(), options).await;
    service.expect("open the service")
}
