//! Error of starting telemetry.

use std::path::PathBuf;

use opentelemetry_otlp::ExporterBuildError;

use crate::http_client::RootsError;
use crate::private_file::PrivateFileError;

/// Error of starting telemetry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The headers file cannot be read.
    #[error("the headers for the collector: {0}")]
    HeadersFile(#[from] PrivateFileError),
    /// The headers file does not exist, or a line of it is not a header.
    #[error("the headers for the collector: {}: {problem}", path.display())]
    Headers {
        /// Path of the file.
        path: PathBuf,
        /// The error in the file.
        problem: String,
    },
    /// The CA file of an https collector cannot be read.
    #[error("the CA certificates for the collector: {0}")]
    Authorities(#[from] RootsError),
    /// TLS cannot be set up.
    #[error("the client for the collector: {0}")]
    Tls(String),
    /// An environment variable of OpenTelemetry contains no valid address of a collector.
    #[error(
        "{variable} must be an http or https URL without credentials or a query; put these into \
         OTEL_EXPORTER_OTLP_HEADERS or the file of telemetry.otlp_headers_file"
    )]
    Endpoint {
        /// Name of the variable. Its value may be a secret.
        variable: &'static str,
    },
    /// The exporter rejects the collector's address or an environment variable of OpenTelemetry.
    #[error("the collector: {0}")]
    Exporter(#[from] ExporterBuildError),
}
