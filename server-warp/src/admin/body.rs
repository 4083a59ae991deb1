//! The bodies of answers on the admin socket: whole, or written while they are read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// How many pieces wait for a slow client before their writer does.
const PIECES_WAITING_MAX: usize = 4;

/// The body of an answer.
#[derive(Debug)]
pub struct AdminBody(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Option<Bytes>),
    Written(mpsc::Receiver<Piece>),
    /// Nothing more is to come.
    Over,
}

#[derive(Debug)]
enum Piece {
    Data(Bytes),
    Failed(io::Error),
    End,
}

/// Writes a body while it is read. Dropped before [`finish`](Self::finish), it breaks the answer off.
#[derive(Debug)]
pub struct BodyWriter(mpsc::Sender<Piece>);

/// The client went away before it had the whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client went away")]
pub struct ClientGone;

impl AdminBody {
    /// A body, and what writes it.
    #[must_use]
    pub fn channel() -> (BodyWriter, Self) {
        let (writer, pieces) = mpsc::channel(PIECES_WAITING_MAX);
        (BodyWriter(writer), Self(Kind::Written(pieces)))
    }
}

impl From<Bytes> for AdminBody {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Whole(Some(bytes)))
    }
}

impl BodyWriter {
    /// Hands a piece on, and waits while the client has enough to read.
    ///
    /// # Errors
    /// [`ClientGone`]: nobody wants the rest.
    pub async fn write(&self, piece: Bytes) -> Result<(), ClientGone> {
        self.hand_on(Piece::Data(piece)).await
    }

    /// The same from a thread that may block.
    ///
    /// # Errors
    /// [`ClientGone`]: nobody wants the rest.
    ///
    /// # Panics
    /// In an asynchronous context.
    pub fn write_blocking(&self, piece: Bytes) -> Result<(), ClientGone> {
        let sent = self.0.blocking_send(Piece::Data(piece));
        sent.map_err(|_| ClientGone)
    }

    /// Ends the body: all of it was written.
    ///
    /// # Errors
    /// [`ClientGone`]: the client may not have all of it.
    pub async fn finish(self) -> Result<(), ClientGone> {
        self.hand_on(Piece::End).await
    }

    /// Breaks the answer off, as dropping the writer does, and says why in the log.
    pub async fn fail(self, error: io::Error) {
        // A client that is gone does not have to be told.
        let _ = self.hand_on(Piece::Failed(error)).await;
    }

    async fn hand_on(&self, piece: Piece) -> Result<(), ClientGone> {
        self.0.send(piece).await.map_err(|_| ClientGone)
    }
}

impl Body for AdminBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match &mut self.0 {
            Kind::Whole(bytes) => bytes.take().map_or(Piece::End, Piece::Data),
            Kind::Written(pieces) => ready!(pieces.poll_recv(context)).unwrap_or_else(|| {
                let ended = io::Error::other("what wrote the answer ended before its end");
                Piece::Failed(ended)
            }),
            Kind::Over => Piece::End,
        };
        Poll::Ready(match piece {
            Piece::Data(bytes) => Some(Ok(Frame::data(bytes))),
            Piece::Failed(error) => {
                self.0 = Kind::Over;
                tracing::warn!(%error, "an answer on the admin socket is broken off");
                Some(Err(error))
            }
            Piece::End => {
                self.0 = Kind::Over;
                None
            }
        })
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Written(_) => SizeHint::default(),
            Kind::Over => SizeHint::with_exact(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn what_is_finished_is_whole_and_nothing_else() {
        let whole = AdminBody::from(Bytes::from_static(b"whole"));
        assert_eq!(whole.size_hint().exact(), Some(5));
        assert_eq!(whole.collect().await.unwrap().to_bytes(), "whole");
        for is_finished in [true, false] {
            let (writer, body) = AdminBody::channel();
            let writing = tokio::spawn(async move {
                for piece in ["one ", "two ", "three ", "four ", "five ", "six"] {
                    writer.write(Bytes::from_static(piece.as_bytes())).await?;
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
    async fn a_writer_learns_that_its_client_is_gone() {
        let (writer, body) = AdminBody::channel();
        drop(body);
        let written = writer.write(Bytes::from_static(b"one")).await;
        assert_eq!(written, Err(ClientGone));
        assert_eq!(writer.finish().await, Err(ClientGone));
    }
}
