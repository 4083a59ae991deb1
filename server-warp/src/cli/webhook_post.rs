//! `knowledge webhook post`: a sender to try inbound webhooks out with.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Uri};
use knowledge_core::service::SigningSecret;

use super::args::duration;
use super::failure::Failure;
use crate::http_client::{CA_FILE_DEFAULT, exchange, trusting};
use crate::system::system_env;

/// What an answer may have, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1_024;

/// Sign a message and post it to an inbound webhook
///
/// Signs as Standard Webhooks 1.0.0 says. The same --id again is a repetition of the message, which has no further
/// effect.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The address of the inbound webhook, as its registration answered it
    #[arg(value_name = "URL")]
    url: Uri,

    /// The message, JSON; - reads standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// The signing secret, as the registration answered it
    #[arg(
        long,
        value_name = "SECRET",
        env = "KNOWLEDGE_SIGNING_SECRET",
        hide_env_values = true
    )]
    secret: SigningSecret,

    /// The identifier of the message; without one, a new one
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// The certificates (PEM) of the authorities that vouch for an https server
    #[arg(long, value_name = "FILE", default_value = CA_FILE_DEFAULT)]
    ca_file: PathBuf,

    /// Time for the answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    timeout: Duration,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let body = read(&args.file)?;
    let env = system_env();
    let id = args
        .id
        .unwrap_or_else(|| format!("msg_{}", env.uuid().simple()));
    let now = env.now();
    let signature = args.secret.sign(&id, now, &body);
    let tls =
        match args.url.scheme_str() {
            Some("https") => Some(trusting(&args.ca_file).map_err(|problem| {
                Failure::new(format!("{}: {problem}", args.ca_file.display()))
            })?),
            _ => None,
        };
    let request = Request::post(&args.url)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", now.as_seconds())
        .header("webhook-signature", signature)
        .body(body)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let failed = |problem: String| Failure::new(format!("{}: {problem}", args.url));
    let answer = tokio::time::timeout(args.timeout, exchange(request, tls, ANSWER_BYTES_MAX))
        .await
        .map_err(|_| failed("no answer in time".to_owned()))?
        .map_err(|error| failed(error.to_string()))?;
    if answer.status().is_success() {
        eprintln!("posted {id}");
        return Ok(());
    }
    let said = String::from_utf8_lossy(answer.body()).into_owned();
    Err(failed(format!("{} {said}", answer.status())))
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
