//! `knowledge webhook post`: a sender for testing inbound webhooks.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Uri};
use knowledge_core::env::Env;
use knowledge_core::service::SigningSecret;
use knowledge_server::http_client::CA_FILE_DEFAULT;

use super::args::{duration, http_client};
use super::failure::Failure;

/// Maximum size of a response in bytes.
const RESPONSE_BYTES_MAX: usize = 64 * 1_024;

/// Sign a message and post it to an inbound webhook
///
/// The signature follows Standard Webhooks 1.0.0. A message with the --id of an earlier one is a
/// duplicate and has no further effect.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// URL of the inbound webhook, as returned by its registration
    #[arg(value_name = "URL")]
    url: Uri,

    /// Message (JSON); - reads standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Signing secret, as returned by the registration
    #[arg(
        long,
        value_name = "SECRET",
        env = "KNOWLEDGE_SIGNING_SECRET",
        hide_env_values = true
    )]
    secret: SigningSecret,

    /// Identifier of the message; defaults to a new one
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Certificates (PEM) of the trusted certificate authorities, for https
    #[arg(long, value_name = "FILE", default_value = CA_FILE_DEFAULT)]
    ca_file: PathBuf,

    /// Timeout for the response
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    timeout: Duration,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let body = read(&args.file)?;
    let env = Env::system();
    let id = args
        .id
        .unwrap_or_else(|| format!("msg_{}", env.uuid().simple()));
    let now = env.now();
    let signature = args.secret.sign(&id, now, &body);
    let url = args.url.to_string();
    let client = http_client(&url, Some(&args.ca_file), args.timeout, RESPONSE_BYTES_MAX)?;
    let request = Request::post(&url)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", now.as_seconds())
        .header("webhook-signature", signature)
        .body(body)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let failed = |problem: String| Failure::new(format!("{url}: {problem}"));
    let response = client.send(request).await.map_err(failed)?;
    if response.status().is_success() {
        eprintln!("posted {id}");
        return Ok(());
    }
    let message = String::from_utf8_lossy(response.body()).into_owned();
    Err(failed(format!("{} {message}", response.status())))
}

fn read(file: &PathBuf) -> Result<Bytes, Failure> {
    let shown = file.display();
    let read = if file.as_os_str() == "-" {
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).map(|_| text)
    } else {
        std::fs::read(file)
    };
    read.map(Bytes::from)
        .map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))
}
