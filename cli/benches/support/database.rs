//! Databases of the PostgreSQL server that the peer of the benchmarks uses.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::NoTls;

/// Name of the store in the rows.
pub(crate) const NAME: &str = "PostgreSQL";

/// Creates an empty database, and returns its address as a store.
///
/// `socket` is the directory with the socket of the server.
///
/// # Panics
/// If it cannot be created.
pub(crate) async fn create(socket: &Path) -> String {
    static CREATED: AtomicUsize = AtomicUsize::new(0);
    let number = CREATED.fetch_add(1, Ordering::Relaxed);
    let name = format!("knowledge_{}_{number}", std::process::id());
    let host = socket.to_str().expect("a path in UTF-8");
    let server = format!("host={host} user=postgres dbname=postgres");
    let connected = tokio_postgres::connect(&server, NoTls).await;
    let (client, connection) = connected.expect("the server accepts connections");
    let running = tokio::spawn(connection);
    let create = format!("CREATE DATABASE {name}");
    let created = client.batch_execute(&create).await;
    created.expect("a new database");
    drop(client);
    let ended = running.await.expect("no panic");
    ended.expect("the connection ends in order");
    format!("postgres://postgres@{}/{name}", host.replace('/', "%2F"))
}
