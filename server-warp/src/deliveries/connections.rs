//! Bound of the connections that deliveries keep open for the next ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Counts of the connections to all hosts.
///
/// The pool of the HTTP client limits idle connections per host only. These counts are upper
/// bounds: a host counts as many connections as it ever had exchanges at once, until it has been
/// idle for the timeout of the pool. While their sum is too high, exchanges close their
/// connections.
#[derive(Debug)]
pub(super) struct OpenConnections {
    max: usize,
    idle_timeout: Duration,
    hosts: Mutex<Hosts>,
}

#[derive(Debug, Default)]
struct Hosts {
    by_authority: HashMap<Arc<str>, Host>,
    /// Sum over all hosts.
    open: usize,
}

/// Connections to one host and port.
#[derive(Debug)]
struct Host {
    in_use: usize,
    open: usize,
    used_at: Instant,
}

/// Connection in use. It counts as closed once this is dropped, unless it is kept.
#[derive(Debug)]
pub(super) struct ConnectionInUse<'c> {
    connections: &'c OpenConnections,
    authority: Arc<str>,
    /// True if the exchange has to close it.
    pub(super) closes: bool,
    is_kept: bool,
}

impl OpenConnections {
    /// Creates the counts for connections of which at most `max` are to be open, and which close
    /// after `idle_timeout`.
    pub(super) fn new(max: usize, idle_timeout: Duration) -> Self {
        Self {
            max,
            idle_timeout,
            hosts: Mutex::default(),
        }
    }

    /// Counts an exchange with a host.
    pub(super) fn begin(&self, authority: &str) -> ConnectionInUse<'_> {
        let mut hosts = self.hosts();
        let now = Instant::now();
        let known = hosts.by_authority.get_key_value(authority);
        let authority = known.map_or_else(|| authority.into(), |(known, _)| Arc::clone(known));
        let host = hosts.by_authority.entry(Arc::clone(&authority));
        let host = host.or_insert(Host {
            in_use: 0,
            open: 0,
            used_at: now,
        });
        host.in_use += 1;
        let opened = host.in_use.saturating_sub(host.open);
        host.open += opened;
        hosts.open += opened;
        if hosts.open > self.max {
            hosts.remove_idle(now, self.idle_timeout);
        }
        ConnectionInUse {
            connections: self,
            authority,
            closes: hosts.open > self.max,
            is_kept: false,
        }
    }

    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionInUse<'_> {
    /// Notes that the exchange is complete, so that the connection is kept for the next one unless
    /// it has to be closed.
    pub(super) fn keep(mut self) {
        self.is_kept = !self.closes;
    }
}

impl Hosts {
    /// Removes the hosts whose connections have all timed out.
    fn remove_idle(&mut self, now: Instant, timeout: Duration) {
        self.by_authority.retain(|_, host| {
            host.in_use > 0 || now.saturating_duration_since(host.used_at) < timeout
        });
        self.open = self.by_authority.values().map(|host| host.open).sum();
    }
}

impl Drop for ConnectionInUse<'_> {
    fn drop(&mut self) {
        let mut hosts = self.connections.hosts();
        let Some(host) = hosts.by_authority.get_mut(&self.authority) else {
            return;
        };
        host.in_use -= 1;
        host.used_at = Instant::now();
        if !self.is_kept {
            host.open -= 1;
            hosts.open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn open(connections: &OpenConnections) -> usize {
        connections.hosts().open
    }

    /// Completes exchanges that are made at once.
    fn exchange(connections: &OpenConnections, authorities: &[&str]) {
        let begin = |authority: &&str| connections.begin(authority);
        let used: Vec<_> = authorities.iter().map(begin).collect();
        used.into_iter().for_each(ConnectionInUse::keep);
    }

    #[test]
    fn connections_of_idle_hosts_count_until_timeout() {
        let connections = OpenConnections::new(3, HOUR);
        exchange(&connections, &["a:1", "a:1"]);
        exchange(&connections, &["b:1"]);
        // The idle ones are used again.
        let used = [connections.begin("a:1"), connections.begin("a:1")];
        assert!(used.iter().all(|used| !used.closes));
        assert_eq!(open(&connections), 3);
        let beyond = connections.begin("c:1");
        assert!(beyond.closes);
        beyond.keep();
        assert_eq!(open(&connections), 3);
    }

    #[test]
    fn connection_of_failed_exchange_does_not_count() {
        let connections = OpenConnections::new(1, HOUR);
        drop(connections.begin("a:1"));
        assert_eq!(open(&connections), 0);
        assert!(!connections.begin("b:1").closes);
    }

    #[test]
    fn timed_out_connections_make_room() {
        let connections = OpenConnections::new(2, Duration::ZERO);
        exchange(&connections, &["a:1", "b:1"]);
        assert_eq!(open(&connections), 2);
        let used = connections.begin("c:1");
        assert!(!used.closes);
        assert_eq!(open(&connections), 1);
    }
}
