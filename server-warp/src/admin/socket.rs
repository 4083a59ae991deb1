//! The server's end of the admin socket.

use std::convert::Infallible;
use std::fs::{self, Metadata, Permissions};
use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use knowledge_core::{Error, ProblemCode};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::{Semaphore, watch};

use super::body::AdminBody;
use super::path::SocketPath;
use crate::net::{REQUEST_ID, StallGuard};
use crate::partial_debug::partial_debug;
use crate::partitions::OperatorApi;

/// Concurrent connections; further ones wait.
const CONNECTIONS_MAX: usize = 64;
/// Connections that may wait.
const BACKLOG: u32 = 128;
/// Timeout for the headers and for the body of a request.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without progress in reading a response after which a client is disconnected.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Grace period for requests in flight at shutdown; long responses are aborted after it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause of accepting after an error, such as too many open files.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// An operation that only the socket has, and whose response may be long.
#[async_trait]
pub trait LongOperation: Send + Sync + 'static {
    /// Its path, such as `/admin/v1/backup`.
    fn path(&self) -> &'static str;

    /// Responds to a request for its path, with any method.
    async fn respond(&self, request: Request<Bytes>) -> Response<AdminBody>;
}

/// Use of an admin socket by its clients.
#[derive(Clone, Debug)]
pub struct SocketActivity(Arc<Mutex<Connections>>);

#[derive(Debug)]
struct Connections {
    open: usize,
    /// Time at which the last one ended, or the socket was bound.
    ended: Instant,
}

/// A connection, which dropping ends.
struct Connection(SocketActivity);

impl SocketActivity {
    fn new() -> Self {
        let ended = Instant::now();
        Self(Arc::new(Mutex::new(Connections { open: 0, ended })))
    }

    /// Returns true if no client has been connected for this time.
    #[must_use]
    pub fn is_idle_for(&self, time: Duration) -> bool {
        let connections = self.connections();
        connections.open == 0 && connections.ended.elapsed() >= time
    }

    fn connect(&self) -> Connection {
        self.connections().open += 1;
        Connection(self.clone())
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut connections = self.0.connections();
        connections.open -= 1;
        connections.ended = Instant::now();
    }
}

/// The admin socket of a server, bound and not yet accepting. Dropping it removes the file.
pub struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
    handler: Handler,
    activity: SocketActivity,
}

/// State shared by all connections.
struct Handler {
    api: OperatorApi,
    long: Vec<Arc<dyn LongOperation>>,
}

/// Reason for a missing admin socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another server listens on the path.
    #[error("another server listens on the admin socket {}", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The path is a file of another kind, which the server must not remove.
    #[error(
        "{} exists and is not a socket; remove it or choose another admin socket",
        path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The path is too long for a socket.
    #[error("the path of the admin socket {} is too long; choose a shorter one", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },
    /// The operating system reported an error.
    #[error("cannot listen on the admin socket {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

partial_debug!(AdminSocket: path);

impl AdminSocket {
    /// Listens on a path for requests to `api`, replacing the socket of a server that was killed.
    ///
    /// The caller holds the data directory, so that no other server listens for this directory.
    ///
    /// # Errors
    /// [`SocketError`].
    pub async fn bind(path: &Path, api: impl Into<OperatorApi>) -> Result<Self, SocketError> {
        let api = api.into();
        let failed = |source: io::Error| SocketError::Io {
            path: path.to_owned(),
            source,
        };
        let address = SocketPath::new(path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidFilename => SocketError::PathTooLong {
                path: path.to_owned(),
            },
            _ => failed(error),
        })?;
        remove_stale(path, &address).await?;
        let bound = UnixSocket::new_stream().and_then(|socket| {
            socket.bind(address.as_path())?;
            // Set before it listens, so that no connection precedes the permissions.
            fs::set_permissions(path, Permissions::from_mode(0o600))?;
            let identity = identity(&fs::symlink_metadata(path)?);
            Ok((socket.listen(BACKLOG)?, identity))
        });
        let (listener, identity) = bound.map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            identity,
            handler: Handler {
                api,
                long: Vec::new(),
            },
            activity: SocketActivity::new(),
        })
    }

    /// Adds an operation.
    #[must_use]
    pub fn with(mut self, operation: Arc<dyn LongOperation>) -> Self {
        self.handler.long.push(operation);
        self
    }

    /// Returns the use of the socket, which changes while it is served.
    #[must_use]
    pub fn activity(&self) -> SocketActivity {
        self.activity.clone()
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves until `shutdown` resolves, then removes the file and completes requests in flight.
    ///
    /// The completion is limited to a few seconds.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let (stop, stopped) = watch::channel(false);
        let handler = Arc::new(Handler {
            api: self.handler.api.clone(),
            long: self.handler.long.clone(),
        });
        let accepting = async {
            loop {
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                    return; // The semaphore is never closed.
                };
                let stream = accept(&self.listener).await;
                let connection = self.activity.connect();
                let (handler, stopped) = (Arc::clone(&handler), stopped.clone());
                tokio::spawn(async move {
                    serve(handler, stream, stopped).await;
                    drop((connection, slot));
                });
            }
        };
        tokio::select! {
            () = accepting => {}
            () = shutdown => {}
        }
        // New clients fail immediately instead of waiting.
        drop(self);
        stop.send_replace(true);
        let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, slots.acquire_many(all)).await;
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // Another server may have created a socket of the same name since, which stays.
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity);
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the identity of a file, which differs from those of other files of the same name.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Removes the socket of a server that has ended.
async fn remove_stale(path: &Path, address: &SocketPath) -> Result<(), SocketError> {
    let path_buf = || path.to_owned();
    let failed = |source| SocketError::Io {
        path: path_buf(),
        source,
    };
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?,
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NotASocket { path: path_buf() });
    }
    match UnixStream::connect(address.as_path()).await {
        Ok(_) => Err(SocketError::InUse { path: path_buf() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

async fn accept(listener: &UnixListener) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::error!(%error, "cannot accept connections on the admin socket");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

async fn serve(handler: Arc<Handler>, stream: UnixStream, mut stopped: watch::Receiver<bool>) {
    let peer = stream.peer_cred().ok().map(|peer| peer.uid());
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT);
    let service = service_fn(move |request| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(handler.handle(peer, request).await) }
    });
    let io = TokioIo::new(StallGuard::new(stream, WRITE_STALL_TIMEOUT));
    let mut connection = std::pin::pin!(protocol.serve_connection(io, service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    // Errors of a connection concern only its client.
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, connection).await;
}

impl Handler {
    async fn handle(&self, peer: Option<u32>, request: Request<Incoming>) -> Response<AdminBody> {
        let (began, method) = (Instant::now(), request.method().clone());
        let path = request.uri().path().to_owned();
        let response = if is_operator(peer) {
            self.respond(request).await
        } else {
            let reason = "only the server's user and root may use the admin socket";
            self.reject(Error::forbidden(reason))
        };
        let request_id = response.headers().get(REQUEST_ID);
        tracing::info!(
            target: "knowledge_server::admin",
            %method, path, peer,
            status = response.status().as_u16(),
            duration_ms = began.elapsed().as_micros() as f64 / 1_000.0,
            request_id = request_id.and_then(|id| id.to_str().ok()),
            "request"
        );
        response
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<AdminBody> {
        let (head, body) = request.into_parts();
        let bytes_max = self.api.limits().body_bytes_max;
        let reading = Limited::new(body, bytes_max).collect();
        let body = match tokio::time::timeout(READ_TIMEOUT, reading).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return self.reject(Error::PayloadTooLarge { bytes_max });
            }
            _ => {
                let message = "must arrive completely and in time";
                let error = Error::invalid("body", ProblemCode::InvalidValue, message);
                return self.reject(error);
            }
        };
        let request = Request::from_parts(head, body);
        let path = request.uri().path();
        match self.long.iter().find(|operation| operation.path() == path) {
            Some(operation) => operation.respond(request).await,
            None => self.api.handle(request).await.map(AdminBody::from),
        }
    }

    fn reject(&self, error: Error) -> Response<AdminBody> {
        self.api.reject(error).map(AdminBody::from)
    }
}

/// True if a connection of this user is the operator's. Relaxed file permissions do not extend
/// this.
fn is_operator(peer: Option<u32>) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer.is_some_and(|peer| peer == own || peer == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_is_process_user_or_root() {
        let own = rustix::process::geteuid().as_raw();
        assert!(is_operator(Some(own)) && is_operator(Some(0)));
        assert!(!is_operator(Some(own + 1)) && !is_operator(None));
    }
}
