//! One way to the operator's interface, with and without a server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use knowledge_core::api::AdminApi;
use knowledge_storage_embedded::OpenError;

#[cfg(unix)]
use super::client::{AdminClient, ClientError};
use crate::config::Config;
use crate::data::{Data, DataError};
use crate::system::system_env;

/// How often a directory that is held without a socket is looked at again: its server may be about to listen.
const ATTEMPTS_MAX: u32 = 20;
/// Time between two looks.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(150);

/// Carries requests to the operator's interface of a data directory.
#[derive(Debug)]
pub enum Transport {
    /// To the server that holds the directory.
    #[cfg(unix)]
    Server(AdminClient),
    /// To the store, which no other process has now.
    Store(Box<OpenedStore>),
}

/// A store that this process opened, and the operator's interface to it.
#[derive(Debug)]
pub struct OpenedStore {
    /// The store and its key.
    pub data: Data,
    /// The interface.
    pub api: AdminApi,
}

/// Why a request does not come to the operator's interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No server listens, and the store does not open.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The directory is another user's. What this process makes in it the server could not read.
    #[error(
        "{} belongs to the user with the number {owner}: start its server, or run this command as that user, \
         for example with sudo -u '#{owner}'", path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The user that it belongs to.
        owner: u32,
    },
    /// Another process holds the directory, and no server is reached on its admin socket.
    #[error("{held}, and {}", describe(.socket, .why))]
    Held {
        /// Who holds it.
        held: Box<DataError>,
        /// The path of the socket.
        socket: PathBuf,
        /// Why nobody is reached there.
        why: std::io::Error,
    },
    /// The server gave no answer.
    #[cfg(unix)]
    #[error(transparent)]
    Server(#[from] ClientError),
}

/// What hinders, and what can be done.
fn describe(socket: &Path, why: &std::io::Error) -> String {
    let socket = socket.display();
    match why.kind() {
        std::io::ErrorKind::PermissionDenied => format!(
            "its admin socket {socket} is another user's: run this command as the user that the server runs as, or as root"
        ),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => format!(
            "no server listens on the admin socket {socket}: if that process is a server with another admin socket, \
             name it with --admin-socket; else wait until it ends"
        ),
        _ => format!("no server is reached on the admin socket {socket} ({why})"),
    }
}

impl Transport {
    /// Finds the way to the operator's interface of a directory: the socket where a server holds it, else the store.
    /// A store is made only where `may_make` says so.
    ///
    /// # Errors
    /// [`TransportError::Data`]; [`TransportError::Held`].
    #[cfg(unix)]
    pub async fn open(config: &Config, may_make: bool) -> Result<Self, TransportError> {
        let Some(socket) = config.admin_socket.path(&config.data)? else {
            refuse_foreign(config.data.directory(), own_user())?;
            return Ok(Self::Store(Box::new(open_store(config, may_make).await?)));
        };
        for attempt in 1.. {
            let why = match AdminClient::connect_of(&socket, config.data.directory()).await {
                Ok(client) => return Ok(Self::Server(client)),
                Err(ClientError::Unreachable { source, .. }) => source,
                Err(error) => return Err(error.into()),
            };
            refuse_foreign(config.data.directory(), own_user())?;
            let held = match open_store(config, may_make).await {
                Err(error @ DataError::Store(OpenError::InUse { .. })) => error,
                opened => return Ok(Self::Store(Box::new(opened?))),
            };
            // One who starts, or ends, has the directory without the socket for a moment.
            if attempt == ATTEMPTS_MAX || why.kind() == std::io::ErrorKind::PermissionDenied {
                return Err(TransportError::Held {
                    held: Box::new(held),
                    socket,
                    why,
                });
            }
            tokio::time::sleep(ATTEMPT_INTERVAL).await;
        }
        unreachable!("the last attempt returns")
    }

    /// Finds the way to the operator's interface of a directory: the store, there being no sockets here.
    ///
    /// # Errors
    /// [`TransportError::Data`].
    #[cfg(not(unix))]
    pub async fn open(config: &Config, may_make: bool) -> Result<Self, TransportError> {
        Ok(Self::Store(Box::new(open_store(config, may_make).await?)))
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// [`TransportError::Server`].
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        match self {
            #[cfg(unix)]
            Self::Server(client) => Ok(client.send(request).await?),
            Self::Store(opened) => Ok(opened.api.handle(request).await),
        }
    }

    /// The server that holds the directory, if one does.
    #[cfg(unix)]
    #[must_use]
    pub fn server(&self) -> Option<&AdminClient> {
        match self {
            Self::Server(client) => Some(client),
            Self::Store(_) => None,
        }
    }

    /// The store that was opened, where no server holds the directory.
    #[must_use]
    pub fn store(&self) -> Option<&OpenedStore> {
        match self {
            #[cfg(unix)]
            Self::Server(_) => None,
            Self::Store(opened) => Some(opened),
        }
    }
}

#[cfg(unix)]
fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Refuses to write into the directory of another user, as root could: its owner would be locked out of what is made.
#[cfg(unix)]
fn refuse_foreign(directory: Option<&Path>, user: u32) -> Result<(), TransportError> {
    use std::os::unix::fs::MetadataExt;

    let Some(directory) = directory else {
        return Ok(());
    };
    match std::fs::metadata(directory) {
        Ok(found) if found.uid() != user => Err(TransportError::Foreign {
            path: directory.to_owned(),
            owner: found.uid(),
        }),
        // Whatever else is wrong, opening says it better.
        _ => Ok(()),
    }
}

async fn open_store(config: &Config, may_make: bool) -> Result<OpenedStore, DataError> {
    // What is made in the memory of a command would go with it.
    config.data.path()?;
    let data = if may_make {
        config.data.open().await?
    } else {
        config.data.open_existing().await?
    };
    let options = data.options(config.limits.clone());
    let service = data.service(system_env(), options).await?;
    Ok(OpenedStore {
        data,
        api: AdminApi::new(service),
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_another_user_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(refuse_foreign(Some(scratch.path()), own_user()).is_ok());
        assert!(refuse_foreign(Some(&scratch.path().join("none")), own_user() + 1).is_ok());
        let error = refuse_foreign(Some(scratch.path()), own_user() + 1).unwrap_err();
        let owner = own_user();
        let expected = format!(
            "{} belongs to the user with the number {owner}: start its server, or run this command as that user, for \
             example with sudo -u '#{owner}'",
            scratch.path().display()
        );
        assert_eq!(error.to_string(), expected);
    }
}
