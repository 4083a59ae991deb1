//! Options of the store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::OpenError;
use crate::url::Target;

/// Default number of connections for reads.
pub const READ_CONNECTIONS_DEFAULT: usize = 4;
/// Default number of connections for commits.
pub const COMMITTERS_DEFAULT: usize = 4;
/// Default time limit for connecting to one host.
pub const CONNECT_TIME_MAX_DEFAULT: Duration = Duration::from_secs(5);
/// Default time limit of a read.
pub const READ_TIME_MAX_DEFAULT: Duration = Duration::from_secs(30);
/// Default time limit of a commit's wait for other commits.
pub const LOCK_TIME_MAX_DEFAULT: Duration = Duration::from_secs(5);
/// Default time limit for making one group of commits durable.
pub const WRITE_TIME_MAX_DEFAULT: Duration = Duration::from_secs(60);
/// Time after which a [`PostgresSnapshot`](crate::PostgresSnapshot) that is not read is lost.
///
/// Until then the database keeps replaced rows, even for a reader that has ended unnoticed.
pub const SNAPSHOT_IDLE_TIME_MAX: Duration = Duration::from_secs(600);

/// Options of a [`PostgresStore`](crate::PostgresStore).
///
/// `Debug` shows the hosts, the database and the user, but not the password.
///
/// ```
/// use std::time::Duration;
/// use knowledge_storage_postgres::PostgresOptions;
///
/// let options = PostgresOptions::new("postgres://app:secret@db1,db2/knowledge")?
///     .committers(8)
///     .read_time_max(Duration::from_secs(10));
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), knowledge_storage_postgres::OpenError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub(crate) target: Target,
    pub(crate) password: Option<PasswordSource>,
    pub(crate) read_connections: usize,
    pub(crate) committers: usize,
    pub(crate) connect_time_max: Duration,
    pub(crate) read_time_max: Duration,
    pub(crate) lock_time_max: Duration,
    pub(crate) write_time_max: Duration,
    pub(crate) views: Option<Views>,
}

/// Source of the password of each new connection.
#[derive(Clone)]
pub(crate) struct PasswordSource(Arc<dyn Fn() -> Result<String, String> + Send + Sync>);

impl PasswordSource {
    pub(crate) fn read(&self) -> Result<String, OpenError> {
        (self.0)().map_err(|reason| OpenError::Password { reason })
    }
}

impl fmt::Debug for PasswordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordSource")
    }
}

/// Views of the application, applied with the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Views {
    pub(crate) number: u32,
    pub(crate) sql: &'static str,
}

impl PostgresOptions {
    /// Creates options from a connection string: a URL such as
    /// `postgres://user:password@host:5432/database`, or pairs such as
    /// `host=… user=… password=… dbname=…`.
    ///
    /// It accepts the parameters of PostgreSQL's own tools. These are of interest:
    ///
    /// | parameter | meaning |
    /// | --- | --- |
    /// | several hosts, `host1:5432,host2:5432` | tried in order until one accepts writes |
    /// | `sslmode` | `disable`, or `verify-full`; without it `verify-full`, but `disable` if the host is a loopback address. `require` and `verify-ca` mean `verify-full`; `prefer` is rejected |
    /// | `sslrootcert` | see [`PostgresOptions::root_certificates`] |
    /// | `channel_binding` | `prefer` (default), `require` or `disable` |
    /// | `options` | settings of the sessions, such as `-c search_path=…`; they override those of the store |
    /// | `application_name` | `knowledge` by default |
    /// | `keepalives_idle`, `keepalives_interval`, `tcp_user_timeout` | in seconds; 15, 5 and 15 by default |
    ///
    /// # Errors
    /// [`OpenError::InvalidUrl`]; its message does not contain the password.
    pub fn new(url: &str) -> Result<Self, OpenError> {
        Ok(Self {
            target: Target::parse(url)?,
            password: None,
            read_connections: READ_CONNECTIONS_DEFAULT,
            committers: COMMITTERS_DEFAULT,
            connect_time_max: CONNECT_TIME_MAX_DEFAULT,
            read_time_max: READ_TIME_MAX_DEFAULT,
            lock_time_max: LOCK_TIME_MAX_DEFAULT,
            write_time_max: WRITE_TIME_MAX_DEFAULT,
            views: None,
        })
    }

    /// Sets the password, which replaces the one in the connection string.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.target.config.password(password);
        self
    }

    /// Sets a source of the password that is called for each new connection, so that the password
    /// can change.
    ///
    /// The source returns the password, or an error message without the password, and must not
    /// block for longer than reading a small file takes.
    #[must_use]
    pub fn password_source(
        mut self,
        source: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.password = Some(PasswordSource(Arc::new(source)));
        self
    }

    /// Sets the PEM file of the authorities that may sign the server's certificate; by default, the
    /// operating system's list applies.
    #[must_use]
    pub fn root_certificates(mut self, path: impl Into<PathBuf>) -> Self {
        self.target.root_certificates = Some(path.into());
        self
    }

    /// Sets the number of connections that reads share; 4 by default, at least 1.
    #[must_use]
    pub fn read_connections(mut self, connections: usize) -> Self {
        self.read_connections = connections.max(1);
        self
    }

    /// Sets the number of committers, each with a connection of its own; 4 by default, at least 1.
    #[must_use]
    pub fn committers(mut self, committers: usize) -> Self {
        self.committers = committers.max(1);
        self
    }

    /// Sets the time limit for connecting to one host; 5 seconds by default.
    #[must_use]
    pub fn connect_time_max(mut self, time: Duration) -> Self {
        self.connect_time_max = time;
        self
    }

    /// Sets the time limit of a read; 30 seconds by default.
    #[must_use]
    pub fn read_time_max(mut self, time: Duration) -> Self {
        self.read_time_max = time;
        self
    }

    /// Sets the time limit of a commit's wait for others; 5 seconds by default.
    ///
    /// A commit waits three times, each time at most that long: for other commits of this process,
    /// for commits of other processes, and for a connection. The limit is also the longest time for
    /// which a process that has stopped can keep others waiting. A commit that has waited longer
    /// fails as `Unavailable`.
    #[must_use]
    pub fn lock_time_max(mut self, time: Duration) -> Self {
        self.lock_time_max = time;
        self
    }

    /// Sets the time limit for making one group of commits durable; one minute by default.
    ///
    /// Without an answer by then, as while a synchronous standby is missing, the outcome of the
    /// group is reported as `Unknown`.
    #[must_use]
    pub fn write_time_max(mut self, time: Duration) -> Self {
        self.write_time_max = time;
        self
    }

    /// Sets SQL that creates views on the entries, for analysts; none by default.
    ///
    /// It is executed in the transaction that prepares the schema if `number` is higher than the
    /// number of the views in the database. The SQL must replace views of any lower number.
    #[must_use]
    pub fn views(mut self, number: u32, sql: &'static str) -> Self {
        self.views = Some(Views { number, sql });
        self
    }

    pub(crate) fn root_certificates_path(&self) -> Option<&Path> {
        self.target.root_certificates.as_deref()
    }
}
