//! Names become addresses: those that deliveries may go to, and no others.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use knowledge_core::model::AddressPolicy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// How long a name may take to be looked up.
pub(super) const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// Finds the addresses of names.
#[async_trait]
pub trait LookUp: Send + Sync {
    /// The addresses of a name, at this moment.
    ///
    /// # Errors
    /// Whatever keeps them from being known.
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// A name none of whose addresses deliveries may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name resolves to an address that deliveries may not go to")]
pub(super) struct NamedAddressRefused;

/// A name whose look-up took longer than [`LOOK_UP_TIMEOUT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name was not resolved in time")]
pub(super) struct NotResolvedInTime;

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
            let looking = look_up.look_up(name.as_str());
            let found = tokio::time::timeout(LOOK_UP_TIMEOUT, looking).await;
            let found = found.map_err(|_| NotResolvedInTime)??;
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
