//! `knowledge healthcheck`: whether a server answers, for supervisors that have no HTTP client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};

use super::args::duration;
use super::failure::Failure;
use super::settings::ServerArgs;
use crate::config::Config;
use crate::http_client::{CA_FILE_DEFAULT, exchange, trusting};
use crate::net::READY_PATH;

/// What an answer may have, in bytes: it is a word or two.
const ANSWER_BYTES_MAX: usize = 4 * 1_024;

/// Ask a running server whether it can serve requests
///
/// The exit code is 0 if it can, else 1. Without --url it asks on this machine, where the configuration says that the
/// server listens; a server that speaks TLS there is asked at the address of its metrics.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The server, such as https://knowledge.example.com
    #[arg(long, value_name = "URL")]
    url: Option<Uri>,

    /// The certificates (PEM) of the authorities that vouch for an https server
    #[arg(long, value_name = "FILE", default_value = CA_FILE_DEFAULT)]
    ca_file: PathBuf,

    /// Time for the answer
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
    let tls =
        match url.starts_with("https:") {
            true => Some(trusting(&args.ca_file).map_err(|problem| {
                Failure::new(format!("{}: {problem}", args.ca_file.display()))
            })?),
            false => None,
        };
    let request = Request::get(&url)
        .body(Bytes::new())
        .map_err(|error| Failure::usage(format!("{url}: {error}")))?;
    let failed = |problem: String| Failure::new(format!("{url}: {problem}"));
    let answer = tokio::time::timeout(args.timeout, exchange(request, tls, ANSWER_BYTES_MAX))
        .await
        .map_err(|_| failed("no answer in time".to_owned()))?
        .map_err(|error| failed(error.to_string()))?;
    if answer.status().is_success() {
        return Ok(());
    }
    let body = String::from_utf8_lossy(answer.body()).into_owned();
    Err(failed(format!("{} {body}", answer.status())))
}

/// Where a server of this configuration is asked on its own machine.
fn address(config: &Config) -> Result<String, Failure> {
    let address = match (&config.net.tls, config.metrics_listen) {
        (None, _) => config.net.address,
        (Some(_), Some(metrics)) => metrics,
        (Some(_), None) => {
            let message = "the certificate of the server is for another name than this machine's: \
                give --url, or metrics.listen";
            return Err(Failure::usage(message));
        }
    };
    Ok(format!("http://{}", reachable(address)))
}

/// An address that stands for all of the machine's is none to connect to.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::TlsConfig;

    fn config(listen: &str, has_tls: bool, metrics: Option<&str>) -> Config {
        let mut config = Config::default();
        config.net.address = listen.parse().unwrap();
        config.net.tls = has_tls.then(|| TlsConfig::new("certificate", "key"));
        config.metrics_listen = metrics.map(|address| address.parse().unwrap());
        config
    }

    #[test]
    fn a_server_is_asked_where_it_can_be_reached() {
        let asked = |listen, has_tls, metrics| address(&config(listen, has_tls, metrics));
        let plain = asked("0.0.0.0:80", false, Some("127.0.0.1:9464")).unwrap();
        assert_eq!(plain, "http://127.0.0.1:80");
        assert_eq!(asked("[::]:80", false, None).unwrap(), "http://[::1]:80");
        let over_tls = asked("0.0.0.0:443", true, Some("0.0.0.0:9464")).unwrap();
        assert_eq!(over_tls, "http://127.0.0.1:9464");
        assert!(asked("0.0.0.0:443", true, None).is_err());
    }
}
