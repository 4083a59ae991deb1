//! What the README says of the eight operations is what the demo answers.

use serde_json::Value;

use crate::support::{Scratch, request_of, send, start};

const README: &str = include_str!("../../../README.md");

/// The `curl` lines, each with the JSON that stands behind it, if any.
fn examples() -> Vec<(&'static str, Option<Value>)> {
    let mut examples = Vec::new();
    let mut blocks = README.split("```");
    while let (Some(_), Some(block)) = (blocks.next(), blocks.next()) {
        if let Some(line) = block
            .strip_prefix("sh\n")
            .filter(|text| text.starts_with("curl "))
        {
            examples.push((line.trim(), None));
        } else if let Some(json) = block.strip_prefix("json\n") {
            let (_, answer) = examples.last_mut().expect("an answer stands behind a line");
            *answer = Some(serde_json::from_str(json).expect("JSON in the README"));
        }
    }
    examples
}

/// Asserts that both have the same fields, and values of the same kind. A list in the README may
/// leave out the rest, and what identifies something is another each time.
fn assert_same_shape(shown: &Value, answered: &Value, path: &str) {
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
        _ => panic!("{path}: the README shows {shown}, the answer has {answered}"),
    }
}

#[test]
fn every_operation_is_answered_as_the_readme_shows() {
    let scratch = Scratch::new();
    let data_dir = scratch.data_dir();
    let args = [
        "demo",
        &data_dir,
        "--listen=127.0.0.1:0",
        "--memories=200",
        "--output=json",
    ];
    let mut server = start(&args);
    let demo: Value = serde_json::from_str(&server.line()).expect("a line of JSON");
    let variables = [
        ("$URL", &demo["base_url"]),
        ("$TOKEN", &demo["bearer_token"]),
        ("$SESSION", &demo["session_token"]),
        ("$ORG", &demo["org_slug"]),
        ("$WORKSPACE", &demo["workspace_id"]),
        ("$ROLE", &demo["custom_role_ids"][0]),
        ("$RECALL", &demo["recall_id"]),
        ("$MEMORY", &demo["memory_ids"][0]),
    ];
    let examples = examples();
    assert_eq!(examples.len(), 8);
    for (line, shown) in &examples {
        let fill = |line: String, (name, value): &(&str, &Value)| {
            line.replace(name, value.as_str().expect("a value of the demo"))
        };
        let line = variables.iter().fold((*line).to_owned(), fill);
        let answer = send(&request_of(&line));
        assert!((200..300).contains(&answer.status), "{line}: {answer:?}");
        match shown {
            Some(shown) => assert_same_shape(shown, &answer.json(), "answer"),
            None => assert_eq!(answer.body, "", "{line}"),
        }
    }
    assert_eq!(server.terminate(), 0);
}
