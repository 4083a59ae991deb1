//! The backup of a running server: a dump of one moment, over the admin socket, while clients are served.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use knowledge_core::dump::Export;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admin::{AdminBody, BodyWriter, LongOperation};
use crate::data::Backend;

/// Where a backup is read from, with `GET`.
pub const BACKUP_PATH: &str = "/admin/v1/backup";
/// Says about how many entries the backup will have: for a progress bar.
pub const ENTRIES_HEADER: HeaderName = HeaderName::from_static("knowledge-entries");
/// How much memory a backup may take for what is changed while it is read, in bytes. Further changes break it off.
const CHANGED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Backups at once: each costs memory.
const BACKUPS_MAX: usize = 2;

/// Answers with a dump of the store as it stood when it was asked for. Commits go on meanwhile. A client that is slow is
/// waited for as long as the changes meanwhile are not too many, and one that takes nothing is given up by the socket.
#[derive(Debug)]
pub struct Backup {
    store: Backend,
    changed_bytes_max: usize,
    slots: Arc<Semaphore>,
}

impl Backup {
    /// Backups of this store.
    #[must_use]
    pub fn of(store: Backend) -> Self {
        Self {
            store,
            changed_bytes_max: CHANGED_BYTES_MAX,
            slots: Arc::new(Semaphore::new(BACKUPS_MAX)),
        }
    }

    /// The same with another bound for the memory that one backup takes, in bytes.
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

    async fn answer(&self, request: Request<Bytes>) -> Response<AdminBody> {
        if request.method() != Method::GET {
            let message = "this path does not take that method; it takes GET";
            let mut refusal = refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                message,
            );
            let allow = HeaderValue::from_static("GET");
            refusal.headers_mut().insert(ALLOW, allow);
            return refusal;
        }
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            let message =
                "as many backups are under way as there may be; try again when one has ended";
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        };
        let entries = self.store.entries();
        let snapshot = self.store.snapshot(self.changed_bytes_max);
        let export = match Export::begin(snapshot).await {
            Ok(export) => export,
            Err(error) => {
                tracing::error!(%error, "a backup cannot begin");
                let message = "the store cannot be read; the server's log says why";
                return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
            }
        };
        let (writer, body) = AdminBody::channel();
        tokio::spawn(send(export, writer, slot));
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/jsonl"));
        headers.insert(ENTRIES_HEADER, entries.into());
        response
    }
}

/// Writes the dump while the client reads. Whatever ends it early lets go of the snapshot.
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
            tracing::warn!("a backup was broken off by its client");
            break;
        }
        if !more {
            // The client has it, or is gone: nobody else is owed anything.
            let _ = writer.finish().await;
            tracing::info!(entries = export.entries(), "a backup was read");
            break;
        }
    }
    drop(slot);
}

fn refuse(status: StatusCode, error: &str, message: &str) -> Response<AdminBody> {
    let body = json!({ "error": error, "message": message, "details": {} });
    let mut response = Response::new(AdminBody::from(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
