//! The certified provider in another process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use knowledge_http_suite::client::Call;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

use crate::browser::CALLBACK;
use crate::world::{CLIENT_ID, CLIENT_SECRET, PUBLIC_URL};

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/oidc/provider/provider.mjs"
);
/// Variable with the directory of the npm package.
const PACKAGES: &str = "TEST_OIDC_PACKAGES";

/// A running provider, which dropping stops.
pub(crate) struct CertifiedProvider {
    pub(crate) issuer: String,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl CertifiedProvider {
    pub(crate) fn start() -> Self {
        if std::env::var_os(PACKAGES).is_none() {
            panic!(
                "{PACKAGES} is not set: `cargo xtask ci --only test` installs the provider and \
                 sets it"
            );
        }
        let mut command = Command::new("node");
        command
            .arg(PROGRAM)
            .arg(format!("{PUBLIC_URL}{CALLBACK}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut started = Self {
            issuer: String::new(),
            input: process.stdin.take().expect("a pipe"),
            output: BufReader::new(process.stdout.take().expect("a pipe")),
            process,
        };
        let issuer = started.next()["issuer"].as_str().map(str::to_owned);
        started.issuer = issuer.expect("an issuer");
        started
    }

    /// Sets what the provider says about a person.
    pub(crate) fn set(&mut self, account: &str, claims: &Value) {
        let order = json!({ "account": account, "claims": claims });
        writeln!(self.input, "{order}").expect("tell the provider");
        assert_eq!(self.next(), order);
    }

    /// Returns an access token for a resource (RFC 8707), issued to the client itself.
    pub(crate) async fn access_token(&self, resource: &str) -> String {
        let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", encode(CLIENT_ID), encode(CLIENT_SECRET));
        let form = format!(
            "grant_type=client_credentials&resource={}",
            encode(resource)
        );
        let call = Call::new(Method::POST, "/token")
            .header("authorization", format!("Basic {}", STANDARD.encode(pair)))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let answer = call.send_to(&self.issuer).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let token = answer.json()["access_token"].as_str().map(str::to_owned);
        token.expect("a token")
    }

    fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line);
            assert!(length.expect("a line") > 0, "the provider has ended");
            // The package prints lines of its own.
            if let Ok(value @ Value::Object(_)) = serde_json::from_str(&line) {
                return value;
            }
        }
    }
}

impl Drop for CertifiedProvider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
