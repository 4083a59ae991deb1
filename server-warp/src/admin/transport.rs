//! Access to the operator's interface, with and without a server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use knowledge_core::env::Env;
use knowledge_storage_embedded::OpenError;

#[cfg(unix)]
use super::client::{AdminClient, ClientError};
use crate::config::Config;
use crate::data::{Backend, Data, DataConfig, DataError};
use crate::partitions::OperatorApi;
use crate::store_address::StoreAddress;

/// Attempts to reach a directory that is held without a socket: its server may be starting.
const ATTEMPTS_MAX: u32 = 20;
/// Interval between two attempts.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(150);

/// Carrier of requests to the operator's interface of a data directory.
#[derive(Debug)]
pub enum Transport {
    /// The server that holds the directory.
    #[cfg(unix)]
    Server(AdminClient),
    /// The store, opened by this process.
    Store(Box<OpenedStore>),
}

/// A store that this process opened, with the operator's interface to it.
#[derive(Debug)]
pub struct OpenedStore {
    /// The store and its key.
    pub data: Data,
    /// Stores of the further partitions, by name.
    pub partitions: Vec<(String, Backend)>,
    /// The operator's interface.
    pub api: OperatorApi,
}

/// Reason why a request does not reach the operator's interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No server listens, and the store cannot be opened.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Another process holds the directory, and its admin socket is unreachable.
    #[error("{held}, and {}", describe(.socket, .why))]
    Held {
        /// The error of opening the store, which names the process.
        held: Box<DataError>,
        /// The path of the socket.
        socket: PathBuf,
        /// The error of the socket.
        why: std::io::Error,
    },
    /// The server did not respond.
    #[cfg(unix)]
    #[error(transparent)]
    Server(#[from] ClientError),
}

/// Describes the obstacle and its remedy.
fn describe(socket: &Path, why: &std::io::Error) -> String {
    let socket = socket.display();
    match why.kind() {
        std::io::ErrorKind::PermissionDenied => format!(
            "its admin socket {socket} belongs to another user; run this command as the server's \
             user or as root"
        ),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => format!(
            "no server listens on the admin socket {socket}; if that process is a server with \
             another admin socket, pass its path with --admin-socket, otherwise wait until it ends"
        ),
        _ => format!("its admin socket {socket} cannot be reached ({why})"),
    }
}

impl Transport {
    /// Reaches the operator's interface: over the socket if a server holds the directory, else the
    /// store.
    ///
    /// A missing store is created only if `may_create` is true.
    ///
    /// # Errors
    /// [`TransportError`].
    #[cfg(unix)]
    pub async fn open(config: &Config, may_create: bool) -> Result<Self, TransportError> {
        let data = config.data();
        let Some(socket) = config.admin_socket.path(&data)? else {
            return Ok(Self::Store(Box::new(open_store(config, may_create).await?)));
        };
        for attempt in 1.. {
            let why = match AdminClient::connect_of(&socket, data.directory()).await {
                Ok(client) => return Ok(Self::Server(client)),
                Err(ClientError::Unreachable { source, .. }) => source,
                Err(error) => return Err(error.into()),
            };
            let held = match open_store(config, may_create).await {
                Err(error @ DataError::Store(OpenError::InUse { .. })) => error,
                opened => return Ok(Self::Store(Box::new(opened?))),
            };
            // A server that starts or stops holds the directory without the socket for a moment.
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

    /// Reaches the operator's interface through the store; there are no Unix sockets here.
    ///
    /// # Errors
    /// [`TransportError::Data`].
    #[cfg(not(unix))]
    pub async fn open(config: &Config, may_create: bool) -> Result<Self, TransportError> {
        Ok(Self::Store(Box::new(open_store(config, may_create).await?)))
    }

    /// Reaches the operator's interface to a new store in memory, with the limits of `config`.
    ///
    /// Its responses show whether requests are valid, without an effect on the data.
    ///
    /// # Errors
    /// [`TransportError::Data`].
    pub async fn rehearsal(config: &Config) -> Result<Self, TransportError> {
        let data = DataConfig::of(StoreAddress::Memory).open().await?;
        let options = data.options(config.limits.clone());
        let service = data.service(Env::system(), options).await?;
        Ok(Self::Store(Box::new(OpenedStore {
            data,
            partitions: Vec::new(),
            api: service.into(),
        })))
    }

    /// Sends a request and returns the response.
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

    /// Returns the opened store, if no server holds the directory.
    #[must_use]
    pub fn store(&self) -> Option<&OpenedStore> {
        match self {
            #[cfg(unix)]
            Self::Server(_) => None,
            Self::Store(opened) => Some(opened),
        }
    }
}

async fn open_store(config: &Config, may_create: bool) -> Result<OpenedStore, DataError> {
    // A store in memory would be lost when the command ends.
    let data = config.data();
    data.require_durable()?;
    let data = if may_create {
        data.open().await?
    } else {
        data.open_existing().await?
    };
    opened(data, config).await
}

async fn opened(data: Data, config: &Config) -> Result<OpenedStore, DataError> {
    let others = config.data().open_partitions(&data).await?;
    let options = config.options(&data);
    let backends = others.iter();
    let backends = backends.map(|(name, other)| (name.clone(), other.backend().clone()));
    let backends = backends.collect();
    let partitions = data.partitions(others, Env::system(), options).await?;
    Ok(OpenedStore {
        data,
        partitions: backends,
        api: OperatorApi::new(partitions),
    })
}
