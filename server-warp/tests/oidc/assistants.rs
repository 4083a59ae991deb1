//! Assistants that have a person sign in, with the official client of the Model Context Protocol.

use std::process::Stdio;

use http::Method;
use knowledge_http_suite::client::{Call, GUARD};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::provider::CertifiedProvider;
use crate::world::{PUBLIC_URL, World};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oidc/assistant.mjs");
/// Variable with the directory of the npm packages of clients.
const PACKAGES: &str = "TEST_NODE_PACKAGES";
/// Identifier of the assistant at the provider, which knows it as a public client.
const ASSISTANT: &str = "assistant";
/// Address of the assistant to which the provider sends the browser back.
const REDIRECT_URI: &str = "http://127.0.0.1/callback";

/// Passes a line of JSON to the assistant, and returns the line that it prints.
async fn ask_assistant(asked: &Value) -> Value {
    if std::env::var_os(PACKAGES).is_none() {
        panic!(
            "{PACKAGES} is not set: `cargo xtask ci --only test` installs the client and sets it"
        );
    }
    let mut command = Command::new("node");
    command
        .arg(PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut process = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut input = process.stdin.take().expect("a pipe");
    let line = format!("{asked}\n");
    let written = input.write_all(line.as_bytes()).await;
    written.expect("the program reads");
    // The server runs on this thread meanwhile.
    let output = tokio::time::timeout(GUARD, process.wait_with_output()).await;
    let output = output.expect("in time").expect("the program ends");
    assert!(output.status.success(), "{:?}", output.status);
    serde_json::from_slice(&output.stdout).expect("a line of JSON")
}

#[tokio::test]
async fn assistant_signs_a_person_in_and_recalls_as_that_member() {
    let provider = CertifiedProvider::start();
    let resource = format!("{PUBLIC_URL}/mcp");
    let world = World::new(&provider.issuer, |config| {
        config.access_token_audience = Some(resource.clone());
    });
    let world = world.await;
    let org = world.org();
    let query = "What is known about matter 70?";
    let asked = json!({
        "url": format!("{PUBLIC_URL}/mcp?workspace={}", org.main.id),
        "server": world.base_url,
        "clientId": ASSISTANT,
        "redirectUri": REDIRECT_URI,
        "account": "member",
        "query": query,
    });
    let seen = ask_assistant(&asked).await;

    // Without a token, the server names its metadata, and the client asks for a sign-in.
    let metadata = format!("{PUBLIC_URL}/.well-known/oauth-protected-resource/mcp");
    let header = format!("Bearer realm=\"knowledge\", resource_metadata=\"{metadata}\"");
    assert_eq!(
        seen["challenge"],
        json!({ "status": 401, "header": header })
    );
    assert_eq!(seen["error"], "UnauthorizedError");
    // The sign-in and the token are for the resource of the metadata (RFC 8707), with PKCE.
    let authorization = &seen["authorization"];
    assert_eq!(authorization["code_challenge_method"], "S256");
    assert_eq!(authorization["scope"], "openid");
    assert_eq!(authorization["resource"], *resource);
    let token = &seen["token"];
    assert_eq!(token["grant_type"], "authorization_code");
    assert!(token["code_verifier"].is_string(), "{token}");
    assert_eq!(token["resource"], *resource);
    assert_eq!(seen["header"]["typ"], "at+jwt");
    let claims = &seen["claims"];
    assert_eq!(claims["iss"], provider.issuer.as_str());
    assert_eq!(claims["aud"], *resource);
    assert_eq!(claims["client_id"], ASSISTANT);
    assert_eq!(claims["sub"], "member");
    // With it, the assistant finds what the member may read, and the recall is the member's.
    let tools = seen["tools"].as_array().expect("a list");
    assert!(tools.contains(&json!("recall")), "{tools:?}");
    assert_eq!(seen["titles"][0], "Note 70", "{seen}");
    let recall = seen["recallId"].as_str().expect("an identifier");
    let call = Call::new(Method::GET, format!("/v1/recalls/{recall}"));
    let call = call.bearer(&org.members.owner.token);
    let recall = call.send_to(&world.base_url).await.json();
    assert_eq!(recall["query"], query);
    assert_eq!(recall["created_by"], json!(org.members.member.id));
}
