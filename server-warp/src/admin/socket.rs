//! The server's end of the admin socket.

use std::convert::Infallible;
use std::fs::{self, Metadata, Permissions};
use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use knowledge_core::api::AdminApi;
use knowledge_core::{Error, ProblemCode};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::{Semaphore, watch};

use super::body::AdminBody;
use super::path::SocketPath;
use crate::net::{REQUEST_ID, StallGuard};

/// Connections served at once; further ones wait.
const CONNECTIONS_MAX: usize = 64;
/// Connections that may wait.
const BACKLOG: u32 = 128;
/// Time for the header and for the body of a request to arrive.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take nothing of its answer before it counts as gone.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the requests in work to finish when the server is stopped; long answers are broken off then.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long accepting rests after the process has run out of files.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// An operation of the socket that core does not have, whose answer may be long.
#[async_trait]
pub trait LongOperation: Send + Sync + 'static {
    /// Its path, such as `/admin/v1/backup`.
    fn path(&self) -> &'static str;

    /// Answers a request for its path, of any method.
    async fn answer(&self, request: Request<Bytes>) -> Response<AdminBody>;
}

/// The admin socket of a server, bound and not yet accepting. The file goes with it.
pub struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
    handler: Handler,
}

/// What all connections share.
struct Handler {
    api: AdminApi,
    long: Vec<Arc<dyn LongOperation>>,
}

/// Why there is no admin socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another server listens there.
    #[error("another server listens on the admin socket {}", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Something else has that name, which is not for a server to remove.
    #[error("{} is there and is no socket: remove it, or choose another admin socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system takes no socket of that path.
    #[error("the path of the admin socket {} is too long for a socket: choose a shorter one", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot listen on the admin socket {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
}

impl std::fmt::Debug for AdminSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminSocket")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl AdminSocket {
    /// Listens at this path for requests to `api`. What a server left there that was killed is replaced. The caller
    /// holds the data directory, so that no other server of it is about to do the same.
    ///
    /// # Errors
    /// [`SocketError`], one by one.
    pub async fn bind(path: &Path, api: AdminApi) -> Result<Self, SocketError> {
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
        clear_the_way(path, &address).await?;
        let bound = UnixSocket::new_stream().and_then(|socket| {
            socket.bind(address.as_path())?;
            // Nobody can connect before it listens, so that nobody comes before the permissions are right.
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
        })
    }

    /// Adds an operation.
    #[must_use]
    pub fn with(mut self, operation: Arc<dyn LongOperation>) -> Self {
        self.handler.long.push(operation);
        self
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves until `shutdown` resolves; then removes the file, and finishes the requests in work, for some seconds.
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
                let (handler, stopped) = (Arc::clone(&handler), stopped.clone());
                tokio::spawn(async move {
                    serve(handler, stream, stopped).await;
                    drop(slot);
                });
            }
        };
        tokio::select! {
            () = accepting => {}
            () = shutdown => {}
        }
        // Who comes now is to hear at once that nobody listens.
        drop(self);
        stop.send_replace(true);
        let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, slots.acquire_many(all)).await;
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // Another server may have a socket of the same name by now: that one stays.
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity);
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What tells a file from another one of the same name.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Removes the socket of a server that is no more.
async fn clear_the_way(path: &Path, address: &SocketPath) -> Result<(), SocketError> {
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
                tokio::time::sleep(ACCEPT_REST).await;
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
        async move { Ok::<_, Infallible>(handler.answer(peer, request).await) }
    });
    let io = TokioIo::new(StallGuard::new(stream, WRITE_STALL_TIMEOUT));
    let mut connection = std::pin::pin!(protocol.serve_connection(io, service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    // Whatever breaks the connection is its client's.
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, connection).await;
}

impl Handler {
    async fn answer(&self, peer: Option<u32>, request: Request<Incoming>) -> Response<AdminBody> {
        let (began, method) = (Instant::now(), request.method().clone());
        let path = request.uri().path().to_owned();
        let response = if is_operator(peer) {
            self.respond(request).await
        } else {
            let reason = "the admin socket is for the user that the server runs as, and for root";
            self.refuse(Error::forbidden(reason))
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
        let bytes_max = self.api.service().limits().body_bytes_max;
        let reading = Limited::new(body, bytes_max).collect();
        let body = match tokio::time::timeout(READ_TIMEOUT, reading).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return self.refuse(Error::PayloadTooLarge { bytes_max });
            }
            _ => {
                let message = "must arrive whole, and in time";
                let error = Error::invalid("body", ProblemCode::InvalidValue, message);
                return self.refuse(error);
            }
        };
        let request = Request::from_parts(head, body);
        let path = request.uri().path();
        match self.long.iter().find(|operation| operation.path() == path) {
            Some(operation) => operation.answer(request).await,
            None => self.api.handle(request).await.map(AdminBody::from),
        }
    }

    fn refuse(&self, error: Error) -> Response<AdminBody> {
        self.api.refuse(error).map(AdminBody::from)
    }
}

/// Whether a connection of this user is the operator's. Whoever changed the permissions of the file did not ask for
/// more than to look at it.
fn is_operator(peer: Option<u32>) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer.is_some_and(|peer| peer == own || peer == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_is_the_own_user_or_root() {
        let own = rustix::process::geteuid().as_raw();
        assert!(is_operator(Some(own)) && is_operator(Some(0)));
        assert!(!is_operator(Some(own + 1)) && !is_operator(None));
    }
}
