//! Tests of `knowledge webhook post` and `listen`, which verifies the former's signatures.

use serde_json::{Value, json};

use crate::support::{Scratch, knowledge, start};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

const MESSAGE: &str = r#"{"type": "memory.updated", "timestamp": "2026-01-31T09:30:00.000Z", "data": {"memory_ids": []}}"#;

#[test]
fn listen_prints_signed_messages_and_rejects_others() {
    let scratch = Scratch::new();
    let file = scratch.write("message.json", MESSAGE);
    let secret = format!("--secret={SECRET}");
    let mut listener = start(&[
        "webhook",
        "listen",
        "--listen=127.0.0.1:0",
        &secret,
        "--count=2",
        "--output=json",
    ]);
    let url = format!("{}/updates", listener.base_url());

    knowledge(&["webhook", "post", &url, &file, &secret, "--id=msg_1"]).ok();
    let shown: Value = serde_json::from_str(&listener.line()).expect("a line of JSON");
    let expected = json!({
        "path": "/updates",
        "id": "msg_1",
        "verified": true,
        "type": "memory.updated",
        "timestamp": "2026-01-31T09:30:00.000Z",
        "data": { "memory_ids": [] },
    });
    assert_eq!(shown, expected);

    let other = format!("--secret={OTHER}");
    let refused = knowledge(&["webhook", "post", &url, &file, &other]).failed();
    assert!(refused.contains("401"), "{refused}");
    let shown: Value = serde_json::from_str(&listener.line()).expect("a line of JSON");
    assert_eq!(shown["verified"], false, "{shown}");
    let said = listener.error_with("error: ");
    assert!(
        said.contains("1 of 2 deliveries had no valid signature"),
        "{said}"
    );
    assert_eq!(listener.ended(), 1);
}

#[test]
fn listen_responds_with_the_chosen_status() {
    let scratch = Scratch::new();
    let file = scratch.write("message.json", MESSAGE);
    let secret = format!("--secret={SECRET}");
    let mut listener = start(&[
        "webhook",
        "listen",
        "--listen=127.0.0.1:0",
        "--status=503",
        "--count=1",
        &secret,
    ]);
    let url = listener.base_url();
    let refused = knowledge(&["webhook", "post", &url, &file, &secret]).failed();
    assert!(refused.contains("503"), "{refused}");
    let line = listener.line();
    assert!(line.starts_with("verified memory.updated msg_"), "{line}");
    assert_eq!(listener.ended(), 0);
}

#[test]
fn post_rejects_invalid_secret_before_sending() {
    let arguments = ["webhook", "post", "http://127.0.0.1:9/", "--secret=hunter2"];
    let refused = knowledge(&arguments).refused();
    assert!(
        refused.contains("must be whsec_ followed by base64"),
        "{refused}"
    );
}
