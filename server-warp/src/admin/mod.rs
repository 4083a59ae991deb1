//! The admin socket: the operator's interface of a running server, and its use by commands.
//!
//! A server listens on a Unix domain socket beside its data directory (`DIR.sock`, mode 0600) and
//! speaks HTTP/1 there, unless [`SocketPlace`] says otherwise. It serves core's
//! [`AdminApi`](knowledge_core::api::AdminApi), whose paths do not exist on the public address.
//! Access is controlled by the permissions of the file and by the UID of each connection: only the
//! server's own user and root are accepted.
//!
//! A command builds a request and sends it through a [`Transport`]: over the socket if a server
//! holds the directory, otherwise to the same interface over the store that the command opens
//! itself. Commands therefore behave the same with and without a server.
//!
//! # Long responses
//!
//! A response that is too large for memory, such as a backup, comes from a [`LongOperation`]: it
//! has its own path on the socket and responds with an [`AdminBody`] that it writes while the
//! client reads.
//!
//! - Server: [`AdminSocket::with`] adds it. [`AdminBody::channel`] returns both ends of a body. The
//!   writer waits for a slow client, and gets an error once the client has disconnected or has read
//!   nothing for [`WRITE_STALL_TIMEOUT`]. A body without [`finish`](BodyWriter::finish) reaches the
//!   client as an aborted response, never as a shorter one.
//! - Command: [`Transport::Server`] has the [`AdminClient`] if a server holds the directory; its
//!   [`stream`](AdminClient::stream) returns the response chunk by chunk. Otherwise
//!   [`Transport::store`] is the store that was opened.

mod body;
#[cfg(unix)]
mod client;
#[cfg(unix)]
mod path;
#[cfg(unix)]
mod socket;
#[cfg(all(test, unix))]
mod tests;
mod transport;

pub use body::{AdminBody, BodyWriter, ClientGone};
#[cfg(unix)]
pub use client::{AdminClient, BodyStream, ClientError};
#[cfg(unix)]
pub use socket::{AdminSocket, LongOperation, SocketActivity, SocketError, WRITE_STALL_TIMEOUT};
pub use transport::{OpenedStore, Transport, TransportError};

use std::path::PathBuf;

use crate::data::{DataConfig, DataError};

/// Location of a data directory's admin socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SocketPlace {
    /// Beside the directory, with `.sock` appended to its name.
    #[default]
    Beside,
    /// This path.
    At(PathBuf),
    /// No socket.
    Off,
}

impl SocketPlace {
    /// Returns the path of the socket, if there is one.
    ///
    /// # Errors
    /// [`DataError::Unnamed`] for a directory that cannot have a sibling.
    pub fn path(&self, data: &DataConfig) -> Result<Option<PathBuf>, DataError> {
        match self {
            Self::Beside if data.directory().is_none() => Ok(None),
            Self::Beside => data.beside(".sock").map(Some),
            Self::At(path) => Ok(Some(path.clone())),
            Self::Off => Ok(None),
        }
    }
}
