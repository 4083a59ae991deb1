//! Store in a PostgreSQL database.

use std::path::PathBuf;
use std::time::Duration;

use knowledge_storage_postgres::{
    COMMITTERS_DEFAULT, CONNECT_TIME_MAX_DEFAULT, LOCK_TIME_MAX_DEFAULT, OpenError,
    PostgresOptions, PostgresStore, READ_CONNECTIONS_DEFAULT, READ_TIME_MAX_DEFAULT,
    WRITE_TIME_MAX_DEFAULT,
};

use super::{DataError, views};
use crate::private_file::read_secret;
use crate::store_address::PostgresAddress;

/// Configuration of stores in PostgreSQL databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresConfig {
    /// File with the password, which replaces the one in the address; it is read for each new
    /// connection.
    pub password_file: Option<PathBuf>,
    /// File of the authorities that may sign the server's certificate; if unset, the operating
    /// system's list applies.
    pub ca_file: Option<PathBuf>,
    /// Number of connections for reads.
    pub read_connections: usize,
    /// Number of connections for commits.
    pub write_connections: usize,
    /// Value of [`connect_time_max`](PostgresOptions::connect_time_max).
    pub connect_timeout: Duration,
    /// Value of [`read_time_max`](PostgresOptions::read_time_max).
    pub read_timeout: Duration,
    /// Value of [`lock_time_max`](PostgresOptions::lock_time_max).
    pub lock_timeout: Duration,
    /// Value of [`write_time_max`](PostgresOptions::write_time_max).
    pub write_timeout: Duration,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            password_file: None,
            ca_file: None,
            read_connections: READ_CONNECTIONS_DEFAULT,
            write_connections: COMMITTERS_DEFAULT,
            connect_timeout: CONNECT_TIME_MAX_DEFAULT,
            read_timeout: READ_TIME_MAX_DEFAULT,
            lock_timeout: LOCK_TIME_MAX_DEFAULT,
            write_timeout: WRITE_TIME_MAX_DEFAULT,
        }
    }
}

impl PostgresConfig {
    /// Returns the maximum number of connections, which are open files.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        // One more prepares the schema.
        self.read_connections + self.write_connections + 1
    }

    /// Opens the database, and creates the tables if they are missing.
    pub(super) async fn open(&self, address: &PostgresAddress) -> Result<PostgresStore, DataError> {
        let failed = |source: OpenError| DataError::Postgres {
            hint: self.certificates_hint(address, &source),
            store: address.to_string(),
            source,
        };
        let mut options = self.options(address).map_err(failed)?;
        if let Some(file) = self.password_file.clone() {
            read_secret(&file).map_err(DataError::PostgresPassword)?;
            options = options.password_source(move || read_secret(&file));
        }
        PostgresStore::open(options).await.map_err(failed)
    }

    /// Returns which setting names the root certificates, for an error that they may have caused.
    fn certificates_hint(&self, address: &PostgresAddress, error: &OpenError) -> String {
        let is_in_url = address.expose().contains("sslrootcert=");
        match &self.ca_file {
            _ if !error.concerns_certificates() => String::new(),
            Some(file) => format!(
                " (the root certificates are those of postgres.ca_file, {})",
                file.display()
            ),
            None if is_in_url => {
                " (the root certificates are those of sslrootcert in the URL)".to_owned()
            }
            None => " (the root certificates are those of the operating system; name others with \
                     postgres.ca_file, or with sslrootcert in the URL)"
                .to_owned(),
        }
    }

    /// Returns the options for a database, without the password of the file.
    ///
    /// # Errors
    /// [`OpenError::InvalidUrl`].
    pub(crate) fn options(&self, address: &PostgresAddress) -> Result<PostgresOptions, OpenError> {
        if !address.is_clear() {
            return Err(OpenError::InvalidUrl {
                reason:
                    "it is not clear where the password ends; percent-encode its @, ?, # and spaces"
                        .to_owned(),
            });
        }
        let mut options = PostgresOptions::new(address.expose())?
            .read_connections(self.read_connections)
            .committers(self.write_connections)
            .connect_time_max(self.connect_timeout)
            .read_time_max(self.read_timeout)
            .lock_time_max(self.lock_timeout)
            .write_time_max(self.write_timeout)
            .views(views::NUMBER, views::SQL);
        if let Some(file) = &self.ca_file {
            options = options.root_certificates(file);
        }
        Ok(options)
    }
}
