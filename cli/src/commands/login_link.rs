//! `knowledge login-link`: the way in for a member on the server's pages.

use std::time::Duration;

use http::Method;
use knowledge_core::access::CredentialKind;
use knowledge_core::api::admin::CredentialView;
use knowledge_core::api::admin::requests::NewCredential;
use knowledge_server::app::base_url;
use knowledge_server::auth::login_url;
use knowledge_server::config::{BaseUrl, Config};
use serde::Deserialize;
use serde_json::json;

use super::args::{WithOutput, duration};
use super::failure::Failure;
use super::operator::OrgArgs;

/// Create a link with which a member signs in, once
///
/// Standard output contains only the URL. The first client that opens it is signed in as the
/// member: pass it on by a private channel. It is listed and revoked like a token. The command
/// works with and without a running server: if a server holds the data directory, the command uses
/// its admin socket.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Handle of the member
    member: String,

    /// Time within which the link has to be used, at most a day
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    expires_in: Duration,

    /// Base URL of the server's pages; defaults to the setting server.public_url of the running
    /// server, otherwise to the address that it listens on, and without a running server to those
    /// of the configuration
    #[arg(long, value_name = "URL", value_parser = base_url_of)]
    public_url: Option<BaseUrl>,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

fn base_url_of(text: &str) -> Result<BaseUrl, String> {
    let invalid = || "must be an http or https URL without a query or fragment".to_owned();
    BaseUrl::parse(text).ok_or_else(invalid)
}

/// Flags of the request's fields.
const FLAGS: &[(&str, &str)] = &[
    ("member", "the member"),
    ("expires_in_seconds", "--expires-in"),
];

/// A new link.
#[derive(Deserialize)]
struct IssuedLink {
    secret: String,
    /// Base URL of the running server.
    base_url: Option<String>,
    credential: CredentialView,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let (operator, config) = args.org.location.open_with_config().await?;
    let new = NewCredential::builder()
        .kind(CredentialKind::Link)
        .member(args.member)
        .name("login link")
        .lifetime(args.expires_in);
    let body = json!(new.build());
    let created = operator.call(Method::POST, &["credentials"], Some(&body), FLAGS);
    let issued: IssuedLink = created.await?;
    let base = args.public_url.map(|url| url.to_string());
    let base = base.or(issued.base_url);
    let url = login_url(&base.unwrap_or_else(|| configured(&config)), &issued.secret);
    let link = &issued.credential;
    eprintln!(
        "login link {} for {} of {}, valid once until {}; it is not shown again",
        link.id, link.member, operator.org.slug, link.expires_at
    );
    let report = json!({ "url": url, "credential": link });
    args.org.output.print(&format!("{url}\n"), &report)
}

/// Returns the base URL of a server with this configuration.
fn configured(config: &Config) -> String {
    match &config.public_url {
        Some(url) => url.to_string(),
        None => base_url(config.net.address, config.net.tls.is_enabled()),
    }
}
