//! The example of an application with an index of its own.

use std::process::Command;

use serde_json::{Value, json};

use crate::acting::Acting;
use crate::receiver::installed;
use crate::text;

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../examples/own-index/answer.py"
);

#[test]
fn example_answers_two_people_differently_with_one_token() {
    let acting = Acting::start(&["memory:share"]);
    // The index alone knows what the memories are about: no word of the question is in them.
    let texts = [
        ("Drain it first.", "team:platform"),
        ("Ask customers first.", "team:sales"),
        ("On Mondays.", "org:acme"),
        ("Nobody has looked at this.", "org:acme"),
    ];
    let new = texts.map(|(text, _)| json!({ "title": "Note", "content": text }));
    let ids = acting.ingest(&new);
    acting.change(&ids[..3], json!({ "reviewStatus": "approved" }));
    for (memory, (_, audience)) in ids.iter().zip(texts) {
        let of_one = std::slice::from_ref(memory);
        acting.change(of_one, json!({ "audienceTag": audience }));
    }
    let lines = ids.iter().zip(texts);
    let lines = lines.map(|(id, (text, _))| {
        let text = format!("How to restart the queue: {text}");
        format!("{}\n", json!({ "id": id, "text": text }))
    });
    let file = lines.collect::<String>();
    let file = acting.service.scratch.write("texts.jsonl", &file);
    let output = Command::new(installed("TEST_PYTHON"))
        .args([PROGRAM, &file, "How do I restart the queue?", "vic", "tom"])
        .env("KNOWLEDGE_URL", &acting.service.url)
        .env("KNOWLEDGE_TOKEN", &acting.bot)
        .env("KNOWLEDGE_WORKSPACE", &acting.workspace)
        .output()
        .expect("Python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let shown = String::from_utf8(output.stdout).expect("text");
    let shown = shown.lines();
    let shown: Vec<Value> = shown
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    for (line, (member, own)) in shown.iter().zip([("vic", 0), ("tom", 1)]) {
        assert_eq!(line["member"], member);
        let memories = line["memories"].as_array().expect("a list").iter();
        let mut memories: Vec<&str> = memories.map(text).collect();
        memories.sort_unstable();
        let mut expected = [texts[own].0, texts[2].0];
        expected.sort_unstable();
        assert_eq!(memories, expected, "{member}");
    }
}
