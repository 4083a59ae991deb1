//! Tests of the effect of settings, on the server and on commands that open its data.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::problems;
use crate::support::{AssertText, Request, Scratch, Server, knowledge, knowledge_in, send, start};

/// A server with its own organisation and this text in its configuration file.
struct Configured {
    scratch: Scratch,
    server: Server,
    url: String,
    token: String,
    workspace: String,
}

/// Number of calls so far, for their idempotency keys.
static CALLS: AtomicU32 = AtomicU32::new(0);

impl Configured {
    fn start(more: &str) -> Self {
        let scratch = Scratch::with_org();
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{more}\n[storage]\ndata_dir = {:?}\n",
            scratch.arg("data")
        );
        let file = scratch.write("knowledge.toml", &text);
        let config = format!("--config={file}");
        let made = knowledge(&["token", "create", "--member=maya", &config]).ok();
        let told = knowledge(&["dashboard", "support", "--output=json", &config]).ok();
        let told: Value = serde_json::from_str(&told.stdout).expect("an object");
        let server = start(&["serve", &config]);
        Self {
            url: server.base_url(),
            token: made.stdout.trim().to_owned(),
            workspace: told["workspace"]["id"].as_str().expect("an id").to_owned(),
            scratch,
            server,
        }
    }

    fn config(&self) -> String {
        format!("--config={}", self.scratch.arg("knowledge.toml"))
    }

    /// Makes a call with a new idempotency key, and returns status and body.
    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let key = CALLS.fetch_add(1, Ordering::Relaxed).to_string();
        self.call_with(&key, method, path, body)
    }

    fn call_with(&self, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let answer = send(&Request {
            method: method.to_owned(),
            url: format!("{}{path}", self.url),
            headers: vec![
                format!("Authorization: Bearer {}", self.token),
                "Content-Type: application/json".to_owned(),
                format!("Idempotency-Key: {key}"),
            ],
            body: body.to_string(),
        });
        let body = match answer.body.as_str() {
            "" => Value::Null,
            _ => answer.json(),
        };
        (answer.status, body)
    }

    fn relabel(&self, memories: u128) -> (u16, Value) {
        let ids: Vec<_> = (0..memories).map(uuid::Uuid::from_u128).collect();
        let body = json!({"memoryIds": ids, "sensitivityLabel": "public"});
        self.call_with("bulk", "PATCH", "/v1/memories/bulk", &body)
    }
}

#[test]
fn bulk_update_limit_is_configurable() {
    let knowledge = Configured::start("[limits]\nbulk_memories_max = 5");
    let (status, body) = knowledge.relabel(6);
    assert_eq!(status, 400, "{body}");
    let problem = &body["details"]["fields"][0];
    assert_eq!(problem["path"], "memoryIds");
    assert_eq!(problem["message"], "must have 1 to 5 items, not 6");
    let (status, body) = knowledge.relabel(5);
    assert_eq!((status, &body["summary"]["requested"]), (200, &json!(5)));
    assert_eq!(knowledge.server.terminate(), 0);
}

#[test]
fn body_limit_and_timeout_are_configurable() {
    let more = "body_read_timeout = \"200ms\"\n[limits]\nbody_bytes_max = \"1KiB\"";
    let knowledge = Configured::start(more);
    let (status, _) = knowledge.call("PATCH", "/v1/memories/bulk", &json!("x".repeat(1_022)));
    assert_eq!(status, 400, "1,024 bytes are read");
    let (status, body) = knowledge.call("PATCH", "/v1/memories/bulk", &json!("x".repeat(1_023)));
    assert_eq!((status, &body["error"]), (413, &json!("payload_too_large")));

    let address = knowledge.url.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address).expect("connect");
    let head = "PATCH /v1/memories/bulk HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{";
    stream.write_all(head.as_bytes()).expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.assert_begins("HTTP/1.1 503 ");
}

#[test]
fn webhook_limit_and_public_url_are_configurable() {
    let knowledge = Configured::start(
        "public_url = \"https://knowledge.example.com/api/\"\n[limits]\n\
         webhooks_per_workspace_max = 1\ninbound_webhooks_per_workspace_max = 1",
    );
    let path = |kind: &str| format!("/v1/workspaces/{}/{kind}", knowledge.workspace);
    let outbound = json!({"event_type": "chunk.created", "url": "https://example.com/hooks"});
    let inbound = json!({"name": "Status page"});
    for (path, body) in [
        (path("webhooks"), outbound),
        (path("inbound-webhooks"), inbound),
    ] {
        let (status, made) = knowledge.call("POST", &path, &body);
        assert_eq!(status, 201, "{path}: {made}");
        let (status, _) = knowledge.call("POST", &path, &body);
        assert_eq!(status, 400, "{path}");
        if path.ends_with("inbound-webhooks") {
            let url = made["url"].as_str().expect("a URL");
            assert!(url.starts_with("https://knowledge.example.com/api/v1/inbound/"));
        }
    }
}

#[test]
fn webhook_address_ranges_are_configurable() {
    let knowledge = Configured::start(
        "[webhooks]\nallow = [\"127.0.0.0/8\", \"fd12:3456::1\"]\nallow_http = true",
    );
    let path = format!("/v1/workspaces/{}/webhooks", knowledge.workspace);
    let outbound = |url: &str| {
        let body = json!({"event_type": "chunk.created", "url": url});
        knowledge.call("POST", &path, &body).0
    };
    for url in [
        "http://127.0.0.1:9/",
        "http://localhost/",
        "http://[fd12:3456::1]/",
        "http://example.com/",
    ] {
        assert_eq!(outbound(url), 201, "{url}");
    }
    for url in [
        "http://10.0.0.1/",
        "https://[fd12:3456::2]/",
        "https://[::1]/",
    ] {
        assert_eq!(outbound(url), 400, "{url}");
    }
}

#[test]
fn name_and_url_limits_are_configurable() {
    let knowledge = Configured::start("[limits]\nname_chars_max = 30\nurl_chars_max = 20");
    let path = |kind: &str| format!("/v1/workspaces/{}/{kind}", knowledge.workspace);
    let inbound = |chars: usize| {
        let body = json!({"name": "ä".repeat(chars)});
        knowledge.call("POST", &path("inbound-webhooks"), &body).0
    };
    assert_eq!((inbound(30), inbound(31)), (201, 400));
    let outbound = |url: &str| {
        let body = json!({"event_type": "chunk.created", "url": url});
        knowledge.call("POST", &path("webhooks"), &body).0
    };
    let (fits, does_not) = ("https://example.com/", "https://example.com/1");
    assert_eq!((outbound(fits), outbound(does_not)), (201, 400));
}

#[test]
fn idempotency_retention_is_configurable() {
    let knowledge = Configured::start("[limits]\nidempotency_retention = \"1ms\"");
    let (_, first) = knowledge.relabel(1);
    // The clock ticks at the latest before the call after the next one.
    let replayed = (0..100).find(|_| knowledge.relabel(1).1["replayed"] == false);
    assert!(replayed.is_some(), "{first}");

    let knowledge = Configured::start("");
    let (_, first) = knowledge.relabel(1);
    let (_, second) = knowledge.relabel(1);
    assert_eq!(first["replayed"], false);
    assert_eq!(second["replayed"], true, "kept for a day unless told");
}

#[test]
fn commands_use_same_configuration_as_the_server() {
    let knowledge = Configured::start("[limits]\ncontent_bytes_max = 10");
    let config = knowledge.config();
    let Configured {
        scratch, server, ..
    } = knowledge;
    assert_eq!(server.terminate(), 0);
    let memories = scratch.write(
        "memories.jsonl",
        "{\"title\": \"t\", \"content\": \"0123456789\"}\n{\"title\": \"t\", \"content\": \"0123456789a\"}\n",
    );
    let args = [
        "import",
        &memories,
        "--workspace=support",
        "--source=s",
        &config,
    ];
    let run = crate::support::knowledge(&args).ok();
    run.begins("created 1, updated 0, unchanged 0, rejected 1\n");
    run.warns("line 2: content must have 1 to 10 bytes");
}

#[test]
fn data_directory_is_configured_for_all_commands() {
    let scratch = Scratch::new();
    let key = scratch.write("sealing.key", &"ab".repeat(32));
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key, private).expect("permissions");
    let text = format!(
        "[storage]\ndata_dir = {:?}\nsealing_key_file = {key:?}\n",
        scratch.arg("elsewhere")
    );
    let file = scratch.write("knowledge.toml", &text);
    let named = [("KNOWLEDGE_CONFIG", file.as_str())];
    knowledge_in(&named, &["init", "--org-slug=acme", "--workspace=support"]).ok();
    knowledge_in(&named, &["token", "create", "--member=owner"]).ok();
    let list = knowledge_in(&named, &["token", "list", "--output=json"]).ok();
    let list: Vec<Value> = serde_json::from_str(&list.stdout).expect("a list");
    assert_eq!(list.len(), 1);
    let shown = knowledge_in(&named, &["dashboard", "support"]).ok();
    shown.shows("workspace:support");
    assert!(scratch.path("elsewhere").is_dir());
    assert!(
        !scratch.path("elsewhere.key").exists(),
        "the key is another"
    );
    // A flag takes precedence.
    let other = knowledge_in(&named, &["token", "list", &scratch.data_dir()]).failed();
    other.assert_has("there is no store in");
}

#[test]
fn invalid_configuration_prevents_the_start() {
    let scratch = Scratch::new();
    let text = format!(
        "[storage]\ndata_dir = {:?}\n[limits]\nbulk_memories_max = 0\n",
        scratch.arg("data")
    );
    let file = scratch.write("knowledge.toml", &text);
    let named = [("KNOWLEDGE_CONFIG", file.as_str())];
    for args in [
        ["serve"].as_slice(),
        &["init", "--org-slug=acme"],
        &["token", "list"],
        &["dashboard", "support"],
    ] {
        let stderr = knowledge_in(&named, args).refused();
        assert_eq!(
            problems(&scratch, &stderr),
            [
                "knowledge.toml:4:21: limits.bulk_memories_max must be a number of memories from 1 to 1100, not the \
                 number 0"
            ],
            "{args:?}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(scratch.path(""))
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["knowledge.toml"]);
}
