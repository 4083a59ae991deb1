//! Reading the body of a request: bounded in time, in bytes, and in the bytes that all bodies hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use tokio::time::Instant;

use super::config::BODY_BYTES_UNCOUNTED;

/// Why a body was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    TooLarge,
    TimedOut,
    Unreadable,
    NoRoom,
}

/// The bytes that all arriving bodies may hold together, see `NetConfig::body_bytes_held_max`.
#[derive(Debug)]
pub(super) struct Room {
    free: AtomicUsize,
}

impl Room {
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            free: AtomicUsize::new(bytes),
        })
    }

    fn share(self: &Arc<Self>) -> Share {
        Share {
            room: Arc::clone(self),
            taken: 0,
        }
    }
}

/// What one body has taken of the room; given back when dropped.
struct Share {
    room: Arc<Room>,
    taken: usize,
}

impl Share {
    /// Makes this share large enough for a body of `length` bytes; false where the room is used up.
    fn grow_to(&mut self, length: usize) -> bool {
        let more = length
            .saturating_sub(BODY_BYTES_UNCOUNTED)
            .saturating_sub(self.taken);
        // Relaxed: the counter guards nothing but itself.
        let taken = more == 0
            || self
                .room
                .free
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
                    free.checked_sub(more)
                })
                .is_ok();
        if taken {
            self.taken += more;
        }
        taken
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.free.fetch_add(self.taken, Ordering::Relaxed);
    }
}

/// What bounds the reading of one body.
pub(super) struct Bounds<'a> {
    pub(super) bytes_max: usize,
    pub(super) deadline: Instant,
    pub(super) room: &'a Arc<Room>,
    /// Counts the bytes as they arrive, also those of a body that is then refused.
    pub(super) arrived: &'a AtomicU64,
}

/// Reads the body to its end. After an error the stream still gives what comes next.
pub(super) async fn read<S, B, E>(stream: &mut S, bounds: &Bounds<'_>) -> Result<Bytes, Fault>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: Buf,
{
    // A body that is there already is returned before any timer is set.
    tokio::time::timeout_at(bounds.deadline, collect(stream, bounds))
        .await
        .unwrap_or(Err(Fault::TimedOut))
}

async fn collect<S, B, E>(stream: &mut S, bounds: &Bounds<'_>) -> Result<Bytes, Fault>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: Buf,
{
    // The share ends with the reading: from then on the cap on requests in work bounds what is held.
    let mut share = bounds.room.share();
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        let mut chunk = chunk.map_err(|_| Fault::Unreadable)?;
        let length = first.len().max(whole.len()) + chunk.remaining();
        bounds
            .arrived
            .fetch_add(chunk.remaining() as u64, Ordering::Relaxed);
        if length > bounds.bytes_max {
            return Err(Fault::TooLarge);
        }
        if !share.grow_to(length) {
            return Err(Fault::NoRoom);
        }
        // Most bodies come in one piece, which is kept as it is. Several are copied together at once: a piece is a
        // slice of a read buffer, and a thousand tiny ones would hold a thousand buffers.
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

/// Reads the rest of a refused body and throws it away, up to a time and a number of bytes.
///
/// A connection that is closed with unread bytes is reset, and a reset can overtake the answer: a client that sends
/// everything before it reads would never see why it was refused.
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
    // Either outcome ends in dropping the stream, which lets the connection close.
    let _ = tokio::time::timeout(timeout, discard).await;
}
