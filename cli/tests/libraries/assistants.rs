//! Assistants: the official clients of the Model Context Protocol, and its conformance suite.

use std::process::Command;

use serde_json::{Value, json};

use crate::receiver::installed;
use crate::{Service, ask, text};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libraries/node");

/// Passes a line of JSON to a program in JavaScript, and returns the lines that it prints.
fn ask_node(program: &str, asked: &Value) -> Vec<Value> {
    installed("TEST_NODE_PACKAGES");
    ask(
        Command::new("node").arg(format!("{FILES}/{program}")),
        asked,
    )
}

/// Returns a server with an approved memory in the workspace `support`, and an MCP key.
pub(crate) fn service() -> (Service, String) {
    let service = Service::start();
    let workspaces = service.get("/v1/workspaces");
    let mut workspaces = workspaces["data"].as_array().expect("a list").iter();
    let support = workspaces.find(|one| one["slug"] == "support");
    let workspace = text(&support.expect("the workspace")["id"]).to_owned();
    let at = |rest: &str| format!("/v1/workspaces/{workspace}/{rest}");
    let source = service.post("/v1/sources", &json!({ "name": "Wiki", "kind": "wiki" }));
    for (title, content) in [
        ("Refunds", "Above 500 euros two people decide."),
        ("Not yet", "Nobody has looked at the refunds here."),
    ] {
        let new = json!({ "sourceId": source["id"], "title": title, "content": content });
        let memory = service.post(&at("memories"), &new);
        if title == "Refunds" {
            let approval = json!({ "memoryIds": [memory["id"]], "reviewStatus": "approved" });
            service.call("PATCH", "/v1/memories/bulk", &approval);
        }
    }
    let key = json!({ "name": "Laptop", "client": "other", "audience": ["workspace:support"] });
    let key = service.post(&at("mcp-keys"), &key);
    let key = text(&key["secret"]).to_owned();
    (service, key)
}

#[test]
fn official_clients_recall_over_http_and_standard_input() {
    let (service, key) = service();
    let program = env!("CARGO_BIN_EXE_knowledge");
    let seen = ask_node(
        "assistants.mjs",
        &json!({
            "url": format!("{}/mcp", service.url),
            "token": key,
            "program": [program, "mcp", "--workspace=support", service.scratch.data_dir()],
            "query": "May I decide about refunds?",
        }),
    );
    let versions = seen.iter();
    let versions = versions.map(|seen| json!([seen["client"], seen["version"]]));
    let versions: Vec<Value> = versions.collect();
    let expected = [
        json!(["client over HTTP", "2026-07-28"]),
        json!(["client over standard input", "2026-07-28"]),
        json!(["sdk over HTTP", "2025-11-25"]),
        // This one tells no version.
        json!(["sdk over standard input", null]),
    ];
    assert_eq!(versions, expected);
    for seen in seen {
        assert_eq!(seen["server"], "knowledge", "{seen}");
        let tools = json!(["recall", "search", "fetch", "list_memories", "cite"]);
        assert_eq!(seen["tools"], tools);
        assert_eq!(seen["titles"], json!(["Refunds"]));
        assert_eq!(seen["text"], "Above 500 euros two people decide.");
        assert_eq!(seen["isError"], true);
        assert_eq!(seen["error"], "invalid_request: limit must be 1 to 50");
        // Each is a recall of its own.
        let recall = format!("/v1/recalls/{}", text(&seen["recallId"]));
        assert_eq!(service.get(&recall)["query"], "May I decide about refunds?");
    }
}

/// Scenarios that apply to any server, with the checks that need what this one does not have.
const SCENARIOS: [(&str, &str, &[&str]); 8] = [
    ("server-initialize", "2025-11-25", &[]),
    ("ping", "2025-11-25", &[]),
    ("tools-list", "2025-11-25", &[]),
    ("tools-list", "2026-07-28", &[]),
    ("http-header-validation", "2026-07-28", &[]),
    ("dns-rebinding-protection", "2026-07-28", &[]),
    (
        "server-stateless",
        "2026-07-28",
        &[
            // They call tools of a server that is made for the suite.
            "sep-2575-server-rejects-undeclared-capability",
            "sep-2575-missing-capability-http-400",
            "sep-2575-http-server-no-independent-requests-on-stream",
            "sep-2575-server-no-log-without-loglevel",
        ],
    ),
    (
        "caching",
        "2026-07-28",
        &[
            // There are no prompts and no resources.
            "sep-2549-prompts-list-caching-hints",
            "sep-2549-resources-list-caching-hints",
            "sep-2549-resources-templates-list-caching-hints",
        ],
    ),
];

#[test]
fn endpoint_conforms_in_all_that_any_server_has_to_do() {
    let (service, key) = service();
    let scenarios = SCENARIOS.map(|(scenario, version, _)| json!([scenario, version]));
    let url = format!("{}/mcp", service.url);
    let asked = json!({ "url": url, "token": key, "scenarios": scenarios });
    let results = ask_node("conformance.mjs", &asked);
    assert_eq!(results.len(), SCENARIOS.len());
    for (result, (scenario, version, needs_more)) in results.iter().zip(SCENARIOS) {
        assert!(result["succeeded"].as_u64() >= Some(2), "{result}");
        let failed = result["failed"].as_array().expect("a list").iter();
        let failed: Vec<&str> = failed.map(|check| text(&check["id"])).collect();
        assert_eq!(failed, needs_more, "{scenario} {version}: {result}");
    }
}
