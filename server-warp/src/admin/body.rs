//! Response bodies on the admin socket: complete, or streamed while the client reads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// Chunks queued for a slow client before the writer has to wait.
const CHUNKS_QUEUED_MAX: usize = 4;

/// Body of a response.
#[derive(Debug)]
pub struct AdminBody(Kind);

#[derive(Debug)]
enum Kind {
    Complete(Option<Bytes>),
    Streamed(mpsc::Receiver<Chunk>),
    /// The body has ended.
    Ended,
}

#[derive(Debug)]
enum Chunk {
    Data(Bytes),
    Failed(io::Error),
    End,
}

/// Writer of a streamed body. Dropping it before [`finish`](Self::finish) aborts the response.
#[derive(Debug)]
pub struct BodyWriter(mpsc::Sender<Chunk>);

/// The client disconnected before it had the complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client disconnected")]
pub struct ClientGone;

impl AdminBody {
    /// Creates a streamed body and its writer.
    #[must_use]
    pub fn channel() -> (BodyWriter, Self) {
        let (writer, chunks) = mpsc::channel(CHUNKS_QUEUED_MAX);
        (BodyWriter(writer), Self(Kind::Streamed(chunks)))
    }
}

impl From<Bytes> for AdminBody {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Complete(Some(bytes)))
    }
}

impl BodyWriter {
    /// Sends a chunk, after waiting for space in the queue.
    ///
    /// # Errors
    /// [`ClientGone`]: the rest is not needed.
    pub async fn write(&self, chunk: Bytes) -> Result<(), ClientGone> {
        self.send(Chunk::Data(chunk)).await
    }

    /// Ends a complete body.
    ///
    /// # Errors [`ClientGone`]: the client may lack a part of the body.
    pub async fn finish(self) -> Result<(), ClientGone> {
        self.send(Chunk::End).await
    }

    /// Aborts the response, as dropping the writer does, and logs the reason.
    pub async fn fail(self, error: io::Error) {
        // A client that has disconnected needs no notice.
        let _ = self.send(Chunk::Failed(error)).await;
    }

    async fn send(&self, chunk: Chunk) -> Result<(), ClientGone> {
        self.0.send(chunk).await.map_err(|_| ClientGone)
    }
}

impl Body for AdminBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = match &mut self.0 {
            Kind::Complete(bytes) => bytes.take().map_or(Chunk::End, Chunk::Data),
            Kind::Streamed(chunks) => ready!(chunks.poll_recv(context)).unwrap_or_else(|| {
                let ended = io::Error::other("the body's writer stopped early");
                Chunk::Failed(ended)
            }),
            Kind::Ended => Chunk::End,
        };
        Poll::Ready(match chunk {
            Chunk::Data(bytes) => Some(Ok(Frame::data(bytes))),
            Chunk::Failed(error) => {
                self.0 = Kind::Ended;
                tracing::warn!(%error, "admin response aborted");
                Some(Err(error))
            }
            Chunk::End => {
                self.0 = Kind::Ended;
                None
            }
        })
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Complete(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Streamed(_) => SizeHint::default(),
            Kind::Ended => SizeHint::with_exact(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn admin_body_is_complete_only_if_finished() {
        let whole = AdminBody::from(Bytes::from_static(b"whole"));
        assert_eq!(whole.size_hint().exact(), Some(5));
        assert_eq!(whole.collect().await.unwrap().to_bytes(), "whole");
        for is_finished in [true, false] {
            let (writer, body) = AdminBody::channel();
            let writing = tokio::spawn(async move {
                for chunk in ["one ", "two ", "three ", "four ", "five ", "six"] {
                    writer.write(Bytes::from_static(chunk.as_bytes())).await?;
                }
                if is_finished {
                    writer.finish().await?;
                }
                Ok::<(), ClientGone>(())
            });
            let read = body.collect().await.map(|body| body.to_bytes());
            writing.await.unwrap().unwrap();
            match read {
                Ok(read) => assert!(is_finished && read == "one two three four five six"),
                Err(error) => assert!(!is_finished, "{error}"),
            }
        }
    }

    #[tokio::test]
    async fn admin_body_writer_is_notified_when_client_is_gone() {
        let (writer, body) = AdminBody::channel();
        drop(body);
        let written = writer.write(Bytes::from_static(b"one")).await;
        assert_eq!(written, Err(ClientGone));
        assert_eq!(writer.finish().await, Err(ClientGone));
    }
}
