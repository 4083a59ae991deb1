//! Name resolution restricted to the addresses that deliveries may be sent to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use knowledge_core::model::AddressPolicy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Timeout of a look-up.
pub(super) const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// Resolver of names.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns the current addresses of a name.
    ///
    /// # Errors
    /// Any failure of the look-up.
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Error of a name without any permitted address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name resolves to an address that deliveries may not be sent to")]
pub(super) struct AddressRejected;

/// Error of a look-up that took longer than [`LOOK_UP_TIMEOUT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resolving the name timed out")]
pub(super) struct ResolutionTimedOut;

/// Resolver of the HTTP client: it returns the permitted addresses of a name from its only look-up.
pub(super) struct PermittedResolver {
    pub(super) policy: Arc<AddressPolicy>,
    pub(super) resolver: Arc<dyn Resolver>,
}

impl Resolve for PermittedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, resolver) = (Arc::clone(&self.policy), Arc::clone(&self.resolver));
        Box::pin(async move {
            let look_up = resolver.look_up(name.as_str());
            let found = tokio::time::timeout(LOOK_UP_TIMEOUT, look_up).await;
            let found = found.map_err(|_| ResolutionTimedOut)??;
            if found.is_empty() {
                return Err("the name has no addresses".into());
            }
            let mut permitted = found;
            permitted.retain(|address| policy.permits(*address));
            if permitted.is_empty() {
                return Err(AddressRejected.into());
            }
            // Port 0 stands for the port of the URL.
            let addresses = permitted
                .into_iter()
                .map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
