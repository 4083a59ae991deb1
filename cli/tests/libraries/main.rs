//! Tests with libraries of others, over TCP.
//!
//! - Signatures in both directions with `standardwebhooks` from the registries of Rust, npm and
//!   Python. Each sends memories in, and receives the events that follow from them.
//! - Access filters with vector stores, and the example of an application that has one.
//! - Scores of searches, with `bm25s`, and their quality by the judgements of people.
//! - Assistants with the clients of the Model Context Protocol, and its conformance suite; the example
//!   of one.

#[path = "../cli/support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "made for the tests of the command line"
)]
mod support;

mod acting;
mod assistant_example;
mod assistants;
mod indexes;
mod own_index;
mod quality;
mod receiver;
mod rmcp;
mod scores;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use self::receiver::Receiver;
use self::support::{Request, Scratch, Server, knowledge, send, start};

/// Passes a line of JSON to a program in Python, and returns the lines that it prints.
fn ask_python(program: &str, asked: &Value) -> Vec<Value> {
    ask(
        Command::new(receiver::installed("TEST_PYTHON")).arg(program),
        asked,
    )
}

/// Passes a line of JSON to a program, and returns the lines of JSON that it prints until it ends.
fn ask(program: &mut Command, asked: &Value) -> Vec<Value> {
    let mut running = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = running.stdin.take().expect("a pipe");
    writeln!(input, "{asked}").expect("the program reads");
    drop(input);
    let output = running.wait_with_output().expect("the program ends");
    assert!(output.status.success(), "{:?}", output.status);
    let lines = String::from_utf8(output.stdout).expect("text");
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

/// A server with one organisation that may deliver to this machine, and an owner's token.
struct Service {
    scratch: Scratch,
    server: Server,
    url: String,
    token: String,
    /// Number of requests with a body so far.
    requests: AtomicU32,
}

impl Service {
    fn start() -> Self {
        let scratch = Scratch::with_org();
        let config = "[webhooks]\nallow = [\"127.0.0.0/8\"]\nallow_http = true\n";
        let config = scratch.write("knowledge.toml", config);
        let data_dir = scratch.data_dir();
        let made = knowledge(&["token", "create", "--member=maya", &data_dir]).ok();
        let config = format!("--config={config}");
        let server = start(&["serve", &config, &data_dir, "--listen=127.0.0.1:0"]);
        Self {
            url: server.base_url(),
            server,
            token: made.stdout.trim().to_owned(),
            scratch,
            requests: AtomicU32::new(0),
        }
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut headers = vec![format!("Authorization: Bearer {}", self.token)];
        let body = if body.is_null() {
            String::new()
        } else {
            headers.push("Content-Type: application/json".to_owned());
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            headers.push(format!("Idempotency-Key: {number}"));
            body.to_string()
        };
        let answer = send(&Request {
            method: method.to_owned(),
            url: format!("{}{path}", self.url),
            headers,
            body,
        });
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        answer.json()
    }

    fn get(&self, path: &str) -> Value {
        self.call("GET", path, &Value::Null)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", path, body)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// Follows a message from its arrival to the events of its approval.
fn comes_in_and_goes_out(mut receiver: Receiver) {
    let service = Service::start();
    let workspaces = service.get("/v1/workspaces");
    let workspaces = workspaces["data"].as_array().expect("a list").iter();
    let support = workspaces.clone().find(|one| one["slug"] == "support");
    let workspace = text(&support.expect("the workspace")["id"]).to_owned();
    let at = |rest: &str| format!("/v1/workspaces/{workspace}/{rest}");
    let backlog = || service.get(&at("dashboard-summary"))["review_backlog_count"].clone();
    assert_eq!(backlog(), 0);

    // A message arrives, signed by the library.
    let inbound = service.post(&at("inbound-webhooks"), &json!({ "name": "Tickets" }));
    let url = format!("{}{}", service.url, text(&inbound["url"]));
    let body =
        json!({ "memories": [{ "title": "Refunds", "content": "Above 500 euros two decide." }] });
    let (secret, body) = (text(&inbound["signing_secret"]), body.to_string());
    assert_eq!(receiver.post(&url, secret, "msg_1", &body), 204);
    assert_eq!(backlog(), 1);
    // A repetition has no effect, and another secret is rejected.
    assert_eq!(receiver.post(&url, secret, "msg_1", &body), 204);
    assert_eq!(backlog(), 1);
    let other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    assert_eq!(receiver.post(&url, other, "msg_2", &body), 401);
    assert_eq!(backlog(), 1);

    // The memory is approved; a recall cites it, and has a subscription.
    let pending = service.get(&at("memories?reviewStatus=pending"));
    let memory = text(&pending["data"][0]["id"]).to_owned();
    let approval = json!({ "memoryIds": [memory], "reviewStatus": "approved" });
    service.call("PATCH", "/v1/memories/bulk", &approval);
    assert_eq!(backlog(), 0);
    let recall = json!({ "query": "May I refund 600 euros?", "memory_ids": [memory] });
    let recall = service.post(&at("recalls"), &recall);
    let recall = text(&recall["id"]).to_owned();
    let subscription = json!({ "recall_id": recall, "webhook_url": receiver.url("/citations") });
    let subscription = service.post("/v1/citation-subscriptions", &subscription);
    receiver.verify_with("/citations", text(&subscription["signing_secret"]));
    let webhook = json!({ "event_type": "memory.updated", "url": receiver.url("/memories") });
    let webhook = service.post(&at("webhooks"), &webhook);
    receiver.verify_with("/memories", text(&webhook["signing_secret"]));

    // Both confirm themselves. A ping may arrive before the library knows its secret, and again
    // after five seconds.
    let mut confirmed = BTreeSet::new();
    while confirmed.len() < 2 {
        let ping = receiver.next();
        if ping["verified"] == true {
            assert_eq!(ping["payload"]["type"], "webhook.ping", "{ping}");
            confirmed.insert(text(&ping["path"]).to_owned());
        }
    }

    // The events of a change arrive, and the library verifies the signatures.
    let change = json!({ "sensitivityLabel": "confidential" });
    service.call("PATCH", &format!("/v1/memories/{memory}"), &change);
    let mut received = [receiver.next(), receiver.next()];
    received.sort_by_key(|one| one["path"].to_string());
    let [citation, update] = received;
    for delivery in [&citation, &update] {
        assert_eq!(delivery["verified"], true, "{delivery}");
        assert_eq!(delivery["payload"]["data"]["memory_ids"], json!([memory]));
    }
    assert_eq!(citation["path"], "/citations");
    assert_eq!(citation["payload"]["type"], "citation.changed");
    assert_eq!(citation["payload"]["data"]["recall_id"], *recall);
    assert_eq!(update["payload"]["type"], "memory.updated");
    assert_eq!(service.server.terminate(), 0);
}

#[test]
fn rust_library_exchanges_signatures() {
    comes_in_and_goes_out(Receiver::rust());
}

#[test]
fn node_library_exchanges_signatures() {
    comes_in_and_goes_out(Receiver::node());
}

#[test]
fn python_library_exchanges_signatures() {
    comes_in_and_goes_out(Receiver::python());
}
