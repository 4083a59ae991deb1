//! Connections: to the first host that accepts writes, with the settings of the store.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::error::Severity;
use tokio_postgres::tls::{MakeTlsConnect, TlsStream};
use tokio_postgres::{AsyncMessage, Client, NoTls, Socket};

use crate::error::OpenError;
use crate::options::{PasswordSource, PostgresOptions, SNAPSHOT_IDLE_TIME_MAX};
use crate::reasons::Reasons;
use crate::tls::MakeTls;
use crate::url::HostConfig;

/// Time limits of the operating system for a peer that does not answer.
const SILENCE_MAX: Duration = Duration::from_secs(15);
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Time after which the client library probes a connection by default, which is too long.
const PROBE_AFTER_DEFAULT: Duration = Duration::from_secs(2 * 60 * 60);

/// Settings of every session. Scans of a few entries must never sort or read the whole table.
const SETTINGS: &str = "-c synchronous_commit=on -c jit=off -c enable_seqscan=off \
     -c enable_bitmapscan=off -c enable_sort=off -c max_parallel_workers_per_gather=0";

/// Setting of each session with a value that no other session has. A session without it has not got
/// its settings: a pooler has dropped them.
const SESSION: &str = "knowledge.session";

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Commit,
    Schema,
    Snapshot,
}

/// Connector with the parameters of all connections of a store.
pub(crate) struct Connector {
    hosts: Vec<HostConfig>,
    /// `None` if no host uses TLS.
    tls: Option<MakeTls>,
    password: Option<PasswordSource>,
    reasons: Reasons,
    time_max: Duration,
    read_time_max: Duration,
    lock_time_max: Duration,
}

impl Connector {
    /// Creates a connector.
    ///
    /// # Errors
    /// [`OpenError::RootCertificates`] if a host uses TLS and there are no root certificates.
    pub(crate) fn new(options: &PostgresOptions) -> Result<Self, OpenError> {
        let hosts = options.target.hosts();
        let uses_tls = hosts.iter().any(|host| host.uses_tls);
        let tls = uses_tls.then(|| MakeTls::new(options.root_certificates_path()));
        Ok(Self {
            hosts,
            tls: tls.transpose()?,
            password: options.password.clone(),
            reasons: Reasons::default(),
            time_max: options.connect_time_max,
            read_time_max: options.read_time_max,
            lock_time_max: options.lock_time_max,
        })
    }

    /// Connects to the first host that accepts writes.
    ///
    /// It logs why that is impossible, unless the last attempt failed for the same reasons.
    ///
    /// # Errors
    /// The error of the host; of several, [`OpenError::Hosts`].
    pub(crate) async fn connect(&self, purpose: Purpose) -> Result<Connection, OpenError> {
        let connected = self.try_hosts(purpose).await;
        // The call that opens the store reports an error of the schema.
        if purpose != Purpose::Schema && self.reasons.is_news(connected.as_ref().err()) {
            match &connected {
                Ok(connection) => {
                    tracing::info!(
                        server = connection.server(),
                        "connected to PostgreSQL again"
                    );
                }
                Err(error) => tracing::warn!(%error, "no connection to PostgreSQL"),
            }
        }
        connected
    }

    async fn try_hosts(&self, purpose: Purpose) -> Result<Connection, OpenError> {
        let password = self.password.as_ref().map(PasswordSource::read);
        let password = password.transpose()?;
        let mut errors = Vec::new();
        for host in &self.hosts {
            let connected = self.connect_to(host, purpose, password.as_deref());
            errors.push(match timeout(self.time_max, connected).await {
                Ok(Ok(Some(connection))) => return Ok(connection),
                Ok(Ok(None)) => OpenError::SettingsDropped {
                    server: host.name.clone(),
                },
                Ok(Err(error)) => OpenError::new(&host.name, &error),
                Err(_) => OpenError::Unreachable {
                    server: host.name.clone(),
                    reason: "no answer in time".to_owned(),
                },
            });
        }
        let is_one = errors.len() == 1;
        let one = is_one.then(|| errors.pop()).flatten();
        Err(one.unwrap_or(OpenError::Hosts { errors }))
    }

    /// Connects to a host; returns `None` if the session has not got its settings.
    async fn connect_to(
        &self,
        host: &HostConfig,
        purpose: Purpose,
        password: Option<&str>,
    ) -> Result<Option<Connection>, tokio_postgres::Error> {
        let session = format!("{:016x}", fastrand::u64(..));
        let connection = self.try_host(host, purpose, password, &session).await?;
        let current = format!("SELECT current_setting('{SESSION}', true)");
        let found = connection.client().query_typed(&current, &[]).await?;
        let found: Option<&str> = found.first().and_then(|row| row.get(0));
        let has_settings = found == Some(session.as_str());
        Ok(has_settings.then_some(connection))
    }

    async fn try_host(
        &self,
        host: &HostConfig,
        purpose: Purpose,
        password: Option<&str>,
        session: &str,
    ) -> Result<Connection, tokio_postgres::Error> {
        let mut config = host.config.clone();
        if let Some(password) = password {
            config.password(password);
        }
        let settings = format!("{} -c {SESSION}={session}", self.settings(purpose));
        // The last setting of a name is valid.
        config.options(match config.get_options() {
            Some(own) => format!("{settings} {own}"),
            None => settings,
        });
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_keepalives_idle() == PROBE_AFTER_DEFAULT {
            config.keepalives_idle(SILENCE_MAX);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(PROBE_INTERVAL);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE_MAX);
        }
        match &self.tls {
            Some(tls) if host.uses_tls => {
                config.ssl_mode(SslMode::Require);
                Connection::open(&config, tls.clone(), &host.name).await
            }
            _ => {
                config.ssl_mode(SslMode::Disable);
                Connection::open(&config, NoTls, &host.name).await
            }
        }
    }

    fn settings(&self, purpose: Purpose) -> String {
        let lock = self.lock_time_max.as_millis().max(1);
        match purpose {
            Purpose::Read => {
                let read = self.read_time_max.as_millis().max(1);
                format!("{SETTINGS} -c statement_timeout={read}")
            }
            // A commit is never cancelled: a cancelled one does not tell whether it was replicated.
            Purpose::Commit => format!(
                "{SETTINGS} -c statement_timeout=0 -c client_connection_check_interval=0 \
                 -c lock_timeout={lock} -c idle_in_transaction_session_timeout={lock}"
            ),
            Purpose::Snapshot => {
                let read = self.read_time_max.as_millis().max(1);
                let idle = SNAPSHOT_IDLE_TIME_MAX.as_millis();
                format!(
                    "{SETTINGS} -c statement_timeout={read} \
                     -c idle_in_transaction_session_timeout={idle}"
                )
            }
            Purpose::Schema => format!("{SETTINGS} -c statement_timeout=0 -c lock_timeout=60s"),
        }
    }
}

/// Open connection, driven by a task of its own.
pub(crate) struct Connection {
    client: Client,
    server: String,
    /// True after a warning of the server.
    is_warned: Arc<AtomicBool>,
    driver: JoinHandle<()>,
}

impl Connection {
    async fn open<T>(
        config: &tokio_postgres::Config,
        tls: T,
        server: &str,
    ) -> Result<Self, tokio_postgres::Error>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: TlsStream + Send + 'static,
    {
        let (client, mut connection) = config.connect(tls).await?;
        let is_warned = Arc::new(AtomicBool::new(false));
        let warned = Arc::clone(&is_warned);
        let name = server.to_owned();
        let driver = tokio::spawn(async move {
            loop {
                match poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notice(notice))) => {
                        let (code, message) = (notice.code().code(), notice.message());
                        if notice.parsed_severity() == Some(Severity::Warning) {
                            // Stored before the answer to the statement is passed on.
                            warned.store(true, Ordering::Release);
                            tracing::warn!(server = %name, code, message, "warning of PostgreSQL");
                        }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        let error = crate::error::describe(&error);
                        tracing::warn!(server = %name, error, "connection to PostgreSQL lost");
                        return;
                    }
                    None => return,
                }
            }
        });
        Ok(Self {
            client,
            server: server.to_owned(),
            is_warned,
            driver,
        })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns host and port of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed() || self.driver.is_finished()
    }

    /// Waits until the connection is lost.
    pub(crate) async fn closed(&mut self) {
        if !self.driver.is_finished() {
            // The driver does not panic, and is not aborted while its connection is used.
            let _ = (&mut self.driver).await;
        }
    }

    /// Returns true if the server has sent a warning since the last call.
    pub(crate) fn take_warning(&self) -> bool {
        self.is_warned.swap(false, Ordering::AcqRel)
    }
}
