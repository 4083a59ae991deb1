//! Limit on the connections that one client holds, so that it cannot hold them all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Returns the address that identifies a client. An IPv6 client owns a whole network of addresses.
pub(super) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Counter of the open connections of each client.
#[derive(Debug)]
pub(super) struct ClientConnections {
    max: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl ClientConnections {
    /// Allows each client this share of all connections, and at least one.
    pub(super) fn new(connections_max: usize, ratio: f64) -> Arc<Self> {
        let max = (connections_max as f64 * ratio).ceil() as usize;
        Arc::new(Self {
            max: max.max(1),
            open: Mutex::default(),
        })
    }

    /// Counts a connection as open until the result is dropped; `None` if the client already holds
    /// its share and is not exempt.
    pub(super) fn open(self: &Arc<Self>, client: IpAddr, is_exempt: bool) -> Option<OpenByClient> {
        let network = client_network(client);
        let mut open = self.lock();
        let count = open.entry(network).or_default();
        if *count >= self.max && !is_exempt {
            return None;
        }
        *count += 1;
        Some(OpenByClient {
            all: Arc::clone(self),
            network,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connection that counts as open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenByClient {
    all: Arc<ClientConnections>,
    network: IpAddr,
}

impl Drop for OpenByClient {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        if let Some(count) = open.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_network_and_forgotten() {
        let connections = ClientConnections::new(7, 0.25);
        let open = |text: &str| connections.open(text.parse().unwrap(), false);
        let first = open("2001:db8:1:2::1").unwrap();
        let second = open("2001:db8:1:2:ffff::2").unwrap();
        assert!(open("2001:db8:1:2::3").is_none());
        assert!(open("2001:db8:1:3::1").is_some());
        drop(first);
        assert!(open("2001:db8:1:2::3").is_some());
        drop(second);
        assert!(connections.lock().is_empty());
    }

    #[test]
    fn share_is_at_least_one_connection() {
        let connections = ClientConnections::new(3, 0.0);
        let client = "192.0.2.1".parse().unwrap();
        let _first = connections.open(client, false).unwrap();
        assert!(connections.open(client, false).is_none());
        assert!(connections.open(client, true).is_some());
    }
}
