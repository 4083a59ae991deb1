//! `knowledge serve`: the server over a directory of data.

use std::future::Future;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;

use super::args::{DataArgs, LogArgs, duration};
use super::failure::Failure;
use crate::app::App;
use crate::data::DataConfig;
use crate::logging::{self, LogConfig, LogFormat};
use crate::metrics::Metrics;
use crate::net::{
    ADDRESS_DEFAULT, CONNECTIONS_MAX_DEFAULT, NetConfig, REQUESTS_IN_WORK_MAX_DEFAULT,
};
use crate::system::{OsRandomness, SystemClock};

/// Serve the interface over HTTP, until SIGTERM or SIGINT
///
/// The first start makes the store and its sealing key. A signal lets the requests in work finish; a second one ends
/// the process at once, and loses nothing that was acknowledged.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,

    /// The address to listen on; port 0 takes a free port
    #[arg(long, value_name = "ADDR", default_value_t = ADDRESS_DEFAULT)]
    listen: SocketAddr,

    /// Where clients find this server, the beginning of the URLs of inbound webhooks: https://knowledge.example.com
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,

    /// Connections open at once; further clients wait
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX_DEFAULT)]
    max_connections: usize,

    /// Requests in work at once; further ones are answered 503
    #[arg(long, value_name = "N", default_value_t = REQUESTS_IN_WORK_MAX_DEFAULT)]
    max_requests: usize,

    /// Time for a request, from the end of its header to its answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    request_timeout: Duration,

    /// Time for the requests in work to finish when the server is stopped
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    shutdown_timeout: Duration,

    #[command(flatten)]
    log: LogArgs,
}

/// Everything that a server is told.
#[derive(Debug)]
struct Config {
    data: DataConfig,
    net: NetConfig,
    log: LogConfig,
    limits: Limits,
    public_url: Option<String>,
}

impl From<Args> for Config {
    fn from(args: Args) -> Self {
        let limits = Limits::default();
        Self {
            data: args.data.config(),
            net: NetConfig {
                address: args.listen,
                connections_max: args.max_connections,
                requests_in_work_max: args.max_requests,
                request_timeout: args.request_timeout,
                shutdown_timeout: args.shutdown_timeout,
                body_bytes_max: limits.body_bytes_max,
                ..NetConfig::default()
            },
            log: args.log.config(),
            limits,
            public_url: args
                .public_url
                .map(|url| url.trim_end_matches('/').to_owned()),
        }
    }
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let config = Config::from(args);
    logging::init(&config.log)?;
    let metrics = Metrics::new();
    let mut data = config.data.open().await?;
    data.measure(&metrics);
    let mut options = data.options(config.limits);
    options.public_url = config.public_url;
    let env = Env::new(metrics.meter_clock(SystemClock), OsRandomness);
    let service = data.service(env, options).await?;
    let app = App::bind_measured(service, config.net, metrics).await?;
    // Before anybody is told that the server is there, and may want to stop it.
    let shutdown = shutdown_signal()?;
    announce(&app, &config.log);
    app.run(shutdown).await;
    Ok(())
}

/// Says where the server listens, in one line that looks like the rest of the log.
fn announce(app: &App, log: &LogConfig) {
    let is_json = match log.format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let url = app.base_url();
    if is_json && tracing::enabled!(tracing::Level::INFO) {
        tracing::info!("listening on {url}");
    } else {
        eprintln!("listening on {url}");
    }
}

/// Resolves at the first SIGTERM or SIGINT. From then on another one ends the process at once.
pub(super) fn shutdown_signal() -> Result<impl Future<Output = ()>, Failure> {
    let failed = |error| Failure::new(format!("cannot wait for signals: {error}"));
    let mut signals = Signals::listen().map_err(failed)?;
    Ok(async move {
        signals.next().await;
        tokio::spawn(async move {
            signals.next().await;
            // What was acknowledged is on the disk; nothing else is owed.
            std::process::exit(1);
        });
    })
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
