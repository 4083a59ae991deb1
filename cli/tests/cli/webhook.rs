//! Tests of `knowledge webhook list`, `deliveries`, `redeliver` and `ping`.
//!
//! The commands run with and without a running server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{AssertText, Finished, Request, Scratch, Server, knowledge, send, start};

/// Time limit of a test that would hang.
const GUARD: Duration = Duration::from_secs(60);
/// Stands for no response, with the connection kept open.
const SILENCE: u16 = 0;

/// A receiver that responds with the status that is set.
struct Receiver {
    url: String,
    status: Arc<AtomicU16>,
}

impl Receiver {
    fn answering(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let status = Arc::new(AtomicU16::new(status));
        let answered = Arc::clone(&status);
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                match answered.load(Ordering::SeqCst) {
                    SILENCE => silent.push(stream),
                    status => answer(&stream, status),
                }
            }
        });
        Self {
            url: format!("http://{address}/hook"),
            status,
        }
    }

    fn answer_from_now_on(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }
}

fn answer(stream: &TcpStream, status: u16) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    reader.read_exact(&mut vec![0; length]).expect("a body");
    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let mut stream = stream;
    stream.write_all(answer.as_bytes()).expect("answer");
}

/// An organisation with a webhook, and a server that delivers to this machine, unless stopped.
struct Stage {
    scratch: Scratch,
    server: Option<Server>,
    url: String,
    token: String,
    workspace: String,
    webhook: String,
    receiver: Receiver,
}

impl Stage {
    fn set() -> Self {
        let scratch = Scratch::with_org();
        let config = "[webhooks]\nallow = [\"127.0.0.0/8\"]\nallow_http = true\n";
        scratch.write("config.toml", config);
        let mut stage = Self {
            scratch,
            server: None,
            url: String::new(),
            token: String::new(),
            workspace: String::new(),
            webhook: String::new(),
            receiver: Receiver::answering(204),
        };
        stage.serve();
        stage.token = stage
            .run(&["token", "create", "--member=maya"])
            .ok()
            .stdout
            .trim()
            .to_owned();
        let workspaces = stage.json(&["workspace", "list"]);
        let mut workspaces = workspaces.as_array().expect("a list").iter();
        let support = workspaces.find(|workspace| workspace["slug"] == "support");
        stage.workspace = id(support.expect("the workspace"));
        let new = json!({ "event_type": "chunk.created", "url": stage.receiver.url });
        stage.webhook = id(&stage.ask("POST", "", &new));
        // The first ping, which confirms the webhook.
        stage.wait_for_delivered(1);
        stage
    }

    fn serve(&mut self) {
        let config = format!("--config={}", self.scratch.arg("config.toml"));
        let data_dir = self.scratch.data_dir();
        let server = start(&["serve", &config, &data_dir, "--listen=127.0.0.1:0"]);
        self.url = server.base_url();
        self.server = Some(server);
    }

    fn stop(&mut self) {
        let server = self.server.take().expect("a server");
        assert_eq!(server.terminate(), 0);
    }

    /// Calls the API about the webhooks of the workspace.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = send(&Request {
            method: method.to_owned(),
            url: format!(
                "{}/v1/workspaces/{}/webhooks{path}",
                self.url, self.workspace
            ),
            headers: vec![
                format!("Authorization: Bearer {}", self.token),
                "Content-Type: application/json".to_owned(),
            ],
            body: body.to_string(),
        });
        assert!((200..300).contains(&answer.status), "{answer:?}");
        answer.json()
    }

    fn run(&self, args: &[&str]) -> Finished {
        let data_dir = self.scratch.data_dir();
        knowledge(&[args, &[data_dir.as_str()]].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--output=json"]].concat()).ok().stdout;
        serde_json::from_str(&output).expect("JSON")
    }

    /// Returns the deliveries to the webhook with this status.
    fn deliveries(&self, status: &str) -> Vec<Value> {
        let status = format!("--status={status}");
        let listed = self.json(&["webhook", "deliveries", &self.webhook, &status]);
        listed.as_array().expect("a list").clone()
    }

    /// Waits until this many deliveries are delivered.
    fn wait_for_delivered(&self, count: usize) {
        let since = Instant::now();
        while self.deliveries("delivered").len() < count {
            assert!(since.elapsed() < GUARD, "{:?}", self.deliveries("pending"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn id(made: &Value) -> String {
    made["id"].as_str().expect("an id").to_owned()
}

#[test]
fn webhook_ping_and_redelivery_succeed() {
    let stage = Stage::set();
    let webhook = stage.webhook.as_str();
    let ping = || stage.run(&["webhook", "ping", webhook]);
    let said = ping().ok().stdout;
    said.assert_begins("delivered: 204 in ");

    stage.receiver.answer_from_now_on(500);
    let said = ping().failed();
    said.assert_begins("error: the ping failed: 500 in ");
    let failed = stage.run(&["webhook", "ping", webhook, "--output=json"]);
    assert_eq!(failed.code, 1);
    let shown: Value = serde_json::from_str(&failed.stdout).expect("JSON");
    assert_eq!(
        (&shown["status"], &shown["attempts"][0]["status"]),
        (&json!("dead"), &json!(500))
    );

    let dead = stage.deliveries("dead");
    assert_eq!(dead.len(), 2);
    assert_eq!(dead[0], shown);
    let all = stage.run(&["webhook", "deliveries", webhook]).ok();
    let lines: Vec<_> = all.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{}", all.stdout);
    for (line, id) in lines[1..].iter().zip(&dead) {
        let id = id["id"].as_str().expect("an id");
        for part in [id, "webhook.ping", "dead", "500 in "] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    for line in &lines[3..] {
        line.assert_has("delivered");
    }
    let first = stage
        .run(&["webhook", "deliveries", webhook, "--limit=1"])
        .ok();
    assert_eq!(first.stdout.lines().count(), 2);
    first
        .stderr
        .assert_is("there are more deliveries; raise --limit to list them\n");

    stage.receiver.answer_from_now_on(200);
    let again = [
        "webhook",
        "redeliver",
        webhook,
        dead[0]["id"].as_str().unwrap(),
    ];
    let said = stage.run(&again).ok().stderr;
    said.assert_ends(" queued for redelivery, attempted now\n");
    stage.wait_for_delivered(3);
    let all = ["webhook", "redeliver", webhook, "--dead"];
    assert_eq!(stage.json(&all), json!({ "redelivered": 1 }));
    stage.wait_for_delivered(4);
    let said = stage.run(&all).ok().stderr;
    said.assert_is("dead letters queued for redelivery: 0, attempted now\n");
}

#[test]
fn webhook_list_shows_and_names_endpoints() {
    let stage = Stage::set();
    let webhook = stage.webhook.as_str();
    let listed = stage.json(&["webhook", "list"]);
    let fields = [
        ("id", json!(webhook)),
        ("kind", json!("webhook")),
        ("workspace_id", json!(stage.workspace)),
        ("url", json!(stage.receiver.url)),
        ("is_active", json!(true)),
        ("dead", json!(0)),
    ];
    for (name, value) in fields {
        assert_eq!(listed[0][name], value, "{name}");
    }
    let table = stage.run(&["webhook", "list", "--workspace=support"]).ok();
    for part in [webhook, "support", "chunk.created", "active", "/hook"] {
        assert!(table.stdout.contains(part), "{part}: {}", table.stdout);
    }
    assert_eq!(
        stage.json(&["webhook", "list", "--workspace=sales"]),
        json!([])
    );
    let unknown = stage.run(&["webhook", "list", "--workspace=nine"]).failed();
    let expected = "error: --workspace must be the slug or the identifier of a workspace of acme; workspaces of acme: sales, support";
    assert_eq!(unknown, expected);

    let here = ["webhook", "deliveries", webhook, "--workspace=support"];
    stage.run(&here).ok();
    let elsewhere = ["webhook", "ping", webhook, "--workspace=sales"];
    stage.run(&elsewhere).fails(&format!(
        "error: the webhook {webhook} does not belong to the workspace sales"
    ));
    let nothing = uuid::Uuid::max().to_string();
    for command in ["deliveries", "ping"] {
        let unknown = stage.run(&["webhook", command, &nothing]).failed();
        unknown
            .assert_is("error: there is no such endpoint; list them with `knowledge webhook list`");
    }
    let unknown = stage
        .run(&["webhook", "redeliver", webhook, &nothing])
        .failed();
    unknown.assert_is(
        "error: there is no such delivery; list them with `knowledge webhook deliveries WEBHOOK`",
    );
    for wrong in [
        &["redeliver", webhook][..],
        &["redeliver", webhook, &nothing, "--dead"],
        &["deliveries", webhook, "--status=lost"],
        &["deliveries", webhook, "--limit=0"],
        &["ping", "seven"],
    ] {
        stage.run(&[&["webhook"], wrong].concat()).refused();
    }

    stage.ask(
        "PATCH",
        &format!("/{webhook}"),
        &json!({ "is_active": false }),
    );
    let table = stage.run(&["webhook", "list"]).ok().stdout;
    table.assert_has(" inactive ");
    let off = "error: the endpoint is inactive; activate the webhook, or send a ping if the service disabled the endpoint";
    assert_eq!(stage.run(&["webhook", "ping", webhook]).failed(), off);
}

#[test]
fn webhook_commands_without_a_server_send_nothing() {
    let mut stage = Stage::set();
    let webhook = stage.webhook.clone();
    stage.receiver.answer_from_now_on(500);
    stage.run(&["webhook", "ping", &webhook]).failed();
    stage.stop();
    assert_eq!(stage.json(&["webhook", "list"])[0]["dead"], 1);
    let dead = stage.deliveries("dead");
    assert_eq!(dead.len(), 1);
    let refused = stage.run(&["webhook", "ping", &webhook]).failed();
    refused.assert_is("error: a ping requires a running server; start one with `knowledge serve`");
    assert_eq!(stage.deliveries("dead"), dead);
    let all = ["webhook", "redeliver", &webhook, "--dead"];
    let said = stage.run(&all).ok().stderr;
    said.assert_is("dead letters queued for redelivery: 1, attempted once a server runs\n");
    assert_eq!(stage.deliveries("pending").len(), 1);
    stage.receiver.answer_from_now_on(204);
    stage.serve();
    stage.wait_for_delivered(1);
}

#[test]
fn webhook_ping_waits_for_a_limited_time() {
    let stage = Stage::set();
    stage.receiver.answer_from_now_on(SILENCE);
    let webhook = stage.webhook.as_str();
    let said = stage
        .run(&["webhook", "ping", webhook, "--timeout=300ms"])
        .failed();
    said.assert_is(&format!(
        "error: the ping is still pending; see `knowledge webhook deliveries {webhook}`"
    ));
    assert_eq!(stage.deliveries("pending").len(), 1);
}
