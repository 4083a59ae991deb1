//! Parts of the command line shared by several commands.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use knowledge_server::http_client::{HttpClient, builder, read_roots, system_roots};
use knowledge_server::logging::{self, LogConfig, LogFormat};
use knowledge_server::store_address::StoreAddress;
use tokio_rustls::rustls::RootCertStore;

use super::failure::Failure;

/// [`LogFormat`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LogFormatArg {
    /// text on a terminal, json otherwise
    Auto,
    /// Human-readable lines
    Text,
    /// One JSON object per line
    Json,
}

impl From<LogFormatArg> for LogFormat {
    fn from(format: LogFormatArg) -> Self {
        match format {
            LogFormatArg::Auto => Self::Auto,
            LogFormatArg::Text => Self::Text,
            LogFormatArg::Json => Self::Json,
        }
    }
}

/// Format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// Human-readable text
    Text,
    /// JSON
    Json,
}

/// Format of a command's result, with the arguments that locate its data.
#[derive(Debug, clap::Args)]
pub(super) struct WithOutput<L: clap::Args> {
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    pub(super) output: OutputFormat,

    #[command(flatten)]
    pub(super) location: L,
}

/// Parses a duration such as `30s`, `12h` or `30d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}, for example 30s, 12h or 30d"))
}

/// Parser of the address of a store, which an error does not quote: a mistyped one may have a
/// password.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreParser;

impl TypedValueParser for StoreParser {
    type Value = StoreAddress;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<StoreAddress, clap::Error> {
        let address = value.to_str().and_then(|text| text.parse().ok());
        address.ok_or_else(|| {
            let name = arg.map(ToString::to_string).unwrap_or_default();
            let message = format!("the value of {name} must be {}", StoreAddress::NOTATION);
            clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })
    }
}

/// Creates a client for a URL that trusts the certificates of `--ca-file`, or the system's.
pub(super) fn http_client(
    url: &str,
    ca_file: Option<&Path>,
    timeout: Duration,
    response_bytes_max: usize,
) -> Result<HttpClient, Failure> {
    let roots = match ca_file {
        // Plain http needs no certificates.
        _ if !url.starts_with("https:") => RootCertStore::empty(),
        Some(file) => {
            read_roots(file).map_err(|error| Failure::new(format!("--ca-file {error}")))?
        }
        None => system_roots(),
    };
    let client = builder(roots)
        .and_then(|builder| HttpClient::new(builder, "--ca-file", timeout, response_bytes_max));
    client.map_err(Failure::new)
}

/// Sets up the log of a short-lived command: warnings and errors only.
pub(super) fn quiet_log() -> Result<(), Failure> {
    logging::init(&LogConfig {
        level: "warn".to_owned(),
        format: LogFormat::Text,
    })?;
    Ok(())
}

/// Joins names in alphabetical order as `a, b, c`, and abbreviates long lists.
pub(super) fn known<'n>(names: impl Iterator<Item = &'n str>) -> String {
    const SHOWN: usize = 20;
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    match names.len() {
        0 => "none".to_owned(),
        count if count > SHOWN => {
            format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN)
        }
        _ => names.join(", "),
    }
}
