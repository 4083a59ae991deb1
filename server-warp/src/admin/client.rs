//! Client of the admin socket, for commands.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use super::path::SocketPath;

/// UID of the superuser.
const ROOT: u32 = 0;

/// Client of the server behind an admin socket.
#[derive(Clone, Debug)]
pub struct AdminClient {
    path: PathBuf,
    /// UIDs that may run the server. Requests contain secrets, so others receive nothing.
    trusted: Vec<u32>,
}

/// Reason for a missing response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No server is reachable; nothing was sent.
    #[error("cannot connect to the admin socket {}: {source}", path.display())]
    Unreachable {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An untrusted user listens on the socket; nothing was sent.
    #[error(
        "the admin socket {} is served by UID {user}, which is neither root, nor the user of this \
         command, nor the owner of the data directory; nothing was sent", path.display()
    )]
    UntrustedPeer {
        /// The path of the socket.
        path: PathBuf,
        /// UID of the listening process.
        user: u32,
    },
    /// The connection failed before the response was complete; the outcome is unknown.
    #[error("the connection to the server failed; the outcome of the request is unknown: {0}")]
    Broken(#[source] hyper::Error),
}

/// Body of a response, chunk by chunk.
#[derive(Debug)]
pub struct BodyStream(Incoming);

impl AdminClient {
    /// Connects to a server that runs as root or as the user of this process.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`]; [`ClientError::UntrustedPeer`].
    pub async fn connect(path: &Path) -> Result<Self, ClientError> {
        let own = rustix::process::geteuid().as_raw();
        Self::connect_to(path, vec![own, ROOT]).await
    }

    /// Connects to the server of a data directory, which may also run as the directory's owner.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`]; [`ClientError::UntrustedPeer`].
    pub async fn connect_of(
        path: &Path,
        data_directory: Option<&Path>,
    ) -> Result<Self, ClientError> {
        let own = rustix::process::geteuid().as_raw();
        let owner = data_directory
            .and_then(|directory| fs::metadata(directory).ok())
            .map(|found| found.uid());
        let trusted = [own, ROOT].into_iter().chain(owner).collect();
        Self::connect_to(path, trusted).await
    }

    async fn connect_to(path: &Path, trusted: Vec<u32>) -> Result<Self, ClientError> {
        let client = Self {
            path: path.to_owned(),
            trusted,
        };
        client.dial().await?;
        Ok(client)
    }

    /// Sends a request and returns the complete response.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ClientError> {
        let (head, stream) = self.stream(request).await?.into_parts();
        let body = stream.0.collect().await.map_err(ClientError::Broken)?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// Sends a request and returns the response with its body as a stream.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn stream(
        &self,
        mut request: Request<Bytes>,
    ) -> Result<Response<BodyStream>, ClientError> {
        let io = TokioIo::new(self.dial().await?);
        let handshake = http1::handshake(io).await;
        let (mut sender, connection) = handshake.map_err(ClientError::Broken)?;
        // The task ends with the response.
        tokio::spawn(connection);
        let host = HeaderValue::from_static("admin.localhost");
        request.headers_mut().insert(HOST, host);
        let sent = sender.send_request(request.map(Full::new)).await;
        Ok(sent.map_err(ClientError::Broken)?.map(BodyStream))
    }

    async fn dial(&self) -> Result<UnixStream, ClientError> {
        let unreachable = |source| ClientError::Unreachable {
            path: self.path.clone(),
            source,
        };
        let address = SocketPath::new(&self.path).map_err(unreachable)?;
        let stream = UnixStream::connect(address.as_path())
            .await
            .map_err(unreachable)?;
        let user = stream.peer_cred().map_err(unreachable)?.uid();
        if !self.trusted.contains(&user) {
            return Err(ClientError::UntrustedPeer {
                path: self.path.clone(),
                user,
            });
        }
        Ok(stream)
    }
}

impl BodyStream {
    /// Returns the next chunk; `None` after the last one of a complete response.
    ///
    /// # Errors
    /// [`ClientError::Broken`]: the rest is lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        while !self.0.is_end_stream() {
            match self.0.frame().await {
                None => break,
                Some(Err(error)) => return Err(ClientError::Broken(error)),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the rest of the body.
    ///
    /// # Errors
    /// [`ClientError::Broken`].
    pub async fn rest(self) -> Result<Bytes, ClientError> {
        let rest = self.0.collect().await.map_err(ClientError::Broken)?;
        Ok(rest.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn admin_client_sends_nothing_to_foreign_listener() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("data.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let refused = AdminClient::connect_to(&path, vec![own + 1]).await;
        let error = refused.unwrap_err();
        assert!(
            matches!(error, ClientError::UntrustedPeer { user, .. } if user == own),
            "{error}"
        );
        let client = AdminClient::connect_of(&path, Some(scratch.path()))
            .await
            .unwrap();
        // Each request opens its own connection, and the listener may have changed.
        let later = AdminClient {
            trusted: vec![own + 1],
            ..client
        };
        let sent = later.send(Request::new(Bytes::new())).await;
        assert!(matches!(sent, Err(ClientError::UntrustedPeer { .. })));
        drop(listener);
    }
}
