//! Shares of the work in progress, so that no organisation takes all of it.
//!
//! Two limits apply to each group of callers. The number of its requests may not exceed the number
//! of free places: the dynamic threshold of Choudhury and Hahne ("Dynamic queue length thresholds
//! for shared-memory packet switches", 1998), by which a group that is alone gets half of the
//! places and later groups always find some. The bodies of its requests in progress may not exceed
//! a number of bytes: a request that names a thousand memories takes long, and other groups would
//! wait for all that began earlier. Further requests of the group wait for each other, in order of
//! arrival.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;

use super::client_connections::client_network;

/// First bytes of a body, which do not count: small requests do not wait.
pub const BODY_BYTES_SMALL: usize = 4 * 1_024;

/// Callers that share what each group may have in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    Organization(Uuid),
    /// Unknown callers with addresses of one network.
    Network(IpAddr),
}

impl Group {
    /// Returns the group of an unknown caller.
    pub(super) fn of_address(address: IpAddr) -> Self {
        Self::Network(client_network(address))
    }
}

/// Work in progress of all groups.
#[derive(Debug)]
pub(super) struct Shares {
    requests_max: usize,
    body_bytes_max: u32,
    in_work: Mutex<InWork>,
}

#[derive(Debug, Default)]
struct InWork {
    requests: usize,
    groups: HashMap<Group, GroupInWork>,
}

#[derive(Debug)]
struct GroupInWork {
    requests: usize,
    body_bytes: Arc<Semaphore>,
}

impl Shares {
    pub(super) fn new(requests_max: usize, body_bytes_max: usize) -> Self {
        Self {
            requests_max,
            body_bytes_max: u32::try_from(body_bytes_max).unwrap_or(u32::MAX),
            in_work: Mutex::default(),
        }
    }

    /// Counts a request as in progress until the result is dropped; `None` if its group has its
    /// share already.
    pub(super) fn enter(&self, group: Group) -> Option<Place<'_>> {
        let mut in_work = self.lock();
        let free = self.requests_max - in_work.requests;
        let of_group = in_work.groups.get(&group).map_or(0, |found| found.requests);
        if free == 0 || of_group > free {
            return None;
        }
        in_work.requests += 1;
        let found = in_work.groups.entry(group).or_insert_with(|| GroupInWork {
            requests: 0,
            body_bytes: Arc::new(Semaphore::new(self.body_bytes_max as usize)),
        });
        found.requests += 1;
        let body_bytes = Arc::clone(&found.body_bytes);
        Some(Place {
            shares: self,
            group,
            body_bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, InWork> {
        self.in_work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Place of a request among those in progress.
#[derive(Debug)]
pub(super) struct Place<'s> {
    shares: &'s Shares,
    group: Group,
    body_bytes: Arc<Semaphore>,
}

impl Place<'_> {
    /// Waits for the turn of a request with a body of this length; the turn ends when the result is
    /// dropped. A body longer than the limit has its turn alone.
    pub(super) async fn turn(&self, body_bytes: usize) -> Option<SemaphorePermit<'_>> {
        let counted = body_bytes.saturating_sub(BODY_BYTES_SMALL);
        if counted == 0 {
            return None;
        }
        let counted = u32::try_from(counted).unwrap_or(u32::MAX);
        let counted = counted.min(self.shares.body_bytes_max);
        let turn = self.body_bytes.acquire_many(counted).await;
        Some(turn.expect("the semaphore is never closed"))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut in_work = self.shares.lock();
        in_work.requests -= 1;
        if let Some(found) = in_work.groups.get_mut(&self.group) {
            found.requests -= 1;
            if found.requests == 0 {
                in_work.groups.remove(&self.group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn organization(number: u128) -> Group {
        Group::Organization(Uuid::from_u128(number))
    }

    #[test]
    fn group_takes_no_more_places_than_it_leaves() {
        let shares = Shares::new(8, 1);
        let enter = |number| shares.enter(organization(number));
        let first: Vec<_> = std::iter::from_fn(|| enter(1)).collect();
        assert_eq!(first.len(), 5);
        let second: Vec<_> = std::iter::from_fn(|| enter(2)).collect();
        assert_eq!(second.len(), 2);
        let third = enter(3).expect("a place is left");
        assert!(enter(4).is_none(), "every place is taken");
        drop((first, second, third));
        assert!(shares.lock().groups.is_empty());
        assert_eq!(shares.lock().requests, 0);
    }

    #[test]
    fn small_server_serves_one_group() {
        let shares = Shares::new(1, 1);
        let place = shares.enter(organization(1));
        assert!(place.is_some());
        assert!(shares.enter(organization(2)).is_none());
        drop(place);
        assert!(shares.enter(organization(2)).is_some());
    }

    #[test]
    fn large_bodies_of_a_group_take_turns_and_others_do_not_wait() {
        let shares = Shares::new(100, 3_000);
        let places: Vec<_> = (0..4)
            .map(|_| shares.enter(organization(1)).unwrap())
            .collect();
        let large = |index: usize, counted| places[index].turn(BODY_BYTES_SMALL + counted);
        let first = large(0, 2_000).now_or_never().expect("the first begins");
        let mut second = Box::pin(large(1, 1_001));
        assert!((&mut second).now_or_never().is_none(), "no bytes are left");
        // It would fit, but others came first.
        let mut third = Box::pin(large(2, 1));
        assert!((&mut third).now_or_never().is_none());
        let small = places[3].turn(BODY_BYTES_SMALL).now_or_never();
        assert!(small.expect("a small one does not wait").is_none());
        let other = shares.enter(organization(2)).unwrap();
        // Longer than the limit: alone.
        let alone = other.turn(1_000_000).now_or_never();
        assert!(alone.expect("another group does not wait").is_some());
        drop(first);
        let second = (&mut second).now_or_never().expect("its turn");
        let third = (&mut third).now_or_never().expect("its turn");
        drop((second, third));
    }
}
