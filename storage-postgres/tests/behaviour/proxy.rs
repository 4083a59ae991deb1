//! A proxy that loses bytes between a store and its server.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Fault of the connection that first sends a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Passes everything on until the server has answered `COMMIT`, and closes the connection
    /// instead of passing on this answer.
    LoseAnswerToCommit,
    /// Stops passing on what the client sends, from this statement on.
    StallBefore(&'static str),
}

/// Proxy in front of a server on the loopback address.
pub(crate) struct Proxy {
    port: u16,
    fault: Arc<Mutex<Option<Fault>>>,
}

impl Proxy {
    pub(crate) async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let fault = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&fault);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port)).await
                else {
                    continue;
                };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let (losing, is_losing) = watch::channel(false);
                let fault = Arc::clone(&shared);
                tokio::spawn(async move {
                    let _ = pass_requests(from_client, to_server, &fault, &losing).await;
                });
                tokio::spawn(async move {
                    let _ = pass_answers(from_server, to_client, &is_losing).await;
                });
            }
        });
        Self { port, fault }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sets the fault of one connection, the next one that sends the statement.
    pub(crate) fn inject(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
    }

    /// Returns true once the fault has happened.
    pub(crate) fn has_failed(&self) -> bool {
        self.fault.lock().unwrap().is_none()
    }
}

async fn pass_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    fault: &Mutex<Option<Fault>>,
    losing: &watch::Sender<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        match take_if_sent(fault, &buffer[..count]) {
            Some(Fault::LoseAnswerToCommit) => {
                losing.send_replace(true);
            }
            Some(Fault::StallBefore(_)) => return std::future::pending().await,
            None => {}
        }
        to.write_all(&buffer[..count]).await?;
    }
}

fn take_if_sent(fault: &Mutex<Option<Fault>>, bytes: &[u8]) -> Option<Fault> {
    let mut fault = fault.lock().unwrap();
    let statement = match (*fault)? {
        Fault::LoseAnswerToCommit => "COMMIT\0",
        Fault::StallBefore(statement) => statement,
    };
    find(bytes, statement.as_bytes())?;
    fault.take()
}

async fn pass_answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    is_losing: &watch::Receiver<bool>,
) -> io::Result<()> {
    /// Type and length of the message in front of its tag.
    const HEADER_BYTES: usize = 5;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        if *is_losing.borrow()
            && let Some(tag) = find(&buffer[..count], b"COMMIT\0")
        {
            to.write_all(&buffer[..tag - HEADER_BYTES]).await?;
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
