//! Tests of `knowledge mcp`.

use std::cell::Cell;
use std::fs;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;

use serde_json::{Value, json};

use crate::support::{
    Request, Scratch, Server, get, knowledge, run_block, send, shell_blocks, start, start_in,
};

/// An assistant that speaks a version which begins with `initialize`.
struct Assistant {
    process: Server,
    requests: u32,
}

impl Assistant {
    fn of(process: Server) -> Self {
        let mut assistant = Self {
            process,
            requests: 0,
        };
        let wanted = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
        let begun = assistant.ask("initialize", wanted);
        assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assistant.process.tell(&format!("{initialized}\n\n"));
        assistant
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.process.tell(&format!("{message}\n"));
        let answer: Value = serde_json::from_str(&self.process.line()).unwrap();
        assert_eq!(
            (&answer["jsonrpc"], &answer["id"]),
            (&json!("2.0"), &json!(id))
        );
        answer
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let called = self.ask(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        );
        let result = &called["result"];
        assert_eq!(result["isError"], false, "{called}");
        result["structuredContent"].clone()
    }
}

/// Creates a store in which each workspace has an approved, confidential memory and one that waits.
fn with_memories(config: &str) -> (Scratch, String) {
    let scratch = Scratch::with_org();
    let data = scratch.data_dir();
    let token = knowledge(&["token", "create", "--member=maya", &data]).ok();
    let token = format!("Authorization: Bearer {}", token.stdout.trim());
    let server = start(&["serve", &data, "--listen=127.0.0.1:0"]);
    let url = server.base_url();
    let requests = Cell::new(0);
    let call = |method: &str, path: &str, body: &Value| {
        requests.set(requests.get() + 1);
        let key = format!("Idempotency-Key: {}", requests.get());
        let answer = send(&Request {
            method: method.to_owned(),
            url: format!("{url}{path}"),
            headers: vec![
                token.clone(),
                "Content-Type: application/json".to_owned(),
                key,
            ],
            body: body.to_string(),
        });
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        answer.json()
    };
    let source = call(
        "POST",
        "/v1/sources",
        &json!({ "name": "Wiki", "kind": "wiki" }),
    );
    let workspaces = get(format!("{url}/v1/workspaces"), token.clone()).json();
    for workspace in workspaces["data"].as_array().unwrap() {
        let slug = workspace["slug"].as_str().unwrap();
        let path = format!(
            "/v1/workspaces/{}/memories",
            workspace["id"].as_str().unwrap()
        );
        let new = |title: &str| {
            json!({
                "sourceId": source["id"], "title": title, "content": "On call: see the plan.",
                "sensitivityLabel": "confidential",
            })
        };
        call("POST", &path, &new(&format!("{slug}, not looked at")));
        let memory = call("POST", &path, &new(slug));
        let approval = json!({ "memoryIds": [memory["id"]], "reviewStatus": "approved" });
        call("PATCH", "/v1/memories/bulk", &approval);
    }
    assert_eq!(server.terminate(), 0);
    scratch.write("knowledge.toml", config);
    (scratch, data)
}

fn assert_answers(assistant: &mut Assistant, workspace: &str) {
    let listed = assistant.call("list_memories", json!({}));
    let memories = listed["memories"].as_array().unwrap();
    let titles: Vec<&Value> = memories.iter().map(|memory| &memory["title"]).collect();
    assert_eq!(titles, [workspace]);
    let found = assistant.call("recall", json!({ "query": "Who is on call?" }));
    assert_eq!(found["results"][0]["id"], memories[0]["id"]);
    assert!(found["recall_id"].is_string());
}

#[test]
fn assistants_share_the_store_of_a_directory() {
    let (_scratch, data) = with_memories("");
    let run = || {
        Assistant::of(start(&[
            "mcp",
            "--member=maya",
            "--workspace=support",
            &data,
        ]))
    };
    let mut first = run();
    assert_answers(&mut first, "support");
    let mut second = run();
    assert_answers(&mut second, "support");
    // Commands reach the store too.
    knowledge(&["workspace", "list", &data])
        .ok()
        .shows("support");
    // Killed, the first leaves its socket behind.
    first.process.kill();
    assert_answers(&mut second, "support");
    let mut third = run();
    assert_answers(&mut third, "support");
}

#[test]
fn assistant_is_answered_beside_a_server_and_after_it() {
    let (_scratch, data) = with_memories("");
    let server = start(&["serve", &data, "--listen=127.0.0.1:0"]);
    server.base_url();
    let mut assistant = Assistant::of(start(&["mcp", "--workspace=sales", &data]));
    assert_answers(&mut assistant, "sales");
    assert_eq!(server.terminate(), 0);
    assert_answers(&mut assistant, "sales");
}

#[test]
fn server_starts_while_an_assistant_is_idle() {
    let (_scratch, data) = with_memories("");
    let mut assistant = Assistant::of(start(&["mcp", "--workspace=sales", &data]));
    assert_answers(&mut assistant, "sales");
    let server = start(&["serve", &data, "--listen=127.0.0.1:0"]);
    server.base_url();
    assert_answers(&mut assistant, "sales");
    assert_eq!(server.terminate(), 0);
}

#[cfg(unix)]
#[test]
fn store_is_held_while_others_use_it() {
    let (scratch, data) = with_memories("");
    let mut first = Assistant::of(start(&["mcp", "--workspace=sales", &data]));
    assert_answers(&mut first, "sales");
    let socket = || fs::metadata(scratch.path("data.sock")).unwrap().ino();
    let held = socket();
    let mut second = Assistant::of(start(&["mcp", "--workspace=support", &data]));
    // Longer than the first would hold the store for itself.
    for _ in 0..8 {
        assert_answers(&mut second, "support");
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    // Had the first released the store, the second would hold it, with a socket of its own.
    assert_eq!(socket(), held);
    let listed = knowledge(&["org", "list", &data]).ok();
    listed.shows("acme");
    assert_answers(&mut first, "sales");
}

#[test]
fn reads_of_an_assistant_are_audited_as_configured() {
    let (scratch, data) = with_memories("[audit]\nreads = \"confidential\"\n");
    let config = format!("--config={}", scratch.arg("knowledge.toml"));
    let run = ["mcp", "--workspace=sales", &config, &data];
    assert_answers(&mut Assistant::of(start(&run)), "sales");
    let dump = knowledge(&["dump", "-", &data]).ok();
    assert!(dump.stdout.contains("memory.read"));
}

#[test]
fn assistant_reaches_a_server_with_a_token() {
    let (_scratch, data) = with_memories("");
    let issued = knowledge(&[
        "token",
        "create",
        "--member=maya",
        "--workspace=support",
        &data,
    ]);
    let token = issued.ok().stdout.trim().to_owned();
    let server = start(&["serve", &data, "--listen=127.0.0.1:0"]);
    let url = format!("--url={}", server.base_url());
    let environment = [("KNOWLEDGE_TOKEN", &*token)];
    let mut assistant = Assistant::of(start_in(&environment, &["mcp", &url]));
    assert_answers(&mut assistant, "support");
    // What is no answer of the protocol is an error that the assistant sees.
    assert_eq!(server.terminate(), 0);
    let error = assistant.ask("tools/list", json!({}))["error"].clone();
    assert_eq!(error["code"], -32603);
    assert!(
        error["message"].as_str().unwrap().contains("127.0.0.1"),
        "{error}"
    );
    let unknown = [("KNOWLEDGE_TOKEN", "wkt_x")];
    start_in(&unknown, &["mcp", &url]).error_with("contains no valid token");
}

#[test]
fn line_that_is_no_message_is_answered() {
    let scratch = Scratch::with_org();
    let mut process = start(&["mcp", "--workspace=support", &scratch.data_dir()]);
    let long = "x".repeat(2 * 1_024 * 1_024);
    process.tell(&format!("{long}\n"));
    let answer: Value = serde_json::from_str(&process.line()).unwrap();
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("at most 1048576 bytes"), "{message}");
    let cursor = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "list_memories", "arguments": { "cursor": "x".repeat(70_000) } },
    });
    process.tell(&format!("{cursor}\n"));
    let answer: Value = serde_json::from_str(&process.line()).unwrap();
    let content = &answer["result"]["content"][0]["text"];
    assert_eq!(content, "invalid_request: an argument is too long");
    process.tell("nonsense\n");
    let answer: Value = serde_json::from_str(&process.line()).unwrap();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(null), &json!(-32700))
    );
    let discover = json!({
        "jsonrpc": "2.0", "id": "d", "method": "server/discover", "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    });
    process.tell(&format!("{discover}\n"));
    let answer: Value = serde_json::from_str(&process.line()).unwrap();
    assert_eq!(answer["result"]["resultType"], "complete");
}

#[test]
fn unknown_names_are_answered_with_known_ones() {
    let scratch = Scratch::with_org();
    let data = scratch.data_dir();
    let refused = knowledge(&["mcp", &data]).refused();
    assert!(
        refused.contains("choose one with --workspace: sales, support"),
        "{refused}"
    );
    let failed = knowledge(&["mcp", "--member=ada", "--workspace=sales", &data]).failed();
    assert!(failed.contains("members of acme: maya"), "{failed}");
}

#[test]
fn commands_work_as_documented() {
    let scratch = Scratch::new();
    let blocks = shell_blocks(include_str!("../../../docs/assistants.md"));
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let output = run_block(block, &scratch, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}\n{said}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("knowledge"));
    }
}

/// Returns the text for an assistant, and where it belongs.
fn configuration(arguments: &[&str]) -> (String, String) {
    let printed = knowledge(&[&["mcp", "config"], arguments].concat()).ok();
    let program = env!("CARGO_BIN_EXE_knowledge");
    let text = printed.stdout.replace(program, "<program>");
    (printed.stderr.trim().to_owned(), text)
}

#[test]
fn configuration_starts_this_program() {
    let scratch = Scratch::with_org();
    let data = scratch.data_dir();
    let of = |arguments: &[&str]| {
        let (place, text) = configuration(&[arguments, &["--workspace=sales", &data]].concat());
        (place, text.replace(&data, "<data>"))
    };
    let (place, text) = of(&["claude-code", "--name=sales notes"]);
    assert_eq!(place, "Run:");
    let command = "claude mcp add 'sales notes' -- <program> mcp <data> --org=acme --member=maya \
        --workspace=sales";
    assert_eq!(text.trim(), command);
    let arguments = json!([
        "mcp",
        "<data>",
        "--org=acme",
        "--member=maya",
        "--workspace=sales"
    ]);
    let started = json!({ "knowledge": { "command": "<program>", "args": arguments } });
    let desktop = "claude_desktop_config.json (Settings, Developer, Edit Config):";
    for (client, place, servers) in [
        ("claude-desktop", desktop, "mcpServers"),
        ("cursor", ".cursor/mcp.json:", "mcpServers"),
        ("vscode", ".vscode/mcp.json:", "servers"),
        (
            "windsurf",
            "~/.codeium/windsurf/mcp_config.json:",
            "mcpServers",
        ),
    ] {
        let (named, text) = of(&[client]);
        assert_eq!(named, place);
        let text: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(text, json!({ servers: started }), "{client}");
    }
    let text: Value = serde_json::from_str(&of(&["opencode"]).1).unwrap();
    let command = text["mcp"]["knowledge"]["command"].as_array().unwrap();
    assert_eq!((command.len(), &command[0]), (6, &json!("<program>")));
    // Names are checked before an assistant starts with them.
    let wrong = ["mcp", "config", "cursor", "--workspace=legal", &data];
    let failed = knowledge(&wrong).failed();
    assert!(
        failed.contains("known workspaces: sales, support"),
        "{failed}"
    );
}

#[test]
fn configuration_reaches_a_server() {
    const WORKSPACE: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
    let workspace = format!("--workspace={WORKSPACE}");
    let of = |client: &str| configuration(&[client, "--url=https://a.example/mcp", &workspace]).1;
    let address = format!("https://a.example/mcp?workspace={WORKSPACE}");
    let command = format!(
        "claude mcp add --transport http knowledge '{address}' \
         --header \"Authorization: Bearer $KNOWLEDGE_TOKEN\""
    );
    assert_eq!(of("claude-code").trim(), command);
    for (client, place, field) in [
        ("cursor", "/mcpServers/knowledge", "url"),
        ("windsurf", "/mcpServers/knowledge", "serverUrl"),
        ("vscode", "/servers/knowledge", "url"),
        ("opencode", "/mcp/knowledge", "url"),
    ] {
        let text: Value = serde_json::from_str(&of(client)).unwrap();
        let server = text.pointer(place).expect(client);
        assert_eq!(server[field], address, "{client}");
        let header = server["headers"]["Authorization"].as_str().unwrap();
        assert!(
            header.starts_with("Bearer ") && header.ends_with('}'),
            "{header}"
        );
    }
    // Some assistants, and those that take the token from a file, start this program.
    let started: Value = serde_json::from_str(&of("claude-desktop")).unwrap();
    let url = "--url=https://a.example/mcp";
    let server = &started["mcpServers"]["knowledge"];
    assert_eq!(server["args"], json!(["mcp", url, workspace]));
    assert!(server["env"]["KNOWLEDGE_TOKEN"].is_string());
    let (_, text) = configuration(&["cursor", url, "--token-file=/run/key"]);
    let text: Value = serde_json::from_str(&text).unwrap();
    let server = &text["mcpServers"]["knowledge"];
    assert_eq!(server["args"], json!(["mcp", url, "--token-file=/run/key"]));
    assert!(server.get("env").is_none());
    knowledge(&["mcp", "config", "cursor", "--url=a.example"]).refused();
    let slug = ["mcp", "config", "cursor", url, "--workspace=sales"];
    let refused = knowledge(&slug).refused();
    assert!(
        refused.contains("must be the identifier of a workspace"),
        "{refused}"
    );
}
