//! Stream whose reads fail if the header of a request does not end in time.
//!
//! hyper has one time for the wait between two requests and for the header together. A proxy keeps
//! connections for a minute, and would find many of them closed if that time were as short as one
//! for a header should be. Here the header has its own, from the opening of the connection or from
//! its first byte, and no timer runs while a connection is idle.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Error of a read when the header should have ended.
#[derive(Debug, thiserror::Error)]
#[error("the header of a request did not end in time")]
pub(super) struct HeaderTooSlow;

/// Requests of a connection: how many have begun, each with the end of its header, and how many have
/// their response.
#[derive(Debug, Default)]
pub(super) struct Requests {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl Requests {
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of requests, if each has its response.
    fn count(&self) -> Option<usize> {
        let begun = self.begun.load(Ordering::Relaxed);
        (begun == self.ended.load(Ordering::Relaxed)).then_some(begun)
    }
}

/// Forwards everything, and fails a read when the header should have ended.
#[derive(Debug)]
pub(super) struct HeaderGuard<IO> {
    io: IO,
    requests: Arc<Requests>,
    timeout: Duration,
    /// Number of requests before the one whose header has begun; the first is due at once.
    begun_after: Option<usize>,
    /// Timer of a header that has not come in one piece.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<IO> HeaderGuard<IO> {
    pub(super) fn new(io: IO, requests: Arc<Requests>, timeout: Duration) -> Self {
        Self {
            io,
            requests,
            timeout,
            begun_after: Some(0),
            timer: None,
        }
    }

    /// Returns the error of a read when the header should have ended.
    fn watch(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let count = self.requests.count();
        if count.is_none() || self.begun_after != count {
            // Bodies and responses have times of their own, and so does the wait for a request.
            self.timer = None;
            return Poll::Pending;
        }
        let timeout = self.timeout;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(timer.as_mut().poll(context));
        let error = io::Error::new(io::ErrorKind::TimedOut, HeaderTooSlow);
        Poll::Ready(Err(error))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for HeaderGuard<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if read.is_pending() {
            return self.watch(context);
        }
        if buffer.filled().len() > before && self.begun_after != self.requests.count() {
            self.begun_after = self.requests.count();
            self.timer = None;
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for HeaderGuard<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
