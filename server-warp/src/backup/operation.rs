//! Backup of a running server: a consistent dump over the admin socket, while clients are served.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use knowledge_core::dump::Export;
use knowledge_core::partition::HOME;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admin::{AdminBody, BodyWriter, LongOperation};
use crate::data::Backend;

/// Path of the backup, for `GET`.
pub const BACKUP_PATH: &str = "/admin/v1/backup";
/// Name of the query parameter with the partition, which is home without it.
pub const PARTITION: &str = "partition";
/// Response header with the approximate number of entries, for a progress bar; not of a database.
pub const ENTRIES_HEADER: HeaderName = HeaderName::from_static("knowledge-entries");
/// Memory limit, in bytes, for data changed while a backup is read. Further changes abort it. A
/// database keeps them itself.
const CHANGED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Concurrent backups; each costs memory.
const BACKUPS_MAX: usize = 2;

/// Operation that responds with a dump of the store as of the request.
///
/// Commits continue meanwhile. A slow client may take as long as the changes fit into memory; the
/// socket disconnects one that has stopped reading.
#[derive(Debug)]
pub struct Backup {
    store: Backend,
    partitions: Vec<(String, Backend)>,
    changed_bytes_max: usize,
    slots: Arc<Semaphore>,
}

impl Backup {
    /// Creates the operation for a store.
    #[must_use]
    pub fn of(store: Backend) -> Self {
        Self {
            store,
            partitions: Vec::new(),
            changed_bytes_max: CHANGED_BYTES_MAX,
            slots: Arc::new(Semaphore::new(BACKUPS_MAX)),
        }
    }

    /// Adds the stores of further partitions, by name.
    #[must_use]
    pub fn with_partitions(mut self, partitions: Vec<(String, Backend)>) -> Self {
        self.partitions = partitions;
        self
    }

    /// Returns the store that a request names; `None` if there is none.
    fn store_of(&self, request: &Request<Bytes>) -> Option<&Backend> {
        let query = request.uri().query().unwrap_or_default();
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        let Some((_, wanted)) = pairs.find(|(name, _)| name == PARTITION) else {
            return Some(&self.store);
        };
        let mut all = self.partitions.iter();
        match all.find(|(name, _)| *name == wanted) {
            Some((_, store)) => Some(store),
            None => (wanted == HOME).then_some(&self.store),
        }
    }

    /// Sets the memory limit of one backup, in bytes.
    #[must_use]
    pub fn changed_bytes_max(mut self, bytes: usize) -> Self {
        self.changed_bytes_max = bytes;
        self
    }
}

#[async_trait]
impl LongOperation for Backup {
    fn path(&self) -> &'static str {
        BACKUP_PATH
    }

    async fn respond(&self, request: Request<Bytes>) -> Response<AdminBody> {
        if request.method() != Method::GET {
            let message = "method not allowed; allowed: GET";
            let mut response = error_response(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                message,
            );
            let allow = HeaderValue::from_static("GET");
            response.headers_mut().insert(ALLOW, allow);
            return response;
        }
        let Some(store) = self.store_of(&request) else {
            let message = "the server has no partition of this name";
            return error_response(StatusCode::NOT_FOUND, "not_found", message);
        };
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            let message = "too many backups are running; try again when one has finished";
            return error_response(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        };
        let entries = store.entries();
        let snapshot = match store.snapshot(self.changed_bytes_max).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                tracing::error!(%error, "backup failed to start");
                let message = error.to_string();
                return error_response(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &message);
            }
        };
        let export = match Export::begin(snapshot).await {
            Ok(export) => export,
            Err(error) => {
                tracing::error!(%error, "backup failed to start");
                let message = "the store cannot be read; see the server's log";
                return error_response(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
            }
        };
        let (writer, body) = AdminBody::channel();
        tokio::spawn(send(export, writer, slot));
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/jsonl"));
        if let Some(entries) = entries {
            headers.insert(ENTRIES_HEADER, entries.into());
        }
        response
    }
}

/// Writes the dump while the client reads. The snapshot is released when this returns.
async fn send(mut export: Export, writer: BodyWriter, slot: OwnedSemaphorePermit) {
    loop {
        let mut lines = Vec::new();
        let more = match export.read(&mut lines).await {
            Ok(more) => more,
            Err(error) => {
                writer.fail(io::Error::other(error)).await;
                break;
            }
        };
        if writer.write(lines.into()).await.is_err() {
            tracing::warn!("backup aborted by its client");
            break;
        }
        if !more {
            // An error here means that the client has disconnected, perhaps with the complete dump.
            let _ = writer.finish().await;
            tracing::info!(entries = export.entries(), "backup completed");
            break;
        }
    }
    drop(slot);
}

fn error_response(status: StatusCode, error: &str, message: &str) -> Response<AdminBody> {
    let body = json!({ "error": error, "message": message, "details": {} });
    let mut response = Response::new(AdminBody::from(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
