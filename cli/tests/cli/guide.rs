//! Tests of the commands in the guide: their responses are those that it shows.

use std::net::TcpListener;

use serde_json::Value;

use crate::support::{
    AssertText, Scratch, Server, knowledge, request_of, run_block, send, shell_blocks, start, words,
};

const GUIDE: &str = include_str!("../../../docs/guide.md");

/// Returns the `curl` lines, each with the JSON after it, if any.
fn examples() -> Vec<(&'static str, Option<Value>)> {
    let mut examples = Vec::new();
    let mut blocks = GUIDE.split("```");
    while let (Some(_), Some(block)) = (blocks.next(), blocks.next()) {
        if let Some(line) = block
            .strip_prefix("sh\n")
            .filter(|text| text.starts_with("curl "))
        {
            examples.push((line.trim(), None));
        } else if let Some(json) = block.strip_prefix("json\n") {
            let (_, answer) = examples.last_mut().expect("an answer stands behind a line");
            *answer = Some(serde_json::from_str(json).expect("JSON in the guide"));
        }
    }
    examples
}

/// Asserts that both have the same fields, with values of the same types.
///
/// A list in a document may be shortened, and identifiers may differ.
pub(crate) fn assert_same_shape(shown: &Value, answered: &Value, path: &str) {
    match (shown, answered) {
        (Value::Object(shown), Value::Object(answered)) => {
            let names = |object: &serde_json::Map<_, _>| object.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(shown), names(answered), "{path}");
            for (name, shown) in shown {
                assert_same_shape(shown, &answered[name], &format!("{path}.{name}"));
            }
        }
        (Value::Array(shown), Value::Array(answered)) => {
            assert!(shown.len() <= answered.len(), "{path}");
            for (index, (shown, answered)) in shown.iter().zip(answered).enumerate() {
                assert_same_shape(shown, answered, &format!("{path}[{index}]"));
            }
        }
        (Value::Bool(shown), Value::Bool(answered)) => assert_eq!(shown, answered, "{path}"),
        (Value::Number(_), Value::Number(_)) | (Value::Null, Value::Null) => {}
        (Value::String(_), Value::String(_)) => {}
        _ => panic!("{path}: the document shows {shown}, the answer has {answered}"),
    }
}

/// Returns the variables that the demo's screen sets.
pub(crate) fn variables_on(screen: &str) -> Vec<(&str, &str)> {
    let line = screen.lines().find_map(|line| line.strip_prefix("export "));
    let variables = line.expect("a line that sets the variables").split(' ');
    variables
        .map(|variable| variable.split_once('=').expect("a variable"))
        .map(|(name, value)| (name, value.trim_matches('\'')))
        .collect()
}

#[test]
fn operations_respond_as_the_guide_shows() {
    let scratch = Scratch::new();
    let data_dir = scratch.data_dir();
    let args = [
        "demo",
        &data_dir,
        "--listen=127.0.0.1:0",
        "--memories=200",
        // Another process may listen on the port of the registered receivers.
        "--no-deliveries",
    ];
    let mut server = start(&args);
    let screen = server.output_until("Ctrl-C");
    let variables = variables_on(&screen);
    let examples = examples();
    assert_eq!(examples.len(), 8);
    for (line, shown) in &examples {
        let fill =
            |line: String, (name, value): &(&str, &str)| line.replace(&format!("${name}"), value);
        let line = variables.iter().fold((*line).to_owned(), fill);
        assert!(
            !line.contains('$'),
            "the demo sets no such variable: {line}"
        );
        let answer = send(&request_of(&line));
        assert!((200..300).contains(&answer.status), "{line}: {answer:?}");
        match shown {
            Some(shown) => assert_same_shape(shown, &answer.json(), "answer"),
            None => assert_eq!(answer.body, "", "{line}"),
        }
    }
    assert_eq!(server.terminate(), 0);
}

/// A reader's server would otherwise send events to the machine of somebody else.
#[test]
fn guide_registers_only_receivers_on_this_machine() {
    let registered = GUIDE.split("url\": \"").skip(1);
    let mut hosts: Vec<_> = registered
        .filter_map(|rest| rest.split('"').next()?.split_once("://"))
        .filter_map(|(_, rest)| rest.split(['/', ':']).next())
        .collect();
    hosts.dedup();
    assert_eq!(hosts, ["127.0.0.1"]);
}

#[test]
fn production_setup_works_as_the_guide_says() {
    let scratch = Scratch::new();
    let (_, chapter) = GUIDE.split_once("## In production").expect("the chapter");
    let blocks = shell_blocks(chapter);
    let (prepare, use_it) = (blocks[0], blocks[1]);
    let prepared = run_block(prepare, &scratch, &[]);
    assert!(prepared.status.success(), "{prepared:?}");

    // The ports are changed, all else is as documented.
    let config = std::fs::read_to_string(scratch.path("knowledge.toml")).expect("the file");
    let certificate = |name: &str| format!("\"{}\"", scratch.arg(name));
    let config = config
        .replace("127.0.0.1:8443", "127.0.0.1:0")
        .replace("127.0.0.1:9464", "127.0.0.1:0")
        .replace("\"server.pem\"", &certificate("server.pem"))
        .replace("\"server.key\"", &certificate("server.key"))
        .replace("\"data\"", &certificate("data"));
    let config = scratch.write("knowledge.toml", &config);
    let server = start(&["serve", &format!("--config={config}")]);
    let url = server.base_url();
    let (_, port) = url.rsplit_once(':').expect("a port");

    let block = use_it.replace("8443", port);
    let used = run_block(&block, &scratch, &[("KNOWLEDGE_CONFIG", "knowledge.toml")]);
    let said = String::from_utf8_lossy(&used.stdout);
    assert!(used.status.success(), "{used:?}");
    said.assert_has("changed 1, not changed 0");
    let log = said.lines().find(|line| line.starts_with("{\"data\":"));
    let log: Value = serde_json::from_str(log.expect("the audit log")).expect("JSON");
    let entry = &log["data"][0];
    assert_eq!(entry["after"]["sensitivity"], "confidential", "{log}");
    let members = knowledge(&words(&format!(
        "user list --output=json --config={config}"
    )));
    let members: Value = serde_json::from_str(&members.ok().stdout).expect("JSON");
    let jonas = members.as_array().expect("a list").iter();
    let jonas = jonas.clone().find(|member| member["handle"] == "jonas");
    assert_eq!(entry["actor_id"], jonas.expect("jonas")["id"]);
    assert_eq!(server.terminate(), 0);
}

#[test]
fn events_come_in_and_go_out_as_the_guide_says() {
    let scratch = Scratch::new();
    let data_dir = scratch.arg("data");
    let environment = [("KNOWLEDGE_STORAGE__DATA_DIR", &*data_dir)];
    let run = |block: &str| {
        let block = block
            .replace("$PWD/target/release:", "")
            .replace("target/release/knowledge", "knowledge");
        let ran = run_block(&block, &scratch, &environment);
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).expect("UTF-8")
    };
    let block_of = |title: &str| {
        let (_, chapter) = GUIDE.split_once(title).expect("the chapter");
        shell_blocks(chapter)[0]
    };
    let is_quick = |line: &&str| !line.starts_with("cargo ") && !line.contains(" serve ");
    let first: Vec<_> = block_of("## Run it").lines().filter(is_quick).collect();
    assert_eq!(first.len(), 5);
    run(&first.join("\n"));

    let server = knowledge_that_delivers_here(&scratch);
    let url = server.base_url();
    let (_, port) = url.rsplit_once(':').expect("a port");
    let block = block_of("## Events in and out")
        .replace("8080", port)
        .replace("9000", &free_port());
    // It also works again, and approves no memory of another section.
    let pending = "api \"workspaces/$WORKSPACE/memories?reviewStatus=pending\"\n";
    for _ in 0..2 {
        let said = run(&format!("{block}{pending}"));
        for event in ["memory.updated", "citation.changed"] {
            said.assert_has(&format!("verified {event} "));
        }
        said.assert_has("\"review_backlog_count\":2");
        let pending = said.lines().last().expect("a list");
        assert!(pending.contains("\"sourceKey\":\"refunds\""), "{said}");
    }
    assert_eq!(server.terminate(), 0);
}

/// Starts a server that may deliver to this machine.
fn knowledge_that_delivers_here(scratch: &Scratch) -> Server {
    let config = "[webhooks]\nallow = [\"127.0.0.0/8\"]\nallow_http = true\n";
    let config = format!("--config={}", scratch.write("knowledge.toml", config));
    start(&words(&format!(
        "serve {config} {} --listen=127.0.0.1:0",
        scratch.data_dir()
    )))
}

/// Returns a free port, below the ephemeral ones.
fn free_port() -> String {
    let mut ports = (0..10_000).map(|offset| 20_000 + (std::process::id() + offset) % 10_000);
    let port = ports.find(|port| TcpListener::bind(format!("127.0.0.1:{port}")).is_ok());
    port.expect("one of them is free").to_string()
}
