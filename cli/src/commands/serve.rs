//! `knowledge serve`: the server over a data directory or a database.

use std::future::Future;
use std::io::IsTerminal;
use std::sync::Arc;

use knowledge_core::env::{Env, OsRandomness, SystemClock};
#[cfg(unix)]
use knowledge_server::admin::AdminSocket;
use knowledge_server::app::App;
#[cfg(unix)]
use knowledge_server::backup::Backup;
use knowledge_server::config::{Config, Sources};
use knowledge_server::data::Data;
use knowledge_server::deliveries::{Deliveries, DeliveryClient, POLL_INTERVAL_SHARED};
use knowledge_server::logging::{self, LogConfig, LogControl, LogFormat};
use knowledge_server::metrics::{self, Endpoint, Metrics};
use knowledge_server::net::{BindError, Certificates};
#[cfg(feature = "oidc")]
use knowledge_server::oidc::Oidc;
#[cfg(unix)]
use knowledge_server::partitions::OperatorApi;
use knowledge_server::store_address::{STORES_FOR_HELP, StoreAddress};
use knowledge_server::telemetry::Telemetry;

use super::describe::settings_for_help;
use super::failure::Failure;
use super::settings::ServerArgs;

/// Serve the API over HTTP until SIGTERM or SIGINT
///
/// The first start creates the store and its sealing key. On a signal the server completes the
/// requests in flight; a second signal ends it immediately, without losing acknowledged data.
/// SIGHUP reloads the TLS certificate and the log level.
///
/// Every setting can also be set in the configuration file, as `name = value` under `[section]`,
/// and in the environment, as KNOWLEDGE_SECTION__NAME. A flag overrides the environment, which
/// overrides the file. `knowledge config show` lists the effective settings and their sources.
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
    // Registered first, so that SIGHUP does not end the process while the store is being opened.
    let sighup = SighupListener::listen()?;
    let sources = args.settings.sources();
    let config: Config = sources.load()?.config;
    let log = logging::init(&config.log)?;
    let net = config.net();
    // Checked before anything is created on the disk.
    net.tls.check_files().map_err(BindError::from)?;
    // Reads the secret, and sends no request.
    #[cfg(feature = "oidc")]
    let oidc = Oidc::new(&config.oidc)?;
    let metrics = Metrics::new();
    let mut data = config.data().open_when_free().await?;
    data.measure(&metrics);
    let mut others = config.data().open_partitions_when_free(&data).await?;
    let telemetry = Telemetry::start(&config.telemetry, &metrics)?;
    if let Some(telemetry) = &telemetry {
        data.store = telemetry.trace_store(data.store);
    }
    for (_, other) in &mut others {
        other.measure_calls(&metrics);
        if let Some(telemetry) = &telemetry {
            other.store = telemetry.trace_store(Arc::clone(&other.store));
        }
    }
    let deliveries = deliveries(&config, telemetry.as_ref())?;
    let options = config.options(&data);
    let env = Env::new(metrics.meter_clock(SystemClock), OsRandomness);
    #[cfg(unix)]
    let backup = {
        let stored = |(name, other): &(String, Data)| (name.clone(), other.backend().clone());
        Backup::of(data.backend().clone()).with_partitions(others.iter().map(stored).collect())
    };
    let partitions = data.partitions(others, env, options).await?;
    #[cfg(unix)]
    let admin = {
        let api = OperatorApi::new(partitions.clone());
        admin_socket(&config, api, backup).await?
    };
    let app = App::bind_with_metrics(partitions, net, Arc::clone(&metrics)).await?;
    #[cfg(unix)]
    let app = app.with_admin(admin);
    #[cfg(feature = "oidc")]
    let app = app.sign_in_with(oidc);
    let mut app = app.maintain_every(config.maintenance_interval);
    if let Some(telemetry) = &telemetry {
        app = app.with_tracer(telemetry.requests());
    }
    if let Some(deliveries) = deliveries {
        app = app.deliver_with(deliveries);
    }
    let scraped = serve_metrics(&config, metrics, &app).await?;
    // Registered before the address is announced, as a client may stop the server from then on.
    let shutdown = shutdown_signal()?;
    sighup.reload(app.certificates(), log, sources);
    announce(&app, &config.log);
    app.run(shutdown).await;
    // Metrics remain available while the server drains.
    if let Some(endpoint) = scraped {
        endpoint.stop().await;
    }
    if let Some(telemetry) = telemetry {
        telemetry.shut_down().await;
    }
    Ok(())
}

/// Serves metrics, if configured.
async fn serve_metrics(
    config: &Config,
    metrics: Arc<Metrics>,
    app: &App,
) -> Result<Option<Endpoint>, Failure> {
    let Some(address) = config.metrics_listen else {
        return Ok(None);
    };
    let served = metrics::serve(address, metrics, app.service().clone()).await;
    let remedy = "set metrics.listen to another address";
    let endpoint = served.map_err(|error| Failure::of_bind(&error, remedy))?;
    Ok(Some(endpoint))
}

/// Returns the delivery of webhooks, if enabled.
fn deliveries(
    config: &Config,
    telemetry: Option<&Telemetry>,
) -> Result<Option<Deliveries>, Failure> {
    if !config.webhooks.deliver {
        tracing::warn!("webhook delivery is disabled (webhooks.deliver)");
        return Ok(None);
    }
    let client = DeliveryClient::new(&config.webhooks)?;
    let mut deliveries =
        Deliveries::through(Arc::new(client)).in_flight_max(config.webhooks.in_flight_max);
    let data = config.data();
    let others = data.partitions.iter().map(|partition| &partition.store);
    if others.chain([&data.store]).any(StoreAddress::is_shared) {
        deliveries = deliveries.poll_every(POLL_INTERVAL_SHARED);
    }
    Ok(Some(match telemetry {
        Some(telemetry) => deliveries.with_tracer(telemetry.deliveries()),
        None => deliveries,
    }))
}

/// Binds the configured admin socket.
#[cfg(unix)]
pub(super) async fn admin_socket(
    config: &Config,
    api: impl Into<OperatorApi>,
    backup: Backup,
) -> Result<Option<AdminSocket>, Failure> {
    let Some(path) = config.admin_socket.path(&config.data())? else {
        return Ok(None);
    };
    let socket = AdminSocket::bind(&path, api).await.map_err(|error| {
        Failure::new(format!(
            "{error} (choose another path with --admin-socket, or disable the socket with \
             --admin-socket=off)"
        ))
    })?;
    Ok(Some(socket.with(Arc::new(backup))))
}

/// Announces the address of the server, in the format of the log.
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

/// Resolves at the first SIGTERM or SIGINT. A second signal ends the process immediately.
pub(super) fn shutdown_signal() -> Result<impl Future<Output = ()>, Failure> {
    let failed = |error| Failure::new(format!("cannot wait for signals: {error}"));
    let mut signals = Signals::listen().map_err(failed)?;
    Ok(async move {
        signals.next().await;
        tokio::spawn(async move {
            signals.next().await;
            // Acknowledged data is on the disk.
            std::process::exit(1);
        });
    })
}

/// Listener for SIGHUP.
#[cfg(unix)]
struct SighupListener(tokio::signal::unix::Signal);

#[cfg(unix)]
impl SighupListener {
    fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};

        let failed = |error| Failure::new(format!("cannot wait for signals: {error}"));
        Ok(Self(signal(SignalKind::hangup()).map_err(failed)?))
    }

    /// Reloads the certificate and the log level at every SIGHUP.
    ///
    /// A signal received since `listen` is handled immediately. Other settings apply at the next
    /// start.
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
                    None => tracing::info!("SIGHUP: no TLS certificate to reload"),
                }
            }
        });
    }
}

/// Reloads the log level. An invalid configuration changes nothing.
#[cfg(unix)]
fn reload_log_level(log: &LogControl, sources: &Sources) {
    let config = match sources.load() {
        Ok(loaded) => loaded.config.log,
        Err(problems) => {
            tracing::error!(%problems, "SIGHUP: invalid configuration; log level unchanged");
            return;
        }
    };
    match log.set_level(&config) {
        Ok(()) => tracing::info!(level = config.level, "SIGHUP: log level reloaded"),
        Err(error) => tracing::error!(%error, "SIGHUP: invalid log level; log level unchanged"),
    }
}

/// Other systems have no SIGHUP; certificates are reloaded at an interval.
#[cfg(not(unix))]
struct SighupListener;

#[cfg(not(unix))]
impl SighupListener {
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
