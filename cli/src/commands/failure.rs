//! Errors that end a command, worded for its user.

use std::fmt;
use std::io;
use std::process::ExitCode;

use knowledge_core::Error;
use knowledge_core::dump::DumpError;
use knowledge_core::store::StoreError;
use knowledge_server::app::StartError;
use knowledge_server::backup::BackupError;
use knowledge_server::data::DataError;
use knowledge_server::deliveries::DeliveryClientError;
use knowledge_server::explain::explain;
use knowledge_server::logging::LogError;
use knowledge_server::net::BindError;
#[cfg(feature = "oidc")]
use knowledge_server::oidc::OidcError;
use knowledge_server::private_file::PrivateFileError;
use knowledge_server::telemetry::TelemetryError;
use knowledge_storage_embedded::OpenError;

/// Error message and exit code of a failed command.
#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    exit_code: u8,
}

/// Exit code of a failure.
const FAILED: u8 = 1;
/// Exit code of an invalid command line or configuration.
const USAGE: u8 = 2;

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            exit_code: FAILED,
        }
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            exit_code: USAGE,
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit_code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(explain(&error))
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        match error {
            DataError::Store(OpenError::InUse { .. }) => Self::new(format!(
                "{error}; stop that process, or choose another directory"
            )),
            error => Self::new(error.to_string()),
        }
    }
}

/// Converts errors whose message needs no addition.
macro_rules! plain_failures {
    ($($error:ty),+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.to_string())
            }
        }
    )+};
}

pub(super) use plain_failures;

plain_failures!(
    BackupError,
    DeliveryClientError,
    DumpError,
    PrivateFileError
);
plain_failures!(StoreError, TelemetryError);
#[cfg(feature = "oidc")]
plain_failures!(OidcError);

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Level { .. } => Self::usage(error.to_string()),
            _ => Self::new(error.to_string()),
        }
    }
}

impl Failure {
    /// Converts the error of listening on an address. `remedy` says how to choose another one.
    pub(super) fn of_bind(error: &BindError, remedy: &str) -> Self {
        match error {
            BindError::Address { address, source } if source.kind() == io::ErrorKind::AddrInUse => {
                Self::new(format!(
                    "cannot listen on {address}: the address is in use; stop the other process or \
                     {remedy}"
                ))
            }
            BindError::Config(invalid) => Self::usage(invalid.to_string()),
            _ => Self::new(error.to_string()),
        }
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        Self::of_bind(&error, "choose another address with --listen")
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Bind(error) => error.into(),
            _ => Self::new(error.to_string()),
        }
    }
}
