//! `knowledge healthcheck`: a readiness check for supervisors that have no HTTP client.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use knowledge_server::app::base_url;
use knowledge_server::config::Config;
use knowledge_server::http_client::CA_FILE_DEFAULT;
use knowledge_server::net::READY_PATH;

use super::args::{duration, http_client};
use super::failure::Failure;
use super::settings::ServerArgs;

/// Maximum size of a response in bytes, which is one or two words.
const RESPONSE_BYTES_MAX: usize = 4 * 1_024;

/// Check if a running server can serve requests
///
/// The exit code is 0 if it can, otherwise 1. Without --url the command connects to the configured
/// address on this machine; if the server uses TLS there, to the address of its metrics.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// URL of the server, such as https://knowledge.example.com
    #[arg(long, value_name = "URL")]
    url: Option<Uri>,

    /// Certificates (PEM) of the trusted certificate authorities, for https
    #[arg(long, value_name = "FILE", default_value = CA_FILE_DEFAULT)]
    ca_file: PathBuf,

    /// Timeout for the response
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    settings: ServerArgs,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let base = match args.url {
        Some(url) => url.to_string(),
        None => address(&args.settings.load()?.config)?,
    };
    let url = format!("{}{READY_PATH}", base.trim_end_matches('/'));
    let client = http_client(&url, Some(&args.ca_file), args.timeout, RESPONSE_BYTES_MAX)?;
    let request = Request::get(&url)
        .body(Bytes::new())
        .map_err(|error| Failure::usage(format!("{url}: {error}")))?;
    let failed = |problem: String| Failure::new(format!("{url}: {problem}"));
    let response = client.send(request).await.map_err(failed)?;
    if response.status().is_success() {
        return Ok(());
    }
    let body = String::from_utf8_lossy(response.body()).into_owned();
    Err(failed(format!("{} {body}", response.status())))
}

/// Returns the base URL of a local server with this configuration.
fn address(config: &Config) -> Result<String, Failure> {
    let address = match (config.net.tls.is_enabled(), config.metrics_listen) {
        (false, _) => config.net.address,
        (true, Some(metrics)) => metrics,
        (true, None) => {
            let message = "the server uses TLS, and its certificate is not valid for this \
                machine's address; pass --url or set metrics.listen";
            return Err(Failure::usage(message));
        }
    };
    Ok(base_url(address, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(listen: &str, has_tls: bool, metrics: Option<&str>) -> Config {
        let mut config = Config::default();
        config.net.address = listen.parse().unwrap();
        if has_tls {
            config.net.tls.certificate_file = Some("certificate".into());
            config.net.tls.private_key_file = Some("key".into());
        }
        config.metrics_listen = metrics.map(|address| address.parse().unwrap());
        config
    }

    #[test]
    fn healthcheck_uses_reachable_address() {
        let url = |listen, has_tls, metrics| address(&config(listen, has_tls, metrics));
        let plain = url("0.0.0.0:80", false, Some("127.0.0.1:9464")).unwrap();
        assert_eq!(plain, "http://127.0.0.1:80");
        assert_eq!(url("[::]:80", false, None).unwrap(), "http://[::1]:80");
        let over_tls = url("0.0.0.0:443", true, Some("0.0.0.0:9464")).unwrap();
        assert_eq!(over_tls, "http://127.0.0.1:9464");
        assert!(url("0.0.0.0:443", true, None).is_err());
    }
}
