//! Request bodies, bounded in time, in size, and in the memory that all of them use together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use tokio::time::Instant;

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
#[derive(Debug)]
pub(super) struct MemoryBudget {
    free: AtomicUsize,
}

impl MemoryBudget {
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            free: AtomicUsize::new(bytes),
        })
    }

    fn reserve(self: &Arc<Self>) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            reserved: 0,
        }
    }
}

/// Part of the budget that one body has reserved; released on drop.
struct Reservation {
    budget: Arc<MemoryBudget>,
    reserved: usize,
}

impl Reservation {
    /// Grows the reservation to a body of `length` bytes; returns false if the budget is exhausted.
    fn grow_to(&mut self, length: usize) -> bool {
        let more = length
            .saturating_sub(BODY_BYTES_UNCOUNTED)
            .saturating_sub(self.reserved);
        // Relaxed: the counter guards nothing but itself.
        let reserved = more == 0
            || self
                .budget
                .free
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
                    free.checked_sub(more)
                })
                .is_ok();
        if reserved {
            self.reserved += more;
        }
        reserved
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.free.fetch_add(self.reserved, Ordering::Relaxed);
    }
}

/// Limits on reading one body.
pub(super) struct Bounds<'a> {
    pub(super) bytes_max: usize,
    pub(super) deadline: Instant,
    pub(super) budget: &'a Arc<MemoryBudget>,
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
    let mut reservation = bounds.budget.reserve();
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
