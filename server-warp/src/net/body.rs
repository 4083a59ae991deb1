//! Request bodies, bounded in time, in size, and in the memory that all of them use together.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use tokio::time::Instant;

use super::client_connections::client_network;
use super::config::BODY_BYTES_UNCOUNTED;

/// Error of reading a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    TimedOut,
    Unreadable,
    BudgetExhausted,
}

/// Memory for all bodies that are being read, see `NetConfig::body_bytes_held_max`.
///
/// Bodies are read before anything is known of their callers, so a client may hold at most as much
/// as is free, which is half if it is the only client: the threshold of [`shares`](super::shares).
#[derive(Debug)]
pub(super) struct MemoryBudget {
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    free: usize,
    /// Bytes of each client that holds some.
    clients: HashMap<IpAddr, usize>,
}

impl MemoryBudget {
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        let held = Mutex::new(Held {
            free: bytes,
            clients: HashMap::new(),
        });
        Arc::new(Self { held })
    }

    fn reserve(self: &Arc<Self>, client: IpAddr) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            client: client_network(client),
            reserved: 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Part of the budget that one body has reserved; released on drop.
struct Reservation {
    budget: Arc<MemoryBudget>,
    client: IpAddr,
    reserved: usize,
}

impl Reservation {
    /// Grows the reservation to a body of `length` bytes; returns false if the budget is exhausted, or
    /// the client's share. A client's only body is not bound by its share.
    fn grow_to(&mut self, length: usize) -> bool {
        let more = length
            .saturating_sub(BODY_BYTES_UNCOUNTED)
            .saturating_sub(self.reserved);
        if more == 0 {
            return true;
        }
        let mut held = self.budget.lock();
        let of_client = held.clients.get(&self.client).copied().unwrap_or(0);
        let is_only = of_client == self.reserved;
        if more > held.free || !is_only && of_client + more > held.free {
            return false;
        }
        held.free -= more;
        held.clients.insert(self.client, of_client + more);
        self.reserved += more;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.reserved == 0 {
            return;
        }
        let mut held = self.budget.lock();
        held.free += self.reserved;
        if let Some(of_client) = held.clients.get_mut(&self.client) {
            *of_client -= self.reserved;
            if *of_client == 0 {
                held.clients.remove(&self.client);
            }
        }
    }
}

/// Limits on reading one body.
pub(super) struct Bounds<'a> {
    pub(super) bytes_max: usize,
    pub(super) deadline: Instant,
    pub(super) budget: &'a Arc<MemoryBudget>,
    pub(super) client: IpAddr,
    /// Counter of received bytes, including those of a body that is then rejected.
    pub(super) arrived: &'a AtomicU64,
}

/// Reads the body to its end. After an error the rest can still be read from the stream.
pub(super) async fn read<S, B, E>(stream: &mut S, bounds: &Bounds<'_>) -> Result<Bytes, BodyError>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: Buf,
{
    // A body that is already there is returned before any timer is set.
    tokio::time::timeout_at(bounds.deadline, collect(stream, bounds))
        .await
        .unwrap_or(Err(BodyError::TimedOut))
}

async fn collect<S, B, E>(stream: &mut S, bounds: &Bounds<'_>) -> Result<Bytes, BodyError>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: Buf,
{
    // The reservation ends with the reading: from then on the cap on requests in flight bounds the
    // memory.
    let mut reservation = bounds.budget.reserve(bounds.client);
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        let mut chunk = chunk.map_err(|_| BodyError::Unreadable)?;
        let length = first.len().max(whole.len()) + chunk.remaining();
        bounds
            .arrived
            .fetch_add(chunk.remaining() as u64, Ordering::Relaxed);
        if length > bounds.bytes_max {
            return Err(BodyError::TooLarge);
        }
        if !reservation.grow_to(length) {
            return Err(BodyError::BudgetExhausted);
        }
        // Most bodies arrive in one chunk, which is kept as it is. Several are copied together
        // immediately: a chunk is a slice of a read buffer, and a thousand tiny ones would hold a
        // thousand buffers.
        if first.is_empty() {
            first = chunk.copy_to_bytes(chunk.remaining());
        } else {
            if whole.is_empty() {
                whole.extend_from_slice(&first);
            }
            whole.extend_from_slice(&chunk.copy_to_bytes(chunk.remaining()));
        }
    }
    Ok(if whole.is_empty() {
        first
    } else {
        whole.freeze()
    })
}

/// Reads the rest of a rejected body and discards it, up to a time and a number of bytes.
///
/// A connection that is closed with unread bytes is reset, and a reset can overtake the response: a
/// client that sends everything before it reads would never see why its request was rejected.
pub(super) async fn linger<S, B, E>(mut stream: S, timeout: Duration, bytes_max: u64)
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: Buf,
{
    let discard = async {
        let mut left = bytes_max;
        while let Some(Ok(chunk)) = stream.next().await {
            match left.checked_sub(chunk.remaining() as u64) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    // Either result drops the stream, which lets the connection close.
    let _ = tokio::time::timeout(timeout, discard).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: usize = 100;

    fn counted(bytes: usize) -> usize {
        BODY_BYTES_UNCOUNTED + bytes
    }

    #[test]
    fn client_holds_no_more_than_is_left_for_others() {
        let budget = MemoryBudget::new(BUDGET);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        let mut bodies: Vec<_> = (0..20).map(|_| budget.reserve(one)).collect();
        let taken = bodies
            .iter_mut()
            .filter_map(|body| body.grow_to(counted(10)).then_some(10));
        assert_eq!(taken.sum::<usize>(), 50);
        let mut of_other = budget.reserve(other);
        assert!(of_other.grow_to(counted(30)));
        assert!(
            !of_other.grow_to(counted(60)),
            "the rest of the budget is 20"
        );
        assert!(
            bodies[19].grow_to(BODY_BYTES_UNCOUNTED),
            "small ones are not counted"
        );
        drop(bodies);
        assert!(of_other.grow_to(counted(60)));
    }

    #[test]
    fn only_body_of_a_client_may_have_all_that_is_left() {
        let budget = MemoryBudget::new(BUDGET);
        let client = "2001:db8::1".parse().unwrap();
        let mut body = budget.reserve(client);
        assert!(body.grow_to(counted(60)) && body.grow_to(counted(BUDGET)));
        let mut second = budget.reserve("2001:db8::2".parse().unwrap());
        assert!(!second.grow_to(counted(1)), "it is the same network");
        drop(body);
        assert!(second.grow_to(counted(1)));
        drop(second);
        let held = budget.lock();
        assert_eq!((held.free, held.clients.len()), (BUDGET, 0));
    }
}
