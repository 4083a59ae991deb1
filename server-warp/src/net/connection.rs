//! One connection, from accept to close.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures::FutureExt as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::config::NetConfig;
use super::header::{HeaderGuard, HeaderTooSlow, Requests};
use super::proxy_protocol;
use super::respond::respond;
use super::responder::Responder;
use super::routes;
use super::shared::{Phase, Shared};
use super::stall::StallGuard;
use crate::metrics::CloseReason;

/// Size of hyper's buffer for reading and writing; hyper requires at least 8 KiB.
const BUFFER_BYTES_MAX: usize = 64 * 1_024;

/// Returns the HTTP/1 settings of every connection.
pub(super) fn protocol(config: &NetConfig) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        // Without a timer the timeout would have no effect. The header has another: `HeaderGuard`.
        .timer(TokioTimer::new())
        .header_read_timeout(config.idle_timeout)
        .max_header_size(config.header_bytes_max)
        .max_buf_size(BUFFER_BYTES_MAX.max(config.header_bytes_max));
    protocol
}

/// Serves a connection that was just accepted, after the TLS handshake if the server speaks TLS.
pub(super) async fn open<R: Responder>(
    shared: Arc<Shared<R>>,
    protocol: http1::Builder,
    mut stream: TcpStream,
    peer: IpAddr,
) -> CloseReason {
    let peer = match announced_peer(&shared, &mut stream, peer).await {
        Ok(peer) => peer,
        Err(reason) => return reason,
    };
    let is_proxy = shared.config.proxy.trusts(peer);
    let Some(_open) = shared.client_connections.open(peer, is_proxy) else {
        tracing::debug!(%peer, "client holds its share of the connections; closing");
        return CloseReason::ClientLimit;
    };
    let Some(certificates) = &shared.certificates else {
        return serve(shared, protocol, stream, peer).await;
    };
    let mut phases = shared.phases.clone();
    // Boxed, like the connection below, so that connections without TLS do not reserve room for it.
    // With the other boxed futures of a request, 2,000 connections take 22 to 28 MiB instead of 52 to
    // 55 (`cargo xtask bench`).
    let accepted = tokio::select! {
        accepted = Box::pin(certificates.accept(stream)) => accepted,
        // Without a handshake there is no request to complete.
        _ = reached(&mut phases, Phase::Draining) => return CloseReason::Shutdown,
    };
    match accepted {
        Some(stream) => Box::pin(serve(shared, protocol, stream, peer)).await,
        None => CloseReason::Handshake,
    }
}

/// Returns the address that a connection comes from: the one in its PROXY protocol header, if it has
/// to have one.
async fn announced_peer<R>(
    shared: &Shared<R>,
    stream: &mut TcpStream,
    peer: IpAddr,
) -> Result<IpAddr, CloseReason> {
    let proxy = &shared.config.proxy;
    if !proxy.protocol || !proxy.trusts(peer) {
        return Ok(peer);
    }
    let mut phases = shared.phases.clone();
    let reading = proxy_protocol::read_client(stream);
    let read = tokio::select! {
        read = tokio::time::timeout(shared.config.header_read_timeout, reading) => read,
        // Without the header there is no request to complete.
        _ = reached(&mut phases, Phase::Draining) => return Err(CloseReason::Shutdown),
    };
    match read {
        Ok(Ok(client)) => return Ok(client.unwrap_or(peer)),
        Ok(Err(error)) => tracing::debug!(%peer, %error, "PROXY protocol header missing"),
        Err(_) => tracing::debug!(%peer, "PROXY protocol header timed out"),
    }
    Err(CloseReason::ProxyHeader)
}

/// Serves one connection until it closes or the server closes it; returns the reason.
async fn serve<R, IO>(
    shared: Arc<Shared<R>>,
    protocol: http1::Builder,
    io: IO,
    peer: IpAddr,
) -> CloseReason
where
    R: Responder,
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut phases = shared.phases.clone();
    let config = &shared.config;
    let requests = Arc::<Requests>::default();
    let io = HeaderGuard::new(io, Arc::clone(&requests), config.header_read_timeout);
    let io = TokioIo::new(StallGuard::new(io, config.write_stall_timeout));
    let routes = routes::service(Arc::clone(&shared));
    let service = service_fn(move |request| {
        requests.begin();
        let (shared, requests) = (Arc::clone(&shared), Arc::clone(&requests));
        let response = respond(shared, routes.clone(), peer, request);
        response.inspect(move |_| requests.end())
    });
    let mut connection = std::pin::pin!(protocol.serve_connection(io, service));

    tokio::select! {
        result = connection.as_mut() => return closed(result, CloseReason::Finished),
        phase = reached(&mut phases, Phase::Draining) => {
            if phase == Phase::Killed {
                return CloseReason::Killed;
            }
        }
    }
    // Closes immediately if no request is in flight or partly sent, otherwise after its response.
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        result = connection => closed(result, CloseReason::Shutdown),
        _ = reached(&mut phases, Phase::Killed) => CloseReason::Killed,
    }
}

/// Waits for a phase and returns the current one. A server that was dropped counts as killed.
async fn reached(phases: &mut watch::Receiver<Phase>, least: Phase) -> Phase {
    phases
        .wait_for(|phase| *phase >= least)
        .await
        .map_or(Phase::Killed, |phase| *phase)
}

fn closed(result: hyper::Result<()>, in_order: CloseReason) -> CloseReason {
    let Err(error) = result else {
        return in_order;
    };
    // Errors of clients are not the operator's concern.
    tracing::debug!(%error, "connection failed");
    let source = error.source();
    let failed = source.and_then(|source| source.downcast_ref::<io::Error>());
    match failed {
        _ if error.is_timeout() => CloseReason::HeaderTimeout,
        _ if error.is_parse() => CloseReason::Malformed,
        Some(failed) if is_too_slow(failed) => CloseReason::HeaderTimeout,
        // The `StallGuard` made a write fail.
        Some(failed) if failed.kind() == io::ErrorKind::TimedOut => CloseReason::WriteStalled,
        _ => CloseReason::Broken,
    }
}

/// True if the [`HeaderGuard`] made a read fail.
fn is_too_slow(failed: &io::Error) -> bool {
    let inner = failed.get_ref();
    inner.is_some_and(|inner| inner.is::<HeaderTooSlow>())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Request;
    use hyper::body::Incoming;
    use tokio_rustls::server::TlsStream;
    use tower_service::Service;
    use warp::reply::Response;

    use super::*;
    use crate::responder::ApiResponder;

    fn future_bytes<A, B, C, D, F>(_: impl FnOnce(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    fn response_bytes<R, S>(_routes: impl FnOnce(Arc<Shared<R>>) -> S) -> usize
    where
        R: Responder,
        S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
    {
        future_bytes(respond::<R, S>)
    }

    #[test]
    fn connection_without_tls_reserves_no_room_for_it() {
        let tls = future_bytes(serve::<ApiResponder, TlsStream<TcpStream>>);
        let bytes = future_bytes(open::<ApiResponder>);
        assert!(bytes < tls && bytes <= 2_048, "{bytes} bytes, TLS {tls}");
    }

    #[test]
    fn connection_keeps_little_room_for_its_next_response() {
        let bytes = response_bytes(routes::service::<ApiResponder>);
        assert!(bytes <= 3_072, "{bytes} bytes");
    }
}
