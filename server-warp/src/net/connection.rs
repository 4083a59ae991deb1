//! One connection, from its first byte to its last.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::config::NetConfig;
use super::exchange::exchange;
use super::responder::Responder;
use super::routes;
use super::server::{Phase, Shared};
use super::stall::StallGuard;

/// The bytes of an answer or a body that hyper holds between two system calls. hyper wants 8 KiB at the least.
const BUFFER_BYTES_MAX: usize = 64 * 1_024;

/// How every connection speaks HTTP.
pub(super) fn protocol(config: &NetConfig) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        // Without a timer the time-out would be inert.
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_read_timeout)
        .max_header_size(config.header_bytes_max)
        .max_buf_size(BUFFER_BYTES_MAX.max(config.header_bytes_max));
    protocol
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By itself: closed by either side, at a time-out or on an error.
    Closed,
    /// By the deadline of the shutdown.
    Killed,
}

/// Serves a connection that was just accepted, over TLS where the server speaks that.
pub(super) async fn open<R: Responder>(
    shared: Arc<Shared<R>>,
    protocol: http1::Builder,
    stream: TcpStream,
    peer: IpAddr,
) -> End {
    let Some(certificates) = &shared.certificates else {
        return serve(shared, protocol, stream, peer).await;
    };
    let mut phases = shared.phases.clone();
    let accepted = tokio::select! {
        accepted = certificates.accept(stream) => accepted,
        // Who has not shaken hands has asked nothing yet.
        _ = reached(&mut phases, Phase::Draining) => None,
    };
    match accepted {
        Some(stream) => serve(shared, protocol, stream, peer).await,
        None => End::Closed,
    }
}

/// Serves one connection until it closes, or until the server tells it to.
async fn serve<R, IO>(shared: Arc<Shared<R>>, protocol: http1::Builder, io: IO, peer: IpAddr) -> End
where
    R: Responder,
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut phases = shared.phases.clone();
    let io = TokioIo::new(StallGuard::new(io, shared.config.write_stall_timeout));
    let routes = routes::service(Arc::clone(&shared));
    let service =
        service_fn(move |request| exchange(Arc::clone(&shared), routes.clone(), peer, request));
    let mut connection = std::pin::pin!(protocol.serve_connection(io, service));

    tokio::select! {
        result = connection.as_mut() => return closed(result),
        phase = reached(&mut phases, Phase::Draining) => {
            if phase == Phase::Killed {
                return End::Killed;
            }
        }
    }
    // Closes at once where no request is in work or half-sent, else after its answer.
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        result = connection => closed(result),
        _ = reached(&mut phases, Phase::Killed) => End::Killed,
    }
}

/// Waits for a phase, and tells which has been reached. A server that has gone without a word counts as killed.
async fn reached(phases: &mut watch::Receiver<Phase>, least: Phase) -> Phase {
    phases
        .wait_for(|phase| *phase >= least)
        .await
        .map_or(Phase::Killed, |phase| *phase)
}

fn closed(result: hyper::Result<()>) -> End {
    if let Err(error) = result {
        // What clients do wrong is theirs: nothing here asks for an operator.
        tracing::debug!(%error, "connection closed on an error");
    }
    End::Closed
}
