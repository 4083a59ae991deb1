//! The example of an assistant, from its first recall to the relabelling of what it cited.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::acting::Acting;
use crate::receiver::{installed, printed};
use crate::support::{Scratch, knowledge};
use crate::text;

/// Time limit of a test that would hang.
const GUARD: Duration = Duration::from_secs(60);
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/assistant");
/// Packages that the tests install, among them those of the example.
const PACKAGES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/libraries/node/package.json"
);

const QUESTION: &str = "May I refund 600 euros?";
const LEARNED: &str = "Ada and Tom are the two who decide about refunds.";

/// The running example, which dropping kills.
struct Assistant {
    process: Child,
    printed: Receiver<Value>,
}

impl Assistant {
    /// Starts the example beside the installed packages, as `npm install` would put them there.
    fn start(scratch: &Scratch, environment: [(&str, &str); 3]) -> Self {
        let directory = scratch.path("assistant");
        fs::create_dir(&directory).expect("a directory");
        for file in ["assistant.mjs", "package.json"] {
            fs::copy(Path::new(EXAMPLE).join(file), directory.join(file)).expect("a copy");
        }
        let packages = Path::new(&installed("TEST_NODE_PACKAGES")).join("node_modules");
        symlink(packages, directory.join("node_modules")).expect("a link");
        let mut process = Command::new("node")
            .args(["assistant.mjs", QUESTION, LEARNED])
            .current_dir(directory)
            .envs(environment)
            .env_remove("PORT")
            .stdout(Stdio::piped())
            .spawn()
            .expect("Node.js starts");
        let printed = printed(&mut process);
        Self { process, printed }
    }

    /// Returns the next line, which is about this step.
    fn next(&self, step: &str) -> Value {
        let line = self.printed.recv_timeout(GUARD);
        let line = line.unwrap_or_else(|error| panic!("no line about {step}: {error}"));
        assert_eq!(line["step"], step, "{line}");
        line
    }

    /// Asserts that the program prints nothing more and succeeds.
    fn ends(mut self) {
        let line = self.printed.recv_timeout(GUARD);
        assert_eq!(line, Err(RecvTimeoutError::Disconnected));
        let status = self.process.wait().expect("wait");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Assistant {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn example_proposes_and_is_told_of_a_relabelling() {
    let acting = Acting::start(&[]);
    let service = &acting.service;
    let at = |rest: &str| format!("/v1/workspaces/{}/{rest}", acting.workspace);
    let cited = "Above 500 euros two people decide.";
    let cited_ids = acting.ingest(&[json!({ "title": "Refunds", "content": cited })]);
    acting.change(&cited_ids, json!({ "reviewStatus": "approved" }));
    let source = json!({ "name": "Assistants", "kind": "assistant" });
    let source = service.post("/v1/sources", &source);
    let key = json!({
        "name": "Laptop", "client": "other", "audience": ["workspace:support"],
        "proposalSourceId": source["id"],
    });
    let key = service.post(&at("mcp-keys"), &key);
    // All that the token is for is the subscription.
    let token = knowledge(&[
        "token",
        "create",
        "--member=maya",
        "--workspace=support",
        "--action=citation_subscription:manage",
        &service.scratch.data_dir(),
    ]);
    let token = token.ok().stdout;
    let environment = [
        ("KNOWLEDGE_URL", service.url.as_str()),
        ("KNOWLEDGE_KEY", text(&key["secret"])),
        ("KNOWLEDGE_TOKEN", token.trim()),
    ];
    let assistant = Assistant::start(&service.scratch, environment);

    let recalled = assistant.next("recalled");
    assert_eq!(recalled["memories"], json!([cited]));
    let recall = text(&recalled["recall_id"]);
    let subscribed = assistant.next("subscribed");
    let subscriptions = format!("/v1/citation-subscriptions?recall_id={recall}");
    assert_eq!(
        service.get(&subscriptions)["data"][0]["id"],
        subscribed["id"]
    );
    let proposed = assistant.next("proposed");
    assert_eq!(proposed["review_status"], "pending");
    let proposal = service.get(&format!("/v1/memories/{}", text(&proposed["id"])));
    assert_eq!(proposal["reviewStatus"], "pending");
    assert_eq!(proposal["title"], QUESTION);
    assert_eq!(proposal["content"], LEARNED);
    assert_eq!(proposal["sourceId"], source["id"]);
    assert_eq!(proposal["provenance"]["mcpKeyId"], key["id"]);
    assert_eq!(proposal["provenance"]["recallId"], recall);

    // The cited memory is no longer for the key, and the assistant is told without asking.
    acting.change(&cited_ids, json!({ "audienceTag": "team:sales" }));
    let told = assistant.next("told");
    assert_eq!(told["change"], "deleted");
    assert_eq!(told["memory_ids"], json!(cited_ids));
    let recalled = assistant.next("recalled");
    assert_eq!(recalled["memories"], json!([]));
    assistant.ends();

    // There is one recall, which nobody registered but the tool, and the subscription is over.
    let recalls = service.get(&at("recalls"));
    let recalls = recalls["data"].as_array().expect("a list").iter();
    let recalls: Vec<&str> = recalls.map(|one| text(&one["id"])).collect();
    assert_eq!(recalls, [recall]);
    assert_eq!(service.get(&subscriptions)["data"], json!([]));
}

#[test]
fn example_asks_for_the_packages_that_the_tests_install() {
    let dependencies = |path: &str| -> Value {
        let package = fs::read_to_string(path).expect("a file");
        let package: Value = serde_json::from_str(&package).expect("JSON");
        package["dependencies"].clone()
    };
    let example = dependencies(&format!("{EXAMPLE}/package.json"));
    let tests = dependencies(PACKAGES);
    for (name, version) in example.as_object().expect("dependencies") {
        assert_eq!(tests[name], *version, "{name}");
    }
}
