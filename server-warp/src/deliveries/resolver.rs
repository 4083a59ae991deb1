//! Names become addresses: those that deliveries may go to, and no others.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use async_trait::async_trait;
use knowledge_core::model::AddressPolicy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

/// How many names are looked up at once. Each look-up blocks a thread, for as long as the name servers of somebody
/// else like; the others wait within the time of their exchange.
const LOOK_UPS_MAX: usize = 64;

/// Finds the addresses of names.
#[async_trait]
pub trait LookUp: Send + Sync {
    /// The addresses of a name, at this moment.
    ///
    /// # Errors
    /// Whatever keeps them from being known.
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the operating system.
#[derive(Clone, Debug)]
pub struct SystemLookUp {
    room: Arc<Semaphore>,
}

impl Default for SystemLookUp {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(LOOK_UPS_MAX)),
        }
    }
}

#[async_trait]
impl LookUp for SystemLookUp {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let room = Arc::clone(&self.room).acquire_owned().await;
        let name = name.to_owned();
        let asking = tokio::task::spawn_blocking(move || {
            // Until the thread is free again, also where nobody waits for it any more.
            let _room = room;
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        });
        asking.await.map_err(io::Error::other)?
    }
}

/// A name none of whose addresses deliveries may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name resolves to an address that deliveries may not go to")]
pub(super) struct NamedAddressRefused;

/// What the client connects to: the permitted ones among the addresses of a name, as one look-up found them. The client
/// makes no other.
pub(super) struct PermittedAddresses {
    pub(super) policy: Arc<AddressPolicy>,
    pub(super) look_up: Arc<dyn LookUp>,
}

impl Resolve for PermittedAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, look_up) = (Arc::clone(&self.policy), Arc::clone(&self.look_up));
        Box::pin(async move {
            let found = look_up.look_up(name.as_str()).await?;
            if found.is_empty() {
                return Err("the name has no addresses".into());
            }
            let mut permitted = found;
            permitted.retain(|address| policy.permits(*address));
            if permitted.is_empty() {
                return Err(NamedAddressRefused.into());
            }
            // Port 0 stands for the one of the URL.
            let addresses = permitted
                .into_iter()
                .map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
