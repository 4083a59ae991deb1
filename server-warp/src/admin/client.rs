//! A command's end of the admin socket.

use std::io;
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

/// Reaches the server behind an admin socket.
#[derive(Clone, Debug)]
pub struct AdminClient {
    path: PathBuf,
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
    /// The client of a server that listens there now.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`].
    pub async fn connect(path: &Path) -> Result<Self, ClientError> {
        let client = Self {
            path: path.to_owned(),
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
        UnixStream::connect(address.as_path())
            .await
            .map_err(unreachable)
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
