//! The admin socket: the operator's side of a running server, and how commands reach it.
//!
//! A server listens on a Unix domain socket beside its data directory (`DIR.sock`, mode 0600) and speaks HTTP/1 there,
//! unless [`SocketPlace`] says otherwise.
//! What can be asked is core's [`AdminApi`](knowledge_core::api::AdminApi), whose paths are unknown on the public
//! address. Who can open the socket is the operator: the permissions of the file decide, and the server looks at the
//! user behind each connection too (its own user and root are let in). A command builds its requests for the same
//! interface and sends them through a [`Transport`]: over the socket where a server holds the directory, else to the
//! interface over the store that it opens itself. So there is one way, with and without a server.
//!
//! # Long answers
//!
//! What is too long for one piece of memory, a backup for one, is a [`LongOperation`]: it has a path of its own on the
//! socket and answers with an [`AdminBody`] that it writes while the client reads.
//!
//! - On the server: [`AdminSocket::with`] adds it. [`AdminBody::channel`] gives the two ends of a body. The writer waits
//!   while the client is slow; it learns by an error that the client is gone, or has taken nothing for
//!   [`WRITE_STALL_TIMEOUT`]; and what it does not [`finish`](BodyWriter::finish) reaches the client as a broken
//!   answer, never as a shorter one.
//! - In a command: [`Transport::server`] is the [`AdminClient`] where a server holds the directory, whose
//!   [`stream`](AdminClient::stream) gives the answer piece by piece. Where it is `None`, [`Transport::store`] has the
//!   store that was opened instead.

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
pub use client::{AdminClient, ClientError, Pieces};
#[cfg(unix)]
pub use socket::{AdminSocket, LongOperation, SocketError, WRITE_STALL_TIMEOUT};
pub use transport::{OpenedStore, Transport, TransportError};

use std::path::PathBuf;

use crate::data::{DataConfig, DataError};

/// Where the admin socket of a data directory is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SocketPlace {
    /// Beside the directory, under its name with `.sock` behind it.
    #[default]
    Beside,
    /// There.
    At(PathBuf),
    /// Nowhere: there is none.
    Off,
}

impl SocketPlace {
    /// The path of the socket, if there is one.
    ///
    /// # Errors
    /// [`DataError::Unnamed`] for a directory that nothing can stand beside.
    pub fn path(&self, data: &DataConfig) -> Result<Option<PathBuf>, DataError> {
        match self {
            Self::Beside if data.directory().is_none() => Ok(None),
            Self::Beside => data.beside(".sock").map(Some),
            Self::At(path) => Ok(Some(path.clone())),
            Self::Off => Ok(None),
        }
    }
}
