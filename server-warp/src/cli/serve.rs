//! `knowledge serve`: the server over a directory of data.

use std::future::Future;
use std::io::IsTerminal;
use std::sync::Arc;

#[cfg(unix)]
use knowledge_core::api::AdminApi;
use knowledge_core::env::Env;
use knowledge_core::service::KnowledgeService;

use super::failure::Failure;
use super::settings::ServerArgs;
#[cfg(unix)]
use crate::admin::AdminSocket;
use crate::app::App;
#[cfg(unix)]
use crate::backup::Backup;
use crate::config::{BaseUrl, Config, Sources, settings_for_help};
use crate::data::{Backend, Data};
use crate::deliveries::{Deliveries, DeliveryClient, Wake};
use crate::logging::{self, LogConfig, LogControl, LogFormat};
use crate::metrics::{self, Metrics};
use crate::net::{BindError, Certificates};
use crate::store_address::STORES_FOR_HELP;
use crate::system::{OsRandomness, SystemClock};
use crate::telemetry::Telemetry;

/// Serve the interface over HTTP, until SIGTERM or SIGINT
///
/// The first start makes the store and its sealing key. A signal lets the requests in work finish; a second one ends
/// the process at once, and loses nothing that was acknowledged. SIGHUP has a certificate read again.
///
/// Every setting can stand in the file, `name = value` under `[section]`, and in the environment, as
/// KNOWLEDGE_SECTION__NAME; a flag comes before the environment, and that before the file. `knowledge config show` shows
/// what is in force and where it came from.
#[derive(Debug, clap::Args)]
#[command(after_long_help = further_settings())]
pub(super) struct Args {
    #[command(flatten)]
    settings: ServerArgs,
}

fn further_settings() -> String {
    format!(
        "{STORES_FOR_HELP}\n\nSettings without a flag:\n{}",
        settings_for_help()
    )
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    // From here on a SIGHUP does not end the process, however long the store takes to open.
    let hangups = Hangups::listen()?;
    let sources = args.settings.sources();
    let config: Config = sources.load()?.config;
    let log = logging::init(&config.log)?;
    let net = config.net();
    if let Some(tls) = &net.tls {
        // Before anything is made on the disk for a server that would not start.
        tls.try_files().map_err(BindError::from)?;
    }
    let metrics = Metrics::new();
    let mut data = config.data.open_when_free().await?;
    data.measure(&metrics);
    let telemetry = Telemetry::start(&config.telemetry, &metrics)?;
    if let Some(telemetry) = &telemetry {
        data.store = telemetry.trace_store(data.store);
    }
    let deliveries = deliveries(&config, &mut data, telemetry.as_ref())?;
    let mut options = data.options(config.limits.clone());
    options.public_url = config.public_url.as_ref().map(BaseUrl::to_string);
    options.webhook_addresses = config.webhooks.addresses.clone();
    let env = Env::new(metrics.meter_clock(SystemClock), OsRandomness);
    let service = data.service(env, options).await?;
    #[cfg(unix)]
    let admin = admin_socket(&config, &service, data.backend()).await?;
    let app = App::bind_measured(service, net, Arc::clone(&metrics)).await?;
    #[cfg(unix)]
    let app = app.with_admin(admin);
    let mut app = app.maintain_every(config.maintenance_interval);
    if let Some(telemetry) = &telemetry {
        app = app.traced_by(telemetry.requests());
    }
    if let Some(deliveries) = deliveries {
        app = app.deliver_with(deliveries);
    }
    let scraped = match config.metrics_listen {
        Some(address) => Some(metrics::serve(address, metrics, app.service().clone()).await?),
        None => None,
    };
    // Before anybody is told that the server is there, and may want to stop it.
    let shutdown = shutdown_signal()?;
    hangups.reload(app.certificates(), log, sources);
    announce(&app, &config.log);
    app.run(shutdown).await;
    // To the end: how a server drains is worth a look too.
    if let Some(endpoint) = scraped {
        endpoint.stop().await;
    }
    if let Some(telemetry) = telemetry {
        telemetry.shut_down().await;
    }
    Ok(())
}

/// How the server delivers, if it does; the store wakes it from here on.
fn deliveries(
    config: &Config,
    data: &mut Data,
    telemetry: Option<&Telemetry>,
) -> Result<Option<Deliveries>, Failure> {
    if !config.delivers {
        tracing::warn!("webhooks.deliver is off: nothing is delivered");
        return Ok(None);
    }
    let client = DeliveryClient::new(&config.webhooks)?;
    let wake = Wake::new();
    data.store = wake.watch_store(Arc::clone(&data.store));
    let deliveries = Deliveries::through(Arc::new(client))
        .in_flight_max(config.deliveries_in_flight_max)
        .woken_by(wake);
    Ok(Some(match telemetry {
        Some(telemetry) => deliveries.traced_by(telemetry.deliveries()),
        None => deliveries,
    }))
}

/// The admin socket of the configuration.
#[cfg(unix)]
pub(super) async fn admin_socket(
    config: &Config,
    service: &KnowledgeService,
    store: &Backend,
) -> Result<Option<AdminSocket>, Failure> {
    let Some(path) = config.admin_socket.path(&config.data)? else {
        return Ok(None);
    };
    let api = AdminApi::new(service.clone());
    let socket = AdminSocket::bind(&path, api).await.map_err(|error| {
        Failure::new(format!(
            "{error} (--admin-socket names another place, or is off)"
        ))
    })?;
    let backup = Backup::of(store.clone());
    Ok(Some(socket.with(Arc::new(backup))))
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

/// The SIGHUPs of the process.
#[cfg(unix)]
struct Hangups(tokio::signal::unix::Signal);

#[cfg(unix)]
impl Hangups {
    fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};

        let failed = |error| Failure::new(format!("cannot wait for signals: {error}"));
        Ok(Self(signal(SignalKind::hangup()).map_err(failed)?))
    }

    /// Reads the certificate and the level of the log again at every SIGHUP, for as long as the process lives, at once
    /// where there was one already. Everything else of the configuration is for the next start.
    fn reload(
        mut self,
        certificates: Option<Arc<Certificates>>,
        log: LogControl,
        sources: Sources,
    ) {
        tokio::spawn(async move {
            while self.0.recv().await.is_some() {
                reload_log_level(&log, &sources);
                match &certificates {
                    Some(certificates) => certificates.reload_and_log().await,
                    None => tracing::info!("SIGHUP: there is no certificate to read again"),
                }
            }
        });
    }
}

/// A configuration that cannot be used leaves everything as it is.
#[cfg(unix)]
fn reload_log_level(log: &LogControl, sources: &Sources) {
    let config = match sources.load() {
        Ok(loaded) => loaded.config.log,
        Err(problems) => {
            tracing::error!(%problems, "SIGHUP: the log goes on as it is");
            return;
        }
    };
    match log.set_level(&config) {
        Ok(()) => tracing::info!(
            level = config.level,
            "SIGHUP: the level of the log is read again"
        ),
        Err(error) => tracing::error!(%error, "SIGHUP: the log goes on as it is"),
    }
}

/// Elsewhere there is no such signal: the interval has to do.
#[cfg(not(unix))]
struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    fn listen() -> Result<Self, Failure> {
        Ok(Self)
    }

    fn reload(self, _: Option<Arc<Certificates>>, _: LogControl, _: Sources) {}
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
