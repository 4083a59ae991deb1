//! Assistants with `rmcp`, the official client of the Model Context Protocol for Rust.

use rmcp::model::{CallToolRequestParams, CallToolResult, ErrorCode, ProtocolVersion};
use rmcp::service::RunningService;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientLifecycleMode, RoleClient, ServiceError, serve_client_with_lifecycle};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio_rustls::rustls::crypto::ring;

use crate::assistants::service;
use crate::{Service, text};

const QUERY: &str = "May I decide about refunds?";

/// A connection of the client, which answers no request of a server.
type Client = RunningService<RoleClient, ()>;

/// Returns the ways to begin, each with the version that it leads to.
fn beginnings() -> [(ClientLifecycleMode, ProtocolVersion); 2] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let discovery = ClientLifecycleMode::Discover { preferred_versions };
    [
        (discovery, ProtocolVersion::V_2026_07_28),
        (
            ClientLifecycleMode::Initialize,
            ProtocolVersion::V_2025_11_25,
        ),
    ]
}

/// Returns a transport to a URL, with a bearer token.
fn http(url: &str, token: &str) -> StreamableHttpClientTransport<reqwest::Client> {
    // The client needs one for any URL. This fails only if it was done before.
    let _ = ring::default_provider().install_default();
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(token);
    StreamableHttpClientTransport::from_config(config)
}

/// Returns a transport to `knowledge mcp`, over the store of a running server.
fn standard_input(service: &Service) -> TokioChildProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_knowledge"));
    command.args(["mcp", "--workspace=support", &service.scratch.data_dir()]);
    TokioChildProcess::new(command).expect("the program starts")
}

async fn call(
    client: &Client,
    tool: &'static str,
    arguments: Value,
) -> Result<CallToolResult, ServiceError> {
    let arguments = arguments.as_object().expect("arguments").clone();
    let call = CallToolRequestParams::new(tool).with_arguments(arguments);
    client.call_tool(call).await
}

/// Returns the result of a tool that succeeds.
async fn result(client: &Client, tool: &'static str, arguments: Value) -> Value {
    let called = call(client, tool, arguments).await.expect("a result");
    assert_eq!(called.is_error, Some(false), "{called:?}");
    let structured = called.structured_content.clone().expect("a structure");
    // The text is the same, for models that read no structure.
    let shown: Value = serde_json::from_str(shown(&called)).expect("JSON");
    assert_eq!(shown, structured);
    structured
}

/// Returns the text of a result.
fn shown(called: &CallToolResult) -> &str {
    let [content] = &called.content[..] else {
        panic!("not one content: {called:?}");
    };
    &content.as_text().expect("a text").text
}

/// Uses a connection like an assistant, and checks what it sees.
async fn check(client: Client, version: &ProtocolVersion, service: &Service) {
    let server = client.peer_info().expect("the server says who it is");
    assert_eq!(server.protocol_version, *version);
    let name = server.server_info.as_ref().map(|server| &*server.name);
    assert_eq!(name, Some("knowledge"));

    let tools = client.list_all_tools().await.expect("a list of tools");
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(
        names,
        ["recall", "search", "fetch", "list_memories", "cite"]
    );

    let found = result(&client, "recall", json!({ "query": QUERY })).await;
    let memories = found["results"].as_array().expect("a list");
    let titles: Vec<&str> = memories.iter().map(|found| text(&found["title"])).collect();
    assert_eq!(titles, ["Refunds"]);
    let recall = format!("/v1/recalls/{}", text(&found["recall_id"]));
    assert_eq!(service.get(&recall)["query"], QUERY);
    let memory = result(&client, "fetch", json!({ "id": memories[0]["id"] })).await;
    assert_eq!(memory["text"], "Above 500 euros two people decide.");
    let listed = result(&client, "list_memories", json!({})).await;
    assert_eq!(listed["memories"][0]["id"], memory["id"]);
    assert_eq!(listed["next_cursor"], Value::Null);

    // What a tool refuses is a result, which the model reads, and an unknown tool is an error.
    let refused = call(&client, "recall", json!({ "query": QUERY, "limit": 51 })).await;
    let refused = refused.expect("a result");
    assert_eq!(refused.is_error, Some(true));
    assert_eq!(shown(&refused), "invalid_request: limit must be 1 to 50");
    match call(&client, "remember", json!({ "title": "A", "content": "B" })).await {
        Err(ServiceError::McpError(error)) => assert_eq!(error.code, ErrorCode::INVALID_PARAMS),
        other => panic!("{other:?}"),
    }
    client.cancel().await.expect("the connection ends");
}

#[tokio::test]
async fn rust_client_recalls_over_http() {
    let (service, key) = service();
    let url = format!("{}/mcp", service.url);
    for (beginning, version) in beginnings() {
        let client = serve_client_with_lifecycle((), http(&url, &key), beginning).await;
        check(client.expect("a connection"), &version, &service).await;
    }
}

#[tokio::test]
async fn rust_client_recalls_over_standard_input() {
    let (service, _) = service();
    for (beginning, version) in beginnings() {
        let client = serve_client_with_lifecycle((), standard_input(&service), beginning).await;
        check(client.expect("a connection"), &version, &service).await;
    }
}

#[tokio::test]
async fn rust_client_is_told_that_its_key_is_not_valid() {
    let (service, _) = service();
    let url = format!("{}/mcp", service.url);
    for (beginning, _) in beginnings() {
        let client = serve_client_with_lifecycle((), http(&url, "wkt_unknown"), beginning).await;
        let error = client.expect_err("no connection");
        assert!(error.is_authorization_required(), "{error:?}");
    }
}
