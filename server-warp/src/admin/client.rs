//! A command's end of the admin socket.

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

/// The user who may do everything.
const ROOT: u32 = 0;

/// Reaches the server behind an admin socket.
#[derive(Clone, Debug)]
pub struct AdminClient {
    path: PathBuf,
    /// The users who may listen there. Whoever else does is to learn no secret.
    trusted: Vec<u32>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No server is reached: nothing was done.
    #[error("no server is reached on the admin socket {}: {source}", path.display())]
    Unreachable {
        /// The path of the socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody listens who is not to be told anything: nothing was sent.
    #[error(
        "who listens on the admin socket {} is the user with the number {user}, and neither root, nor the user of \
         this command, nor the owner of the data directory: nothing was sent", path.display()
    )]
    Stranger {
        /// The path of the socket.
        path: PathBuf,
        /// The user who listens.
        user: u32,
    },
    /// The server was reached and has not answered whole. Whether it did what was asked is not known.
    #[error(
        "the server went away before it had answered; whether it did what it was asked is not known: {0}"
    )]
    Broken(#[source] hyper::Error),
}

/// An answer, piece by piece.
#[derive(Debug)]
pub struct Pieces(Incoming);

impl AdminClient {
    /// The client of a server that listens there now, as root or as the user of this process.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`]; [`ClientError::Stranger`].
    pub async fn connect(path: &Path) -> Result<Self, ClientError> {
        let own = rustix::process::geteuid().as_raw();
        Self::connect_to(path, vec![own, ROOT]).await
    }

    /// The same for the server of a data directory, which may also run as the owner of that.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`]; [`ClientError::Stranger`].
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

    /// The answer to a request, whole.
    ///
    /// # Errors
    /// [`ClientError`], one by one.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ClientError> {
        let (head, pieces) = self.stream(request).await?.into_parts();
        let body = pieces.0.collect().await.map_err(ClientError::Broken)?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// The answer to a request, as it comes.
    ///
    /// # Errors
    /// [`ClientError`], one by one.
    pub async fn stream(
        &self,
        mut request: Request<Bytes>,
    ) -> Result<Response<Pieces>, ClientError> {
        let io = TokioIo::new(self.dial().await?);
        let handshake = http1::handshake(io).await;
        let (mut sender, connection) = handshake.map_err(ClientError::Broken)?;
        // Ends with the answer.
        tokio::spawn(connection);
        let host = HeaderValue::from_static("admin.localhost");
        request.headers_mut().insert(HOST, host);
        let sent = sender.send_request(request.map(Full::new)).await;
        Ok(sent.map_err(ClientError::Broken)?.map(Pieces))
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
            return Err(ClientError::Stranger {
                path: self.path.clone(),
                user,
            });
        }
        Ok(stream)
    }
}

impl Pieces {
    /// The next piece; `None` behind the last one of an answer that came whole.
    ///
    /// # Errors
    /// [`ClientError::Broken`]: the rest will not come.
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

    /// All that is still to come.
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
    async fn a_stranger_who_listens_is_told_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("data.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let refused = AdminClient::connect_to(&path, vec![own + 1]).await;
        let error = refused.unwrap_err();
        assert!(
            matches!(error, ClientError::Stranger { user, .. } if user == own),
            "{error}"
        );
        let client = AdminClient::connect_of(&path, Some(scratch.path()))
            .await
            .unwrap();
        // Each request is on a connection of its own, to whoever listens then.
        let later = AdminClient {
            trusted: vec![own + 1],
            ..client
        };
        let sent = later.send(Request::new(Bytes::new())).await;
        assert!(matches!(sent, Err(ClientError::Stranger { .. })));
        drop(listener);
    }
}
