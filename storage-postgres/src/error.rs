//! Errors of opening a store, and the meaning of the server's errors.

use std::error::Error;
use std::io;

use knowledge_store::{StoreError, StoreErrorKind};
use tokio_postgres::error::{Severity, SqlState};

/// Failure to open a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The connection string is invalid: correct it.
    #[error("invalid connection string: {reason}")]
    InvalidUrl {
        /// Description of the error, without values.
        reason: String,
    },
    /// There are no root certificates for TLS: name a PEM file.
    #[error("no root certificates from {origin}: {reason}; name a PEM file with them")]
    RootCertificates {
        /// File, or the operating system.
        origin: String,
        /// Description of the error.
        reason: String,
    },
    /// No connection is possible: check the address, the network, and that the server runs.
    #[error(
        "cannot connect to {server}: {reason}; check the address and that the server accepts \
         connections"
    )]
    Unreachable {
        /// Host and port.
        server: String,
        /// Description of the error.
        reason: String,
    },
    /// The TLS handshake failed: check the certificates, or disable TLS in a trusted network.
    #[error(
        "no TLS connection to {server}: {reason}; check the host name and the root certificates, \
         or set \
         sslmode=disable in a network that you trust"
    )]
    Tls {
        /// Host and port.
        server: String,
        /// Description of the error.
        reason: String,
    },
    /// The server rejected the user or the password: correct the connection string or `pg_hba.conf`.
    #[error(
        "{server} rejected the credentials: {reason}; check the user, the password and pg_hba.conf"
    )]
    Credentials {
        /// Host and port.
        server: String,
        /// Message of the server.
        reason: String,
    },
    /// The database does not exist: create it.
    #[error("{server}: {reason}; create it with `createdb`")]
    MissingDatabase {
        /// Host and port.
        server: String,
        /// Message of the server.
        reason: String,
    },
    /// The server has no free connection: raise `max_connections`, or open fewer.
    #[error(
        "{server} has no free connection: {reason}; raise max_connections, or lower the number of \
         connections"
    )]
    TooManyConnections {
        /// Host and port.
        server: String,
        /// Message of the server.
        reason: String,
    },
    /// The server does not accept writes, such as a standby: connect to the primary.
    #[error("{server} is read-only; connect to the primary, or list all hosts")]
    ReadOnly {
        /// Host and port.
        server: String,
    },
    /// The settings of the session did not arrive: connect past the pooler that drops them.
    #[error(
        "{server}: the settings of the session did not arrive, so that a pooler has dropped the \
         startup parameter `options`; connect to PostgreSQL itself"
    )]
    SettingsDropped {
        /// Host and port.
        server: String,
    },
    /// The user may not create or use the tables: grant it the rights on the schema.
    #[error(
        "{server}: {reason}; as the owner, run `GRANT USAGE, CREATE ON SCHEMA … TO …` for the user"
    )]
    PermissionDenied {
        /// Host and port.
        server: String,
        /// Message of the server.
        reason: String,
    },
    /// The schema was created by a newer version of this crate: use that version.
    #[error(
        "the schema of the database has number {found}, but this program supports only {known}; \
         use a newer version"
    )]
    NewerSchema {
        /// Number in the database.
        found: u32,
        /// Highest number that this crate knows.
        known: u32,
    },
    /// The password cannot be read: correct its source.
    #[error("the password cannot be read: {reason}")]
    Password {
        /// Description of the error.
        reason: String,
    },
    /// None of several hosts can be used, each for a reason of its own.
    #[error("none of the {} hosts can be used: {}", errors.len(), numbered(errors))]
    Hosts {
        /// Errors of the hosts, in their order.
        errors: Vec<OpenError>,
    },
    /// The server reported another error.
    #[error("{server}: {reason}")]
    Server {
        /// Host and port.
        server: String,
        /// Message of the server.
        reason: String,
    },
}

impl OpenError {
    /// Returns the meaning of an error while connecting to a server, or preparing its schema.
    pub(crate) fn new(server: &str, error: &tokio_postgres::Error) -> Self {
        let (server, reason) = (server.to_owned(), describe(error));
        let Some(code) = error.code() else {
            return match error.to_string().as_str() {
                _ if is_read_only_session(error) => Self::ReadOnly { server },
                "error performing TLS handshake" => Self::Tls { server, reason },
                "authentication error" | "invalid configuration" => {
                    Self::Credentials { server, reason }
                }
                _ => Self::Unreachable { server, reason },
            };
        };
        match code {
            &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                Self::Credentials { server, reason }
            }
            &SqlState::INVALID_CATALOG_NAME => Self::MissingDatabase { server, reason },
            &SqlState::TOO_MANY_CONNECTIONS => Self::TooManyConnections { server, reason },
            &SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly { server },
            // No schema of the search path exists, or none may be used.
            &SqlState::INSUFFICIENT_PRIVILEGE | &SqlState::INVALID_SCHEMA_NAME => {
                Self::PermissionDenied { server, reason }
            }
            code if is_lost_connection(code) => Self::Unreachable { server, reason },
            _ => Self::Server { server, reason },
        }
    }

    /// Returns true if the root certificates may be the reason, for one of the hosts.
    #[must_use]
    pub fn concerns_certificates(&self) -> bool {
        match self {
            Self::Tls { .. } | Self::RootCertificates { .. } => true,
            Self::Hosts { errors } => errors.iter().any(Self::concerns_certificates),
            _ => false,
        }
    }

    /// Returns the error of a call without a connection.
    ///
    /// The reasons of several hosts, which each such call would repeat, are in the log only.
    pub(crate) fn to_store_error(&self) -> StoreError {
        match self {
            Self::Hosts { errors } => {
                let count = errors.len();
                unavailable(format!(
                    "none of the {count} hosts can be used; the log has the reasons"
                ))
            }
            _ => unavailable(self.to_string()),
        }
    }
}

/// Returns errors on one line.
fn numbered(errors: &[OpenError]) -> String {
    let numbered = errors.iter().zip(1..);
    let numbered = numbered.map(|(error, number)| format!("({number}) {error}"));
    numbered.collect::<Vec<_>>().join("; ")
}

/// True for the error with which the client library rejects a session that cannot write.
fn is_read_only_session(error: &tokio_postgres::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref());
    source.is_some_and(|source: &io::Error| {
        source.kind() == io::ErrorKind::PermissionDenied && source.raw_os_error().is_none()
    })
}

/// Returns the messages of an error and its sources on one line.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    let Some(error) = error.as_db_error() else {
        let mut text = error.to_string();
        let mut next = error.source();
        while let Some(source) = next {
            text.push_str(&format!(": {source}"));
            next = source.source();
        }
        return text;
    };
    let detail = error.detail().map(|detail| format!(" ({detail})"));
    let code = error.code().code();
    format!("{}{} [{code}]", error.message(), detail.unwrap_or_default())
}

/// Returns true if an error leaves no connection: its transaction may have ended in any way.
pub(crate) fn is_lost(error: &tokio_postgres::Error) -> bool {
    let Some(error) = error.as_db_error() else {
        return true;
    };
    let is_error = match error.parsed_severity() {
        Some(severity) => severity == Severity::Error,
        None => error.severity() == "ERROR",
    };
    !is_error || is_lost_connection(error.code())
}

/// True for a server that shuts down or starts, and for errors of the connection (class 08).
fn is_lost_connection(code: &SqlState) -> bool {
    matches!(code.code(), "57P01" | "57P02" | "57P03") || code.code().starts_with("08")
}

/// Failure of a group of commits.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing was applied, and the connection cannot be used any more.
    NotApplied(StoreError),
    /// Nothing was applied, and the connection works: the group may be tried again.
    Conflicting(StoreError),
    /// Nothing was applied, and the connection works: the data of some commit is at fault.
    Rejected(StoreError),
    /// The outcome is unknown.
    Unknown(StoreError),
}

impl Failure {
    /// Returns the meaning of an error before any change was sent.
    pub(crate) fn before_write(error: &tokio_postgres::Error) -> Self {
        if is_lost(error) {
            Self::NotApplied(store_error(error))
        } else {
            Self::of_server(error)
        }
    }

    /// Returns the meaning of the first error of the statements that write and commit.
    ///
    /// After an error that leaves the connection, the server has rolled back, or will.
    pub(crate) fn of_write(error: &tokio_postgres::Error) -> Self {
        // Reported by CockroachDB if the answer of a replica was lost.
        let is_ambiguous = error.code().is_some_and(|code| code.code() == "40003");
        // The server was idle within the transaction, so that it has not received the COMMIT.
        let is_idle = error.code() == Some(&SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT);
        if !is_lost(error) && !is_ambiguous {
            Self::of_server(error)
        } else if is_idle {
            Self::NotApplied(store_error(error))
        } else {
            Self::unknown(describe(error))
        }
    }

    pub(crate) fn unknown(reason: impl std::fmt::Display) -> Self {
        let message = format!("the outcome of a commit is unknown: {reason}");
        Self::Unknown(StoreError::new(StoreErrorKind::Unknown, message))
    }

    /// Returns the meaning of an error that the connection survived.
    fn of_server(error: &tokio_postgres::Error) -> Self {
        let code = error.code().map_or("", SqlState::code);
        match code {
            // Serialization failure, deadlock, and a row that another transaction just inserted.
            "40001" | "40P01" | "23505" => Self::Conflicting(store_error(error)),
            _ if ["22", "23", "54"].contains(&code.get(..2).unwrap_or("")) => {
                Self::Rejected(store_error(error))
            }
            _ => Self::NotApplied(store_error(error)),
        }
    }
}

/// Returns the error of a call that applied nothing.
pub(crate) fn store_error(error: &tokio_postgres::Error) -> StoreError {
    let kind = match error.code().map_or("", SqlState::code) {
        "53100" => StoreErrorKind::Full,
        "XX001" | "XX002" => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::new(kind, describe(error))
}

pub(crate) fn unavailable(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, message)
}

pub(crate) fn corrupt(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message)
}
