//! Parts of the command line shared by several commands.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use knowledge_core::access::Secret;
use knowledge_server::http_client::{HttpClient, builder, read_roots, system_roots};
use knowledge_server::logging::{self, LogConfig, LogFormat};
use knowledge_server::private_file;
use knowledge_server::store_address::StoreAddress;
use tokio_rustls::rustls::RootCertStore;
use url::Url;

use super::failure::Failure;

/// Environment variable with an access token.
const TOKEN_VARIABLE: &str = "KNOWLEDGE_TOKEN";

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

/// Returns the base URL of a server, which a flag has, without a trailing slash.
pub(super) fn base_url(flag: &str, server: &str) -> Result<String, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "{flag} {server:?} must be an http or https URL, such as https://knowledge.example.com"
        ))
    };
    let url = Url::parse(server).map_err(|_| wrong())?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_plain {
        return Err(wrong());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Reads the access token in the file of `--token-file`, or in the environment.
pub(super) fn token(file: Option<&Path>) -> Result<Secret, Failure> {
    let (text, place) = match file {
        Some(file) => {
            let text = private_file::read(file)?;
            let missing =
                || Failure::new(format!("--token-file {} does not exist", file.display()));
            (text.ok_or_else(missing)?, "--token-file")
        }
        None => {
            let text = std::env::var(TOKEN_VARIABLE).map_err(|_| {
                Failure::usage(format!(
                    "missing access token; pass --token-file or set the variable {TOKEN_VARIABLE}"
                ))
            })?;
            (text, TOKEN_VARIABLE)
        }
    };
    let token: Result<Secret, _> = text.trim().parse();
    token.map_err(|error| Failure::new(format!("{place} contains no valid token: {error}")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_address_must_be_plain_url() {
        assert_eq!(
            base_url("--server", "http://127.0.0.1:8080/").unwrap(),
            "http://127.0.0.1:8080"
        );
        assert_eq!(
            base_url("--server", "https://a.example/base/").unwrap(),
            "https://a.example/base"
        );
        for wrong in [
            "",
            "a.example",
            "ftp://a.example",
            "https://me@a.example",
            "https://a.example/?q=1",
        ] {
            assert!(base_url("--server", wrong).is_err(), "{wrong}");
        }
    }
}
